"""Workflows: every kind of node, carried out, left out, tried again, failed, stopped and taken up again."""

from __future__ import annotations

import asyncio
import json

import windlass
from windlass import flows
from windlass.events.questions import QuestionRequested
from windlass.events.trees.children import ChildFinished, ChildStarted
from windlass.events.trees.flows import NodeFinished
from windlass.events.values.failures import failure
from windlass.models.base import Request
from windlass.runtime.api.flows import FlowRun
from windlass.testing.scripted import ScriptedModel, call

from .stage import QUICK, Play, Stage, scripted


@windlass.tool(contract="pure")
def add(left: int, right: int) -> int:
    "Adds two numbers."
    return left + right


async def never(request: Request) -> str:
    await asyncio.Event().wait()
    return ""


def agent(name: str, *replies: object) -> windlass.Agent:
    return windlass.Agent(name, model=scripted(*replies), description=name, settings=QUICK)


def research() -> flows.Flow:
    """Every kind of node, and all that may be said of one."""
    verdict = json.dumps({"pass": True, "reason": "as it says"})
    return flows.Flow(
        "research",
        [
            flows.classify("kind", agent("sorter", "claims"), "{input}?", {"claims": ["find"], "else": ["say"]}),
            flows.spawn("find", agent("finder", "no", '["a", "b"]'), "Find claims.", output={"type": "array"}),
            flows.spawn("say", agent("teller", "never"), "Say so.", quarantine=True),
            flows.map_over("check", "find", agent("checker", "a holds", "b holds"), "Check {item}.", items=8),
            flows.verify(
                "skeptic", agent("skeptic", verdict), "Which flags are real?", needs=["check"], sees_budget=True
            ),
            flows.gate("passed", when="args.skeptic.pass", needs=["skeptic"]),
            flows.loop(
                "draft", agent("writer", '{"done": false, "output": 1}', '{"done": true, "output": 2}'),
                "Write {previous}", rounds=3, needs=["passed"], budget=windlass.Budget(tokens=10_000),
            ),
            flows.tournament("best", agent("poet", "x", "xx"), "Sum up.", ["short", "long"], judge=agent("judge", "B")),
            flows.tool("sum", "add", {"left": "{draft}", "right": 1}, needs=["draft"]),
            flows.gate("agree", "Send {best}?", needs=["best", "sum"]),
            flows.spawn(
                "bad", agent("broken", failure("invalid_request", "no"), "now"), "Try.",
                retries=1, retry_wait=0.02, timeout=60,
            ),
            flows.reduce("end", "concat", ["agree", "bad"], quorum=1, optional=["sum"]),
        ],
        tools=[add],
        budget=windlass.Budget(tokens=1_000_000),
        parallel=1,
        results=["end"],
    )  # fmt: skip


async def workflow(stage: Stage) -> None:
    """A workflow with every kind of node waits for a person and comes to its end."""
    flow = research()
    async with stage.open(flow) as rt:
        run = await rt.flow(flow, "workflow", input="a report")
        stage.listen(rt, run.session)
        (asked,) = await stage.until(run.session, QuestionRequested)
        await run.session.answer(asked.question_id, "yes")
        await stage.until(run.session, NodeFinished, len(flow.graph.nodes))
        await run.session.wait_idle()


async def workflow_stopped(stage: Stage) -> None:
    """Workflows that fail: one goes on and is cancelled, a fork of it is dropped what was open, one stops at once."""
    hanging = windlass.Agent("hanging", model=ScriptedModel(never), description="hangs", settings=QUICK)
    flow = flows.Flow(
        "stopped",
        [
            flows.spawn("bad", agent("broken", failure("invalid_request", "no"), "now"), "Try."),
            flows.reduce("after", "count", ["bad"]),
            flows.gate("closed", when="false", needs=["after"]),
            flows.spawn("hangs", hanging, "Wait.", needs=["after"]),
        ],
    )
    strict = flows.Flow(
        "strict",
        [flows.spawn("waits", hanging, "Wait."), flows.gate("fails", when="args.input.missing")],
        on_failure="stop",
    )
    async with stage.open(flow, strict) as rt:
        run = await rt.flow(flow, "workflow_stopped")
        await run.result()
        await run.wake()
        await stage.until(run.session, ChildStarted, 3)
        await run.interrupt()
        await run.session.wait_idle()
        await run.wake()
        await stage.until(run.session, ChildStarted, 4)
        await run.session.fork("workflow_forked")
        await run.cancel()
        await stage.until(run.session, ChildFinished, 4)
        await run.session.wait_idle()
        other: FlowRun = await rt.flow(strict, "workflow_strict", input={})
        await other.result()
        await stage.until(other.session, ChildFinished)
        await other.session.wait_idle()


async def workflow_grown(stage: Stage) -> None:
    """A workflow whose coordinator, which may only read, adds nodes; a person adds one; one phase passes and unlocks a
    tool, another one blocks."""
    verdict = {True: '{"pass": true, "reason": "as asked"}', False: '{"pass": false, "reason": "too short"}'}
    added = [{"name": "part", "agent": "helper", "task": "Do a part."}]
    planner = windlass.Agent(
        "planner", model=scripted(call("submit_nodes", nodes=added, before=["end"]), "planned"), description="plans",
        tools=["submit_nodes"], policy=windlass.ALLOW_ALL, settings=QUICK,
    )  # fmt: skip
    flow = flows.Flow(
        "grown",
        [
            flows.spawn("plan", planner, "Plan it.", quarantine=True),
            flows.gate("agree", "Go on?", needs=["plan"]),
            flows.phase(
                "design", agent("designer", "short", "long"), "Design it.", needs=["agree"], unlocks=["add"],
                judge=agent("reviewer", verdict[False], verdict[True]),
            ),
            flows.tool("sum", "add", {"left": 1, "right": 2}, needs=["design"]),
            flows.phase("measure", agent("gauge", "1"), "Measure.", when="args.output == '2'", rounds=1, needs=["sum"]),
            flows.reduce("end", "concat", ["plan"], optional=["measure"]),
        ],
        agents=[agent("helper", "a part", "one more")],
        tools=[add],
    )  # fmt: skip
    async with stage.open(flow) as rt:
        run = await rt.flow(flow, "workflow_grown")
        (asked,) = await stage.until(run.session, QuestionRequested)
        await run.add([flows.spawn("more", "helper", "One more.")])
        await stage.until(run.session, NodeFinished, 3)
        await run.session.answer(asked.question_id, "yes")
        await stage.until(run.session, NodeFinished, len(flow.graph.nodes) + 2)
        await run.session.wait_idle()


SCENARIOS: dict[str, Play] = {
    "workflow": workflow,
    "workflow_stopped": workflow_stopped,
    "workflow_grown": workflow_grown,
}
