"""Failures in a tree are told with the place where they happened, and with what happened there."""

from __future__ import annotations

from typing import Any

import pytest

import windlass
from windlass import flows
from windlass.cli.screen.ps_tree import tree_lines
from windlass.events.runs import RunFailed
from windlass.events.trees.children import ChildFinished
from windlass.kernel.parts.trees.child_side import cause_of
from windlass.testing.scripted import ScriptedModel, by_history, call, fail

from .support import agent_of, events_of, only, sound

CAUSE = "400: no such field 'colour'"


def leaf() -> windlass.Agent:
    """An agent whose model fails for good."""
    return agent_of(fail("invalid_request", CAUSE), name="leaf", description="fails")


def over(below: windlass.Agent, name: str) -> windlass.Agent:
    model = ScriptedModel(by_history([call("spawn", agent=below.name, task="x"), f"{name} done"]))
    return windlass.Agent(name, model, description="hands on", agents=[below])


async def test_the_cause_of_a_failure_three_levels_down_stands_in_the_table_of_the_root():
    middle = over(leaf(), "mid")
    root = over(over(middle, "top"), "root")
    async with windlass.open(agents=[root]) as rt:
        session = await rt.session(root, "s")
        await session.prompt("go")
        await session.result()
        table = await session.processes()
        (failed,) = [process for process in table if process.ended == "failed"]
        assert (failed.scope, failed.why) == ("c6.0~c6.0~c6.0", CAUSE)
        assert any(f"(failed: {CAUSE})" in line for line in tree_lines(table, 200))
        (end,) = only(await events_of(await rt.get("s~c6.0~c6.0")), ChildFinished)
        assert (end.failed_in, end.failure.kind, end.failure.message) == (failed.scope, "invalid_request", CAUSE)
        assert isinstance(middle.model, ScriptedModel)
        assert CAUSE in str(middle.model.requests[-1].items[-1])
        await sound(await rt.get(failed.session))


async def test_a_workflow_that_fails_names_the_session_and_the_cause():
    flow = flows.Flow("work", [flows.spawn("one", leaf(), "do"), flows.reduce("all", "count", ["one"])])
    async with windlass.open(agents=[flow]) as rt:
        run = await rt.flow(flow, "f")
        result = await run.result()
        await sound(run.session)
        (end,) = only(await events_of(run.session), ChildFinished)
        assert result.failure is not None
        assert result.failure.message.endswith(f"all: it needs one, since one: {end.failed_in} failed: {CAUSE}")
        assert end.failed_in == end.call_id


def broken(outputs: dict[str, Any]) -> int:
    raise ValueError("no such colour")


@windlass.tool(contract="pure")
def stamp(what: int) -> str:
    """Stamp it.

    Args:
        what: What.
    """
    return f"stamped {what}"


def work_without_what_it_could_do_without() -> flows.Flow:
    """A workflow whose optional node fails in a child, and whose result is lost since a tool was given a text."""
    good = agent_of("fine", name="good", description="works")
    return flows.Flow(
        "work",
        [
            flows.spawn("extra", leaf(), "do"),
            flows.spawn("good", good, "do"),
            flows.tool("stamp", "stamp", {"what": "{good}"}, needs=["good"], optional=["extra"]),
            flows.reduce("report", "count", ["stamp"]),
        ],
        results=["report"],
        tools=[stamp],
    )


async def test_a_workflow_names_the_node_that_its_result_was_lost_with_and_no_other_that_failed():
    flow = work_without_what_it_could_do_without()
    async with windlass.open(agents=[flow]) as rt:
        result = await (await rt.flow(flow, "f")).result()
        assert {name: node.status for name, node in result.nodes.items()} == {
            "extra": "failed",
            "good": "done",
            "stamp": "failed",
            "report": "skipped",
        }
        assert result.failure is not None
        assert result.failure.message == (
            "the workflow did not end well: report: it needs stamp, since stamp: denied: what: must be integer, got string 'fine'"
        )


async def test_a_workflow_below_another_hands_on_why_its_own_result_was_lost():
    """What the parent of a workflow is told is the workflow's own failure, not that of a child it did without."""
    flow = work_without_what_it_could_do_without()
    async with windlass.open(agents=[flow]) as rt:
        run = await rt.flow(flow, "f")
        await run.result()
        state = await run.session.state()
        (end,) = only(await events_of(run.session), RunFailed)
        assert state.children.cause is not None
        told = cause_of(state, end)
        assert told is not None
        assert (told.failure.kind, told.scope) == ("node_failed", state.scope)
        assert "since stamp: denied: what: must be integer" in told.failure.message


@pytest.mark.parametrize(
    ("lost", "on_failure", "told"),
    [
        (
            [flows.gate("g", when="1 / 0 > 0"), flows.reduce("b", "count", ["g"])],
            "continue",
            "b: it needs g, since g: ",
        ),
        (
            [
                flows.gate("ok", when="true"),
                flows.reduce("r", "strange", ["ok"]),
                flows.reduce("b", "count", ["r"]),
                flows.reduce("c", "count", ["b"]),
            ],
            "stop",
            "c: r failed, since r: ",
        ),
    ],
)
async def test_what_failed_without_a_child_is_named_too(lost, on_failure, told: str):
    flow = flows.Flow("work", lost, on_failure=on_failure, reducers={"strange": broken})
    async with windlass.open(agents=[flow]) as rt:
        result = await (await rt.flow(flow, "f")).result()
        assert result.failure is not None
        assert result.failure.message.startswith(f"the workflow did not end well: {told}")
        (failed,) = [node for node in result.nodes.values() if node.status == "failed"]
        assert failed.reason
        assert result.failure.message.endswith(failed.reason)
