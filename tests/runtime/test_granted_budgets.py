"""A child at its limit asks for more before it ends, and gets it from what those above it have left."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

import windlass
from windlass.events.budgets import BudgetStopped
from windlass.events.errors import Refused, UsageError
from windlass.events.questions import QuestionWithdrawn
from windlass.events.runs import Terminal
from windlass.events.trees.accounts import ChildGranted, GrantReceived
from windlass.events.trees.children import ChildFinished
from windlass.testing.scripted import ScriptedModel, by_history, call

from .support import QUICK, events_of, only, sound

ASKS = msgspec.structs.replace(QUICK, budget_asked=True)
BUDGET = windlass.Budget(turns=20)


@windlass.tool(contract="pure")
def look() -> str:
    """Looks."""
    return "seen"


def worker(turns: int = 3, **more: object) -> windlass.Agent:
    """A specialist that needs so many turns."""
    replies = [*[call("look")] * (turns - 1), "well"]
    given: dict[str, object] = {"settings": ASKS, "tools": [look], **more}
    return windlass.Agent("worker", ScriptedModel(by_history(replies)), description="works", **given)  # type: ignore[arg-type]


def over(below: windlass.Agent, name: str, turns: int = 2, **more: object) -> windlass.Agent:
    spawned = call("spawn", agent=below.name, task="x", limits={"turns": turns})
    given: dict[str, object] = {"settings": ASKS, **more}
    return windlass.Agent(name, ScriptedModel(by_history([spawned, "done"])), agents=[below], **given)  # type: ignore[arg-type]


async def test_a_child_at_its_limit_rests_asked_and_goes_on_with_what_it_is_granted():
    agent = over(worker(), "lead", session_budget=BUDGET)
    async with windlass.open(agents=[agent]) as runtime:
        session = await runtime.session(agent, "s")
        await session.prompt("go")
        assert (await session.result()).status == "asked"
        (question,) = await session.questions()
        assert "has used 2 of 2 (turns)" in question.body.message
        (child,) = await session.children()
        await session.grant(child, windlass.Budget(turns=1))
        result = await session.result()
        assert (result.status, result.text) == ("completed", "done")
        below = await runtime.get(child)
        events = await events_of(below)
        assert [(one.limit, one.asks) for one in only(events, BudgetStopped)] == [("turns", True)]
        assert [one.more.turns for one in only(events, GrantReceived)] == [1]
        assert [one.reason for one in only(events, QuestionWithdrawn)] == ["granted"]
        (end,) = only(await events_of(session), ChildFinished)
        assert (end.status, end.used.turns) == ("completed", 3)
        assert (await sound(session)).budget.spent.turns == 2 + 3
        await sound(below)


async def test_one_that_is_let_end_ends_at_its_limit_and_is_not_asked_about_again():
    agent = over(worker(), "lead", session_budget=BUDGET)
    async with windlass.open(agents=[agent]) as runtime:
        session = await runtime.session(agent, "s")
        await session.prompt("go")
        await session.result()
        (question,) = await session.questions()
        await session.answer(question, ["end"])
        assert (await session.result()).text == "done"
        (end,) = only(await events_of(session), ChildFinished)
        assert end.status == "error"
        below = await runtime.get(end.child_id)
        assert [one.asks for one in only(await events_of(below), BudgetStopped)] == [True, False]
        assert [one.stop for one in only(await events_of(below), Terminal)][-1] == "max_turns"
        await sound(below)


async def test_what_is_not_enough_is_asked_for_again_and_no_more_is_granted_than_is_left():
    agent = over(worker(6), "lead", session_budget=windlass.Budget(turns=8))
    async with windlass.open(agents=[agent]) as runtime:
        session = await runtime.session(agent, "s")
        await session.prompt("go")
        assert (await session.result()).status == "asked"
        (child,) = await session.children()
        with pytest.raises(Refused, match="5 turns are left here, and 6 were to be granted"):
            await session.grant(child, windlass.Budget(turns=6))
        await session.grant(child, windlass.Budget(turns=1))
        await asked_again(session, child, 2)
        await session.grant(child, windlass.Budget(turns=3))
        assert (await session.result()).text == "done"
        state = await sound(session)
        assert (state.budget.spent.turns, state.budget.limits.turns) == (8, 8)


async def asked_again(session: windlass.Session, child: str, times: int) -> None:
    below = await session.runtime.get(child)
    async with asyncio.timeout(60):
        while len(only(await events_of(below), BudgetStopped)) < times:
            await asyncio.sleep(0.01)
    assert (await session.result()).status == "asked"


async def test_a_grant_goes_down_level_by_level_and_survives_a_restart(tmp_path):
    agent = over(over(over(worker(4), "low"), "mid", 6), "lead", 8, session_budget=windlass.Budget(turns=30))
    async with windlass.open(tmp_path / "work.db", agents=[agent]) as runtime:
        session = await runtime.session(agent, "s")
        await session.prompt("go")
        assert (await session.result()).status == "asked"
    async with windlass.open(tmp_path / "work.db", agents=[agent]) as runtime:
        session = await runtime.get("s")
        await session.grant("s~c6.0~c6.0~c6.0", windlass.Budget(turns=2))
        assert (await session.result()).text == "done"
        for name in ("s", "s~c6.0", "s~c6.0~c6.0"):
            each = await runtime.get(name)
            assert [one.more.turns for one in only(await events_of(each), ChildGranted)] == [2]
            state = await sound(each)
            assert state.budget.limits.turns is not None
            assert state.budget.spent.turns <= state.budget.limits.turns
        assert (await sound(session)).budget.spent.turns == 2 + 2 + 2 + 4


async def test_a_child_that_nobody_told_to_ask_ends_at_its_limit():
    agent = over(worker(settings=QUICK), "lead", session_budget=BUDGET)
    async with windlass.open(agents=[agent]) as runtime:
        session = await runtime.session(agent, "s")
        await session.prompt("go")
        assert (await session.result()).text == "done"
        assert "grant_child" not in (await session.state()).toolset.tools


async def test_nobody_but_its_parent_raises_the_limits_of_a_session():
    agent = over(worker(), "lead", session_budget=BUDGET)
    async with windlass.open(agents=[agent]) as runtime:
        session = await runtime.session(agent, "s")
        with pytest.raises(Refused, match="granted by the session above"):
            await runtime.host.sender.send(
                session.key, GrantReceived(command_id="g", more=windlass.Budget(turns=9).limits())
            )
        with pytest.raises(UsageError, match="no session below"):
            await session.grant("other", windlass.Budget(turns=1))


async def test_a_grant_that_is_no_budget_or_that_no_child_can_ask_for_says_what_to_write():
    quiet = worker(settings=QUICK)
    agent = windlass.Agent(
        "lead",
        ScriptedModel(by_history([call("spawn", agent="worker", task="x", mode="background"), "ok", "told"])),
        agents=[quiet],
        settings=QUICK,
    )
    async with windlass.open(agents=[agent]) as runtime:
        session = await runtime.session(agent, "s")
        await session.prompt("go")
        await session.result()
        child = "s~c6.0"
        with pytest.raises(UsageError, match="50 is no Budget: write grant"):
            await session.grant(child, 50)  # type: ignore[arg-type]
        with pytest.raises(Refused, match="give a specialist Settings\\(budget_asked=True\\)"):
            await session.grant(child, windlass.Budget(turns=1))


@pytest.mark.parametrize("named", ["{id}", "{place}", "{place}/{question}"])
@pytest.mark.parametrize("bounded", [True, False])
async def test_a_grant_reaches_the_one_that_asks_though_those_between_ask_for_nothing_themselves(named, bounded):
    """By its id, by its place, and by the id of its question; also past one that may use what it likes."""
    top = {"session_budget": BUDGET} if bounded else {}
    low = over(worker(), "mid", settings=QUICK)
    spawned = call("spawn", agent="mid", task="x", **({"limits": {"turns": 6}} if bounded else {}))
    agent = windlass.Agent("b", ScriptedModel(by_history([spawned, "done"])), agents=[low], settings=QUICK, **top)  # type: ignore[arg-type]
    async with windlass.open(agents=[agent]) as runtime:
        session = await runtime.session(agent, "b")
        await session.prompt("go")
        assert (await session.result()).status == "asked"
        (question,) = await session.questions()
        place, _, own = question.question_id.partition("/")
        assert place == "c6.0~c6.0"
        await session.grant(named.format(id=f"b~{place}", place=place, question=own), windlass.Budget(turns=1))
        assert (await session.result()).text == "done"
        granted = [len(only(await events_of(await runtime.get(name)), ChildGranted)) for name in ("b", "b~c6.0")]
        assert granted == [int(bounded), 1]
        for name in ("b", "b~c6.0", "b~c6.0~c6.0"):
            await sound(await runtime.get(name))
        for wrong in ("c9.0", "c6.0~c9.0", "", "/q1"):
            with pytest.raises(UsageError, match="no session below 'b'"):
                await session.grant(wrong, windlass.Budget(turns=1))
