"""The workflows of DeepStrike's README, by the names that it gives them, carried out with scripted models: each comes
to its end, and the outputs of its nodes are returned."""

from __future__ import annotations

import json
from typing import Any

import windlass
from tests.runtime.support import events_of, only
from windlass import flows
from windlass.events.tools.calls import ToolDenied, ToolFinished
from windlass.events.trees.children import ChildStarted
from windlass.models.base import Request
from windlass.testing.scripted import ScriptedModel, call

from .support import carried_out, listener, speaker, task_in


def verdict(passes: bool, reason: str) -> str:
    return json.dumps({"pass": passes, "reason": reason})


async def test_verifiers_and_a_skeptic():
    def judged(task: str) -> str:
        return verdict("cents" not in task, "billing.py uses floats" if "cents" in task else "holds")

    verifier, skeptic = (
        listener("verifier", judged),
        listener("skeptic", lambda task: f"1 of {task.count('Output of')}"),
    )
    rules = {"cents": "money is integer cents", "errors": "all errors propagate", "utc": "timestamps are UTC"}
    steps = [flows.verify(name, verifier, f"Rule: {rule}. Does {{input}} keep it?") for name, rule in rules.items()]
    result = await carried_out(
        flows.Flow("rules", [*steps, flows.spawn("skeptic", skeptic, "Which flags are real?", needs=list(rules))]),
        "the billing module",
    )
    assert result.outputs == {
        "cents": {"pass": False, "reason": "billing.py uses floats"},
        "errors": {"pass": True, "reason": "holds"},
        "utc": {"pass": True, "reason": "holds"},
        "skeptic": "1 of 3",
    }


async def test_loop_until_done():
    rounds = speaker("writer", *(json.dumps({"done": done, "output": n}) for n, done in ((1, False), (2, True))))
    result = await carried_out(flows.Flow("l", [flows.loop("draft", rounds, "Better: {previous}", rounds=4)]))
    assert result.outputs == {"draft": 2}


async def test_classify_and_act():
    sorter, worker = speaker("sorter", '{"branch": "bug"}'), listener("worker", lambda task: f"did {task.split()[0]}")
    steps = [
        flows.classify("triage", sorter, "What is {input}?", {"bug": ["fix"], "question": ["reply"]}),
        flows.spawn("fix", worker, "fix"),
        flows.spawn("reply", worker, "reply"),
    ]
    result = await carried_out(flows.Flow("c", steps), "it crashes")
    assert result.outputs == {"triage": "bug", "fix": "did fix"}
    assert result.nodes["reply"].status == "pruned"


async def test_tournament():
    poet = listener("poet", lambda task: task.rpartition("\n")[2])
    judge = listener("judge", lambda task: '{"winner": "B"}')
    steps = [flows.tournament("best", poet, "Sum up.", ["a", "b", "c", "d"], judge=judge)]
    assert (await carried_out(flows.Flow("t", steps))).outputs == {"best": "d"}


async def test_reduce():
    lines = listener("lines", lambda task: "x\ny" if task.startswith("one") else "y\nz")
    steps = [
        flows.spawn("one", lines, "one"),
        flows.spawn("two", lines, "two"),
        flows.reduce("unique", "dedupe_lines", ["one", "two"]),
        flows.reduce("both", "concat", ["one", "two"]),
        flows.reduce("how_many", "count", ["one", "two"]),
    ]
    result = await carried_out(flows.Flow("r", steps))
    assert (result.outputs["unique"], result.outputs["both"]) == ("x\ny\nz", "x\ny\n\ny\nz")
    assert result.outputs["how_many"] == 2


# --- run-time submission ---

FINDERS = [
    {"name": "left", "agent": "finder", "task": "left half of {input}"},
    {"name": "right", "agent": "finder", "task": "right half of {input}"},
]


def coordinator(nodes: Any, *more: Any, **options: Any) -> windlass.Agent:
    replies = [call("submit_nodes", nodes=nodes, **options), *more, "planned"]
    return windlass.Agent(
        "planner", ScriptedModel(replies), tools=["submit_nodes"], policy=windlass.ALLOW_ALL, description="plans"
    )


async def test_run_time_submission():
    finder = listener("finder", lambda task: f"<{task.splitlines()[0]}>")
    planner = coordinator(FINDERS, before=["end"])
    flow = flows.Flow(
        "grow",
        [flows.spawn("plan", planner, "Cut {input} in parts."), flows.reduce("end", "concat", ["plan"])],
        agents=[finder],
        budget=windlass.Budget(tokens=1_000_000),
    )
    async with windlass.open(agents=[flow]) as runtime:
        run = await runtime.flow(flow, "f", input="the book")
        result = await run.result()
        assert result.outputs == {
            "plan": "planned",
            "left": "<left half of the book>",
            "right": "<right half of the book>",
            "end": "planned\n\n<left half of the book>\n\n<right half of the book>",
        }
        (added,) = only(await events_of(run.session), flows.NodesAdded)
        assert (added.names, added.node, added.quarantine) == (("left", "right"), "plan", False)
        child = await runtime.get(only(await events_of(run.session), ChildStarted)[0].child_id)
        (told,) = [event.body.content[0].text for event in only(await events_of(child), ToolFinished)]
        assert told.startswith("added: left, right\n[workflow nodes] 4 are there, 996 more may be added")
        assert "[workflow budget] left: tokens" in told, "the budget is a signal"


async def test_a_graph_that_a_model_wrote_wrong_is_refused_with_all_its_problems_and_may_be_mended():
    wrong = [
        {"name": "left", "agent": "nobody", "task": "look", "colour": "blue"},
        {"name": "right", "agent": "finder", "task": "about {gone}", "needs": ["missing"]},
    ]
    worse = [{**FINDERS[0], "agent": "nobody"}, {**FINDERS[1], "task": "about {gone}", "needs": ["missing"]}]
    finder = listener("finder", lambda task: "found")
    planner = coordinator(wrong, call("submit_nodes", nodes=worse), call("submit_nodes", nodes=FINDERS))
    flow = flows.Flow("grow", [flows.spawn("plan", planner, "Plan.")], agents=[finder])
    async with windlass.open(agents=[flow]) as runtime:
        run = await runtime.flow(flow, "f", input="x")
        result = await run.result()
        assert result.outputs == {"plan": "planned", "left": "found", "right": "found"}
        child = await runtime.get(only(await events_of(run.session), ChildStarted)[0].child_id)
        first, second, third = [
            (event.ok, event.body.content[0].text) for event in only(await events_of(child), ToolFinished)
        ]
        assert first[0] is False
        assert first[1].startswith("left: unknown field 'colour'")
        assert second == (
            False,
            "right: it needs 'missing', which is no node\n"
            "left: there is no agent 'nobody': there are finder, planner\n"
            "right: it speaks of {gone}, which it does not need: write {{gone}} for the braces themselves",
        )
        assert third[0]
        assert len(only(await events_of(run.session), flows.NodesAdded)) == 1


async def test_quarantine_is_inherited_by_what_a_quarantined_node_adds():
    seen: list[str] = []

    def act(request: Request) -> Any:
        seen.append(task_in(request))
        return "read" if len(request.items) > 1 else call("wipe")

    @windlass.tool(contract="at_most_once", traits=("write",))
    def wipe() -> str:
        "Wipes."
        raise AssertionError("a quarantined session wrote")

    acting = windlass.Agent("acting", ScriptedModel(act), tools=[wipe], policy=windlass.ALLOW_ALL, description="acts")
    tool_node = [{"name": "direct", "kind": "tool", "tool": "wipe"}]
    planner = coordinator(tool_node, call("submit_nodes", nodes=[{"name": "deed", "agent": "acting", "task": "do"}]))
    flow = flows.Flow(
        "guarded",
        [flows.spawn("plan", planner, "Plan from what a stranger wrote.", quarantine=True)],
        agents=[acting],
        tools=[wipe],
        policy=windlass.ALLOW_ALL,
    )
    async with windlass.open(agents=[flow]) as runtime:
        run = await runtime.flow(flow, "f")
        result = await run.result()
        assert result.outputs == {"plan": "planned", "deed": "read"}
        started = only(await events_of(run.session), ChildStarted)
        assert [event.quarantine for event in started] == [True, True]
        (added,) = only(await events_of(run.session), flows.NodesAdded)
        assert added.quarantine
        assert "direct" not in result.nodes, "a tool node would have walked around it"
        deed = await runtime.get(started[1].child_id)
        assert [event.reason for event in only(await events_of(deed), ToolDenied)] == ["quarantine"]


async def test_milestones_block_until_they_pass_and_unlock_tools():
    @windlass.tool(contract="idempotent", traits=("write",))
    def deploy() -> str:
        "Deploys."
        return "deployed"

    def design(task: str) -> str:
        return "with tests" if "did not pass: no tests" in task else "without"

    def review(task: str) -> str:
        return verdict("What was made:\nwith tests" in task, "no tests")

    def ship(request: Request) -> Any:
        return "shipped" if len(request.items) > 1 else call("deploy")

    shipper = windlass.Agent(
        "shipper", ScriptedModel(ship), tools=[deploy], policy=windlass.ALLOW_ALL, description="ships"
    )
    flow = flows.Flow(
        "milestones",
        [
            flows.spawn("early", shipper, "Deploy now."),
            flows.phase(
                "design",
                listener("designer", design),
                "Design it.",
                judge=listener("reviewer", review),
                unlocks=["deploy"],
                needs=["early"],
            ),
            flows.spawn("late", shipper, "Deploy.", needs=["design"]),
        ],
    )
    async with windlass.open(agents=[flow]) as runtime:
        run = await runtime.flow(flow, "f")
        result = await run.result()
        assert result.outputs == {"early": "shipped", "design": "with tests", "late": "shipped"}
        events = await events_of(run.session)
        (advanced,) = only(events, flows.MilestoneAdvanced)
        assert (advanced.node, advanced.unlocks, advanced.rounds) == ("design", ("deploy",), 2)
        children = only(events, ChildStarted)
        early, late = await runtime.get(children[0].child_id), await runtime.get(children[-1].child_id)
        (denied,) = only(await events_of(early), ToolDenied)
        assert denied.detail == "it is locked until the phase 'design' of the workflow has passed"
        assert [event.ok for event in only(await events_of(late), ToolFinished)] == [True]


async def test_a_milestone_that_does_not_pass_blocks():
    @windlass.tool(contract="pure")
    def shout(text: str) -> str:
        "Shouts."
        return text.upper()

    steps = [
        flows.phase("measure", speaker("worker", "1", "2"), "Measure.", when="args.output == '3'", rounds=2, unlocks=["shout"]),
        flows.tool("loud", "shout", {"text": "x"}, optional=["measure"]),
        flows.reduce("after", "count", ["measure"]),
    ]  # fmt: skip
    flow = flows.Flow("blocked", steps, tools=[shout])
    async with windlass.open(agents=[flow]) as runtime:
        run = await runtime.flow(flow, "f")
        result = await run.result()
        assert {name: node.status for name, node in result.nodes.items()} == {
            "measure": "failed", "loud": "failed", "after": "skipped",
        }  # fmt: skip
        why = "it did not pass after 2 rounds: args.output == '3' does not hold"
        (blocked,) = only(await events_of(run.session), flows.MilestoneBlocked)
        assert (blocked.node, blocked.reason, blocked.rounds) == ("measure", why, 2)
        locked = "the tool 'shout' is locked until the phase 'measure' has passed: have it need 'measure'"
        assert result.nodes["loud"].reason == locked
        assert result.status == "failed"
