"""Nobody is asked below a session in autopilot: what would be asked about is denied, however deep, and nothing waits."""

from __future__ import annotations

from typing import Any

import pytest

import windlass
from tests.runtime.support import only
from windlass.events.base import Event
from windlass.events.questions import QuestionRequested
from windlass.events.tools.calls import ToolDenied, ToolFinished
from windlass.events.tools.permissions import PermissionRequested
from windlass.testing import ScriptedModel, by_history, call


@windlass.tool
def pay(cents: int) -> str:
    "Pay."
    return "paid"


ASKING = windlass.Policy([windlass.ask("pay", missing_ok=True)], default="allow")
NODES = [{"name": "a", "kind": "spawn", "agent": "payer", "task": "Pay."}]
GATE = [{"name": "a", "kind": "gate", "question": "Go on?"}]
BELOW: dict[str, Any] = {
    "a child": call("spawn", agent="payer", task="Pay."),
    "a child of a child": call("spawn", agent="foreman", task="Have it paid."),
    "a child of a workflow": call("run_workflow", nodes=NODES, task="Pay."),
    "a gate of a workflow": call("run_workflow", nodes=GATE, task="Pay."),
    "a child that asks itself": call("spawn", agent="asker", task="Ask."),
    "a child that plans": call("spawn", agent="planner", task="Plan."),
    "a child that asks for more": call("spawn", agent="spender", task="Think.", limits={"tokens": 1}),
}


def lead(first: Any, mode: Any) -> windlass.Agent:
    def specialist(name: str, *says: Any, **more: Any) -> windlass.Agent:
        model = ScriptedModel(by_history([*says, "done"]))
        return windlass.Agent(name, model, description=name, policy=ASKING, **more)

    payer = specialist("payer", call("pay", cents=1), "done", call("pay", cents=2), tools=[pay])
    foreman = specialist("foreman", call("spawn", agent="payer", task="Pay."), agents=[payer])
    asker = specialist("asker", call("ask_user", question="Why?"), tools=["ask_user"])
    planner = specialist("planner", call("plan", content="Pay.", summary="pay"), tools=["plan"], mode="plan")
    spender = specialist("spender", settings=windlass.Settings(budget_asked=True))
    return windlass.Agent(
        "lead",
        ScriptedModel(by_history([first, call("complete_task", summary="done")])),
        agents=[payer, foreman, asker, planner, spender],
        tools=["run_workflow", "complete_task"],
        mode=mode,
        policy=windlass.ALLOW_ALL,
        session_budget=windlass.Budget(tokens=1_000_000),
    )


async def tree_of(agent: windlass.Agent) -> tuple[str, list[Event]]:
    """How the session ends, and what is on record of it and of all below it."""
    async with windlass.open(agents=[agent]) as runtime:
        session = await runtime.session(agent, "s")
        await session.prompt("Have it paid.")
        status = (await session.result()).status
        rows = await runtime.sessions(root="s")
        logs = [await runtime.get(row.session) for row in rows]
        return status, [record.event for log in logs async for record in log.records()]


@pytest.mark.parametrize("where", BELOW)
async def test_nobody_is_asked_below_a_session_in_autopilot(where: str) -> None:
    status, events = await tree_of(lead(BELOW[where], "autopilot"))
    assert status == "completed"
    assert (only(events, PermissionRequested), only(events, QuestionRequested)) == ([], [])
    paid = [event for event in only(events, ToolFinished) if event.ok and "paid" in str(event.body)]
    assert paid == []
    if where not in ("a child that plans", "a child that asks for more"):
        assert [event.reason for event in only(events, ToolDenied)] == ["no_approver"]


@pytest.mark.parametrize("where", BELOW)
async def test_somebody_is_asked_below_any_other(where: str) -> None:
    """The witness of the test above: each of these asks."""
    status, events = await tree_of(lead(BELOW[where], "interactive"))
    assert status == "asked"
    assert len(only(events, PermissionRequested)) + len(only(events, QuestionRequested)) == 1


async def test_a_fork_of_such_a_child_asks_again() -> None:
    agent = lead(BELOW["a child"], "autopilot")
    async with windlass.open(agents=[agent]) as runtime:
        session = await runtime.session(agent, "s")
        await session.prompt("Have it paid.")
        await session.result()
        child = await runtime.get("s~c6.0")
        fork = await child.fork("again")
        await fork.prompt("Pay after all.")
        assert (await fork.result()).status == "asked"
