"""Workflows that grow while they run: within their quotas, by people and by nodes at work, once each."""

from __future__ import annotations

import asyncio

import pytest

import windlass
from tests.runtime.support import events_of, only, started
from windlass import flows
from windlass.events.errors import Refused
from windlass.events.tools.calls import ToolFinished
from windlass.events.trees.children import ChildStarted
from windlass.events.trees.flows import NodeStarted
from windlass.models.base import Request
from windlass.testing.scripted import ScriptedModel, call

from .support import listener


def echo(task: str) -> str:
    return f"<{task.splitlines()[0]}>"


async def test_a_person_adds_nodes_to_a_workflow_at_work_and_to_one_that_waits():
    free = asyncio.Event()

    async def waits(request: Request) -> str:
        await free.wait()
        return "at last"

    slow, worker = windlass.Agent("slow", ScriptedModel(waits)), listener("worker", echo)
    flow = flows.Flow(
        "grow",
        [
            flows.spawn("slow", slow, "wait"),
            flows.gate("agree", "Go on?", needs=["slow"]),
            flows.reduce("end", "concat", ["agree"]),
        ],
        agents=[worker],
    )
    async with windlass.open(agents=[flow]) as runtime:
        run = await runtime.flow(flow, "f")
        await started(run.session, ChildStarted)
        await run.add([flows.spawn("more", "worker", "more")], before=["end"])
        free.set()
        (asked,) = (await run.result()).waiting_for
        await run.add([flows.spawn("late", "worker", "late {slow}", needs=["slow"])], before=["end"])
        await started(run.session, flows.NodeFinished, count=3)
        assert (await run.nodes())["late"].output == "<late at last>"
        await run.session.answer(asked, "yes")
        assert (await run.result()).outputs == {
            "slow": "at last", "more": "<more>", "late": "<late at last>", "agree": "yes",
            "end": "yes\n\n<more>\n\n<late at last>",
        }  # fmt: skip
        with pytest.raises(Refused, match="has run: nothing can be added"):
            await run.add([flows.spawn("too_late", "worker", "x")])


@pytest.mark.parametrize(
    ("steps", "before", "told"),
    [
        ([flows.spawn("a", "worker", "x")], (), "a: there is a node of this name: give it another one"),
        ([flows.spawn("b", "worker", "x", needs=["c"])], (), "b: it needs 'c', which is no node"),
        ([flows.spawn("b", "worker", "x", needs=["end"])], ("end",), "b: it needs end, which is to wait for it"),
        (
            [flows.spawn("b", "worker", "x", needs=["c"]), flows.spawn("c", "worker", "x", needs=["b"])],
            (),
            "b, c: they wait for each other in a circle",
        ),
        ([flows.spawn("b", "worker", "x")], ("a",), "before: a is working: only a node that has not begun"),
        ([flows.spawn("b", "worker", "x")], ("gone",), "before: gone is not there"),
        ([flows.gate("b", "Really?")], (), "b: this workflow cannot ask people"),
        ([flows.classify("b", "worker", "x", {"one": ["end"], "two": []})], (), "b: it leads to end: a new classifier"),
        ([flows.spawn(f"n{n}", "worker", "x") for n in range(4)], (), "4 nodes at once, and 3 are the most"),
        ([flows.spawn(f"n{n}", "worker", "x") for n in range(3)], (), "3 nodes, and 2 more may be added (nodes_max 4)"),
        ([], (), "there is nothing to add"),
    ],
)
async def test_what_does_not_fit_is_refused_and_nothing_is_added(steps, before, told):
    async def never(request: Request) -> str:
        await asyncio.Event().wait()
        return ""

    flow = flows.Flow(
        "grow",
        [flows.spawn("a", windlass.Agent("slow", ScriptedModel(never)), "wait"), flows.reduce("end", "count", ["a"])],
        agents=[listener("worker", echo)],
        settings=windlass.Settings(nodes_max=4, nodes_added_max=3),
    )
    async with windlass.open(agents=[flow]) as runtime:
        run = await runtime.flow(flow, "f")
        await started(run.session, ChildStarted)
        with pytest.raises(Refused) as caught:
            await run.add(steps, before=before)
        assert told in str(caught.value)
        assert list(await run.nodes()) == ["a", "end"]


async def test_a_quota_holds_for_models_and_is_told_them():
    nodes = [{"name": f"n{number}", "agent": "worker", "task": "x"} for number in range(3)]
    model = ScriptedModel([call("submit_nodes", nodes=nodes), call("submit_nodes", nodes=nodes[:2]), "done"])
    planner = windlass.Agent("planner", model, tools=["submit_nodes"], policy=windlass.ALLOW_ALL)
    flow = flows.Flow(
        "grow",
        [flows.spawn("plan", planner, "plan")],
        agents=[listener("worker", echo)],
        settings=windlass.Settings(nodes_max=3),
    )
    async with windlass.open(agents=[flow]) as runtime:
        run = await runtime.flow(flow, "f")
        assert sorted((await run.result()).outputs) == ["n0", "n1", "plan"]
        (added,) = only(await events_of(run.session), flows.NodesAdded)
        assert (added.names, added.left) == (("n0", "n1"), 0)


async def test_a_coordinator_is_told_what_it_may_add_and_what_is_left():
    tasks: list[str] = []

    def heard(task: str) -> str:
        tasks.append(task)
        return "nothing to add"

    planner = listener("planner", heard, tools=["submit_nodes"])
    flow = flows.Flow("grow", [flows.spawn("plan", planner, "Plan.")], budget=windlass.Budget(tokens=50_000))
    async with windlass.open(agents=[flow]) as runtime:
        await (await runtime.flow(flow, "f")).result()
    assert tasks == [
        "Plan.\n\n[workflow nodes] 1 are there, 999 more may be added with submit_nodes\n"
        "[workflow agents] planner: planner\n[workflow graph] plan (computing)\n"
        "[workflow budget] left: tokens 50000"
    ]


async def test_a_session_that_works_for_no_workflow_adds_nothing():
    model = ScriptedModel([call("submit_nodes", nodes=[{"name": "a"}]), "so it is"])
    agent = windlass.Agent("alone", model, tools=["submit_nodes"], policy=windlass.ALLOW_ALL)
    async with windlass.open(agents=[agent]) as runtime:
        session = await runtime.session(agent, "s")
        await session.prompt("go")
        assert (await session.result()).text == "so it is"
        (told,) = [event.body.content[0].text for event in only(await events_of(session), ToolFinished)]
        assert told == "this session works for no workflow: nothing can be added"


async def test_a_fork_and_a_restart_have_what_was_added(tmp_path):
    worker = listener("worker", echo)
    flow = flows.Flow("grow", [flows.gate("agree", "Go on?")], agents=[worker])
    async with windlass.open(tmp_path / "work.db", agents=[flow]) as runtime:
        run = await runtime.flow(flow, "f")
        (asked,) = (await run.result()).waiting_for
        await run.add([flows.spawn("more", "worker", "more", needs=["agree"])])
    async with windlass.open(tmp_path / "work.db", agents=[flow]) as runtime:
        run = await runtime.flow(flow, "f")
        assert list(await run.nodes()) == ["agree", "more"]
        fork = await run.session.fork("g")
        assert list((await fork.state()).flow.nodes) == ["agree", "more"]
        await run.session.answer(asked, "yes")
        assert (await run.result()).outputs == {"agree": "yes", "more": "<more>"}
        assert [event.node for event in only(await events_of(run.session), NodeStarted)] == ["agree", "more"]
