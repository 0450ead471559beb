"""Wall clocks that are wrong: a timer waits for what is left of its time, whatever the clock says meanwhile."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

import windlass
from windlass.events.base import Event
from windlass.events.sessions import SessionResumed
from windlass.events.timers import TimerFired
from windlass.runtime.host import drive_tasks
from windlass.store.base import LEASE_MS_MAX
from windlass.testing.scripted import call

from .clock_target import sleeper
from .support import JumpPorts, agent_of, events_of, only, sound, started, until

DAY_MS = 86_400_000
MONTH_MS = 30 * DAY_MS
HOUR_MS = 3_600_000
SHORT_MS = 1_500
LEASE_MS = 600
SESSIONS = 6
HELD = 2
"""How many of them are kept open while they rest."""


@pytest.fixture(autouse=True)
def few_held(monkeypatch):
    monkeypatch.setattr(drive_tasks, "RESTING_MAX", HELD)


@asynccontextmanager
async def opened(
    store: str, off_ms: int = 0, *, wait_ms: int = SHORT_MS, lease_ms: int = LEASE_MS
) -> AsyncIterator[windlass.Runtime]:
    """A process whose wall clock is off."""
    ports = JumpPorts()
    ports.ahead_ms = off_ms
    async with windlass.open(store, agents=[sleeper(wait_ms)], ports=ports, poll_ms=5, lease_ms=lease_ms) as runtime:
        yield runtime


async def put_to_sleep(runtime: windlass.Runtime, count: int = SESSIONS) -> None:
    bound = runtime.bound.get("sleeper")
    assert bound is not None
    for number in range(count):
        session = await runtime.session(bound.agent, f"s{number}")
        await session.prompt("go")
        assert (await session.result()).status == "sleeping"


async def all_wake(runtime: windlass.Runtime, count: int = SESSIONS) -> None:
    for number in range(count):
        session = await runtime.get(f"s{number}")
        await started(session, TimerFired)
        assert (await session.result()).text == "awake"
        assert len(only(await events_of(session), TimerFired)) == 1
        await sound(session)


@pytest.mark.parametrize("back_ms", [DAY_MS, MONTH_MS])
async def test_sleepers_that_are_not_held_open_wake_although_the_clock_was_set_back(tmp_path, back_ms):
    async with opened(str(tmp_path / "work.db")) as runtime:
        await put_to_sleep(runtime)
        assert len(runtime.slots.driven) < SESSIONS, "some are let go"
        ports = runtime.ports
        assert isinstance(ports, JumpPorts)
        ports.ahead_ms -= back_ms
        await all_wake(runtime)


async def test_they_wake_at_their_time_and_not_when_leases_are_looked_at(tmp_path):
    async with opened(str(tmp_path / "work.db"), lease_ms=LEASE_MS_MAX) as runtime:
        await put_to_sleep(runtime)
        ports = runtime.ports
        assert isinstance(ports, JumpPorts)
        ports.ahead_ms -= DAY_MS
        await all_wake(runtime)


@pytest.mark.parametrize("place", ["work.db", "work.jsonl.d"])
async def test_sleepers_wake_in_a_process_that_began_after_the_clock_was_set_back(tmp_path, place):
    store = str(tmp_path / place)
    async with opened(store) as runtime:
        await put_to_sleep(runtime)
    async with opened(store, -DAY_MS) as runtime:
        await all_wake(runtime)


async def test_a_run_under_a_clock_that_was_ahead_does_not_delay_later_timers(tmp_path):
    store = str(tmp_path / "work.db")
    agent = agent_of(*["hello"] * SESSIONS, name="sleeper")
    ports = JumpPorts()
    ports.ahead_ms = MONTH_MS
    async with windlass.open(store, agents=[agent], ports=ports) as runtime:
        for number in range(SESSIONS):
            session = await runtime.session(agent, f"s{number}")
            await session.prompt("first")
            assert (await session.result()).text == "hello"
    late = agent_of(*[call("wait", for_ms=SHORT_MS), "asleep"] * SESSIONS, name="sleeper", tools=["wait"])
    async with windlass.open(store, agents=[late], poll_ms=5, lease_ms=LEASE_MS) as runtime:
        for number in range(SESSIONS):
            session = await runtime.get(f"s{number}")
            await session.prompt("go")
            assert (await session.result()).status == "sleeping"
    awake = agent_of(*["awake"] * SESSIONS, name="sleeper", tools=["wait"])
    async with windlass.open(store, agents=[awake], poll_ms=5, lease_ms=LEASE_MS) as runtime:
        await all_wake(runtime)


async def test_time_passes_between_processes_also_for_a_log_that_is_ahead_of_the_clock(tmp_path):
    store = str(tmp_path / "work.db")
    async with opened(store, MONTH_MS, wait_ms=HOUR_MS) as runtime:
        await put_to_sleep(runtime, 1)
    for off_ms in (0, HOUR_MS // 3, 2 * HOUR_MS // 3):
        async with opened(store, off_ms, wait_ms=HOUR_MS) as runtime:
            session = await runtime.get("s0")
            await until_looked(runtime)
            assert only(await events_of(session), TimerFired) == []
    assert len(only(await events_at(store), SessionResumed)) == 1, (
        "opened once, to put a reading of the clock beside it"
    )
    async with opened(store, HOUR_MS, wait_ms=HOUR_MS) as runtime:
        await all_wake(runtime, 1)


async def test_a_clock_that_is_put_right_again_is_believed(tmp_path):
    store = str(tmp_path / "work.db")
    async with opened(store, wait_ms=HOUR_MS) as runtime:
        await put_to_sleep(runtime, 1)
    async with opened(store, -DAY_MS, wait_ms=HOUR_MS) as runtime:
        await until_looked(runtime)
    async with opened(store, HOUR_MS // 2, wait_ms=HOUR_MS) as runtime:
        await until_looked(runtime)
        assert only(await events_of(await runtime.get("s0")), TimerFired) == []
    async with opened(store, HOUR_MS + 1, wait_ms=HOUR_MS) as runtime:
        await all_wake(runtime, 1)


async def test_a_clock_that_jumps_forward_takes_no_session_from_a_process_that_lives(tmp_path):
    store, ports, release = str(tmp_path / "work.db"), JumpPorts(), asyncio.Event()

    async def slow() -> str:
        await release.wait()
        return "done"

    agent = agent_of(call("slow"), "finished", tools=[slow])

    def another() -> windlass.Runtime:
        return windlass.open(store, agents=[agent], ports=ports, poll_ms=HOUR_MS)

    async with another() as one, another() as two:
        session = await one.session(agent, "s")
        await session.prompt("go")
        await until(lambda: one.slots.driven_at(session.key) is not None)
        ports.ahead_ms += HOUR_MS
        await until_looked(two)
        await one.host.leases._prolong()
        two.host.watch._patient_until_ms = 0
        await until_looked(two)
        release.set()
        assert (await session.result()).text == "finished"
        assert only(await events_of(session), SessionResumed) == []


def test_a_killed_process_leaves_timers_that_fire_under_another_clock(tmp_path):
    store = str(tmp_path / "work.db")
    with process(store, MONTH_MS, "sleep") as ahead:
        assert ahead.stdout is not None
        assert [ahead.stdout.readline() for _ in range(SESSIONS)] == ["sleeping\n"] * SESSIONS
        ahead.kill()
    with process(store, 0, "wake") as right:
        assert right.communicate(timeout=60)[0] == "awake\n" * SESSIONS
        assert right.returncode == 0


# --- what the tests share ---


def process(store: str, off_ms: int, what: str) -> subprocess.Popen[str]:
    given = (store, off_ms, what, SESSIONS, SHORT_MS)
    command = [sys.executable, "-m", "tests.runtime.clock_target", *map(str, given)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


async def until_looked(runtime: windlass.Runtime) -> None:
    """Has the store asked for what nobody drives, and what is driven come to rest."""
    watch = runtime.host.watch
    for _ in range(2):
        watch._look_soon()
        await watch.look_round()
        for slot in runtime.slots.driven:
            await runtime.drive(slot.key.session)


async def events_at(store: str) -> list[Event]:
    async with windlass.open(store) as runtime:
        return await events_of(await runtime.get("s0"))
