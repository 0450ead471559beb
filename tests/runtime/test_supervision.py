"""A session that is owed work is driven, or says on record why it is not: whatever its driver dies of."""

from __future__ import annotations

import asyncio
import contextlib
import io
import pathlib
import sys
from typing import Any

import pytest

import windlass
from windlass.cli.main import main
from windlass.events.errors import Refused
from windlass.events.runs import RunFailed
from windlass.events.sessions import SessionResumed
from windlass.events.tools.calls import ToolFinished, ToolOutcomeUnknown, ToolStarted
from windlass.kernel.effects import RunTool
from windlass.runtime.drive.performer import Performer
from windlass.testing.scripted import ScriptedModel, by_history, call, turn

from .support import QUICK, agent_of, events_of, only, sound, until

PAID: list[str] = []


@windlass.tool
async def pay() -> str:
    """Pays, and takes its time."""
    PAID.append("paid")
    await asyncio.sleep(1_000)
    return "never"


@windlass.tool(contract="pure")
async def look(at: int = 0) -> str:
    """Looks."""
    return "seen"


@pytest.fixture(autouse=True)
def nothing_paid() -> None:
    PAID.clear()


def breaks(monkeypatch: pytest.MonkeyPatch, tool: str, times: int) -> list[str]:
    """Has the performer break when it is to run a tool: a bug of ours, such as nobody has thought of."""
    broken: list[str] = []
    perform = Performer.perform

    async def perform_or_break(self: Performer, effect: Any) -> Any:
        if isinstance(effect, RunTool) and effect.tool == tool and len(broken) < times:
            broken.append(effect.effect_id)
            await until(lambda: PAID or tool == "look")
            raise LookupError("a bug of ours")
        return await perform(self, effect)

    monkeypatch.setattr(Performer, "perform", perform_or_break)
    return broken


@pytest.mark.guard(30)
async def test_a_driver_that_dies_is_replaced_and_the_log_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    breaks(monkeypatch, "look", 1)
    agent = agent_of(call("look"), "the end", tools=[look])
    async with windlass.open(":memory:", agents=[agent], poll_ms=10) as runtime:
        session = await runtime.session(agent, "s")
        await session.prompt("go")
        assert (await session.result()).text == "the end"
        events = await events_of(session)
        assert [event.lost for event in only(events, SessionResumed)] == ["its driver died: LookupError: a bug of ours"]
        assert [event.attempt for event in only(events, ToolStarted)] == [1, 2]
        assert runtime.parked == {}
        await sound(session)


@pytest.mark.guard(30)
async def test_what_ran_at_most_once_when_the_driver_died_does_not_run_again(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = breaks(monkeypatch, "look", 0)
    agent = agent_of(turn(call("pay"), call("look")), "the end", tools=[pay, look])
    async with windlass.open(":memory:", agents=[agent], poll_ms=10) as runtime:
        session = await runtime.session(agent, "s")
        await session.prompt("go")
        await until(lambda: PAID)
        driven = runtime.slots.driven_at(session.key)
        assert driven is not None
        driven.driver._lose(LookupError("a bug of ours"))
        assert (await session.result()).text == "the end"
        assert PAID == ["paid"]
        assert len(only(await events_of(session), ToolOutcomeUnknown)) == 1
        assert broken == []
        await sound(session)


@pytest.mark.guard(30)
async def test_a_driver_that_dies_again_and_again_parks_its_session_on_record(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = breaks(monkeypatch, "look", 3)
    answers = by_history([call("look"), call("look"), "the end"])
    agent = windlass.Agent("worker", model=ScriptedModel(answers), tools=[look], settings=QUICK)
    async with windlass.open(":memory:", agents=[agent], poll_ms=10) as runtime:
        session = await runtime.session(agent, "s")
        await session.prompt("go")
        result = await session.result()
        assert (result.status, result.failure and result.failure.code) == ("failed", "parked")
        assert len(broken) == 3
        assert "3 owners in a row were lost while it worked on c6.0 (look)" in str(result.failure)
        (row,) = await runtime.sessions(states=("parked",))
        assert (row.session, row.owed) == ("s", False)
        await session.wake()
        assert (await session.result()).text == "the end"
        (row,) = await runtime.sessions()
        assert row.state == "idle"
        await sound(session)


@pytest.mark.guard(30)
async def test_progress_between_two_deaths_begins_the_count_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    perform = Performer.perform
    seen: set[str] = set()

    async def dies_once_for_each(self: Performer, effect: Any) -> Any:
        if isinstance(effect, RunTool) and effect.call_id not in seen:
            seen.add(effect.call_id)
            raise LookupError("a bug of ours")
        return await perform(self, effect)

    monkeypatch.setattr(Performer, "perform", dies_once_for_each)
    agent = agent_of(*(call("look", at=at) for at in range(6)), "the end", tools=[look])
    async with windlass.open(":memory:", agents=[agent], poll_ms=10) as runtime:
        session = await runtime.session(agent, "s")
        await session.prompt("go")
        assert (await session.result()).text == "the end"
        events = await events_of(session)
        assert only(events, RunFailed) == []
        assert len(only(events, ToolFinished)) == 6


@pytest.mark.guard(30)
async def test_a_driver_that_somebody_cancels_is_replaced() -> None:
    waits = asyncio.Event()
    goes_on = asyncio.Event()

    @windlass.tool(contract="pure")
    async def wait() -> str:
        """Waits."""
        waits.set()
        await goes_on.wait()
        return "waited"

    agent = agent_of(call("wait"), "the end", tools=[wait])
    async with windlass.open(":memory:", agents=[agent], poll_ms=10) as runtime:
        session = await runtime.session(agent, "s")
        await session.prompt("go")
        await waits.wait()
        (driver,) = [task for task in asyncio.all_tasks() if task.get_name() == "windlass:drive:s"]
        goes_on.set()
        driver.cancel()
        assert (await session.result()).text == "the end"
        await sound(session)


@pytest.mark.guard(120)
@pytest.mark.parametrize("habit", ["begins what is missing", "says all again"])
async def test_a_tool_that_kills_its_process_is_parked_and_those_beside_it_finish(tmp_path: Any, habit: str) -> None:
    """Real processes over a real file, each killed by the tool that it runs."""
    store, booms = f"sqlite:{tmp_path / 'work.db'}", tmp_path / "booms"
    target = pathlib.Path(__file__).with_name("killed_target.py")
    codes: list[int | None] = []
    while 0 not in codes and len(codes) < 10:
        life = await asyncio.create_subprocess_exec(sys.executable, str(target), store, str(booms), "3", habit)
        codes.append(await life.wait())
    assert codes[-1] == 0
    assert booms.read_text().splitlines() == ["boom"] * 3
    agent = agent_of("unused", name="worker")
    async with windlass.open(store, agents=[agent], take_up=False) as runtime:
        rows = {row.session: row.state for row in await runtime.sessions()}
        assert rows.pop("killer") == "parked"
        assert set(rows.values()) == {"idle"}
        assert len(rows) == 2
        for name in rows:
            session = await runtime.get(name)
            assert only(await events_of(session), RunFailed) == []
            await sound(session)
        killer = await sound(await runtime.get("killer"))
        assert "3 owners in a row were lost while it worked on c6.0 (boom)" in killer.losses.parked


class Uncaught(BaseException):
    """What no `except Exception` catches."""


@pytest.mark.guard(60)
@pytest.mark.parametrize("raises", [Uncaught, SystemExit])
@pytest.mark.parametrize("who", ["model", "guard", "approver"])
async def test_what_passes_every_handler_parks_its_session_and_ends_nothing_else(
    who: str, raises: type[BaseException]
) -> None:
    async def breaks(*_: Any) -> Any:
        raise raises

    def answers(_: Any) -> Any:
        raise raises

    def pay() -> str:
        return "paid"

    script = answers if who == "model" else by_history([call("pay"), "done"])
    broken = windlass.Agent(
        "broken",
        model=ScriptedModel(script),
        tools=[pay],
        policy=windlass.Policy(default="ask" if who == "approver" else "allow"),
        hooks=[windlass.Hook(point="before_tool", run=breaks, kind="guard")] if who == "guard" else [],
        approver=breaks if who == "approver" else None,
    )
    whole = agent_of("fine", name="whole")
    async with windlass.open(":memory:", agents=[broken, whole]) as runtime:
        session, beside = await runtime.session(broken, "broken"), await runtime.session(whole, "whole")
        await session.prompt("go")
        async with asyncio.timeout(20):
            assert (await session.result()).status in ("failed", "completed", "asked")
            await beside.prompt("go")
            assert (await beside.result()).text == "fine"


@pytest.mark.guard(60)
async def test_a_child_that_is_parked_has_ended_and_its_parent_goes_on_without_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    breaks(monkeypatch, "look", 3)
    below = windlass.Agent(
        "below", model=ScriptedModel(by_history([call("look"), "seen"])), tools=[look], settings=QUICK, description="x"
    )
    agent = agent_of(call("spawn", agent="below", task="look"), "without it", agents=[below])
    place = str(tmp_path / "work.db")
    async with windlass.open(place, agents=[agent], poll_ms=10) as runtime:
        session = await runtime.session(agent, "s")
        await session.prompt("go")
        assert (await session.result()).text == "without it"
        root, child = await session.processes()
        assert (root.state, child.session, child.state, child.ended) == ("done", "s~c6.0", "done", "failed")
        assert "3 owners in a row were lost while it worked on c6.0 (look)" in child.why
        assert {row.session: row.state for row in await runtime.sessions()} == {"s": "idle", "s~c6.0": "idle"}
        under = await runtime.get("s~c6.0")
        with pytest.raises(Refused, match="this child session has ended"):
            await under.wake()
        await sound(under)
        branch = await under.fork("again")
        await branch.wake()
        assert (await branch.result()).text == "seen"
    shown = await asyncio.to_thread(said, "show", "s~c6.0", "--store", place)
    assert "ended, and the session that began it was told: 3 owners in a row were lost" in shown
    assert shown.splitlines()[-2:] == [
        f"  windlass show s --store {place}",
        f"  windlass fork 's~c6.0' --store {place}",
    ]


@pytest.mark.guard(60)
async def test_for_a_child_that_rests_the_command_line_offers_to_run_its_root(tmp_path: pathlib.Path) -> None:
    """Nobody can run a child by itself."""
    below = windlass.Agent(
        "below",
        model=ScriptedModel(by_history([call("wait", for_ms=3_600_000), "later"])),
        tools=["wait"],
        settings=QUICK,
        description="x",
    )
    agent = agent_of(call("spawn", agent="below", task="wait"), "it waited", name="lead", agents=[below])
    place = str(tmp_path / "work.db")
    async with windlass.open(place, agents=[agent], poll_ms=10) as runtime:
        session = await runtime.session(agent, "s")
        await session.prompt("go")
        await session.result()
    shown = (await asyncio.to_thread(said, "show", "s~c6.0", "--store", place)).splitlines()
    assert shown[-2:] == [
        f"  windlass wake 's~c6.0' --store {place}",
        f"  windlass run --agent FILE.py:lead --session s --store {place}",
    ]
    assert "wake: the session continues now" in await asyncio.to_thread(said, "wake", "s~c6.0", "--store", place)
    async with windlass.open(place, agents=[agent], poll_ms=10) as runtime:
        assert (await (await runtime.get("s")).result()).text == "it waited"


def said(*words: str) -> str:
    """What a command prints."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert main(list(words)) == 0
    return out.getvalue()
