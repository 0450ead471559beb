"""What sleeping sessions cost a running process, and whether each wakes on time and once.

    python -m benchmarks.sleepers [--count 10000]

Each step is a process of its own over one SQLite file: sessions are put to sleep for an hour; a process opens the store
and does nothing (against one with an empty store); in another, some short sleepers are to wake on time beside all
those; then the clock is an hour ahead, and all wake. Exits with 1 if a bound is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from typing import Any

import windlass
from windlass.events.timers import TimerFired
from windlass.runtime.host.ports import SystemPorts
from windlass.store.base import Query
from windlass.testing import ScriptedModel, by_history, call

from .table import row

COUNT = 10_000
AT_ONCE = 50
HOUR_MS = 3_600_000
SHORT_MS = 3_000
SHORT = 20
LOOKS_S = 3.0
MB_MAX = 5.0
LATE_MS_MAX = 1_000


class Ahead(SystemPorts):
    """A world whose clock is ahead."""

    def __init__(self, ahead_ms: int) -> None:
        super().__init__()
        self._ahead_ms = ahead_ms

    def now_ms(self) -> int:
        return super().now_ms() + self._ahead_ms


def sleeper(name: str, wait_ms: int) -> windlass.Agent:
    model = ScriptedModel(by_history([call("wait", for_ms=wait_ms), "asleep", "awake"]))
    return windlass.Agent(name, model, tools=["wait"])


def used_mb() -> float:
    pages = int(pathlib.Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


AGENTS = (sleeper("long", HOUR_MS), sleeper("short", SHORT_MS))


def opened(place: str, ahead_ms: int = 0) -> Any:
    return windlass.open(place, agents=AGENTS, durability="normal", ports=Ahead(ahead_ms))


async def fallen_asleep(runtime: windlass.Runtime, agent: windlass.Agent, name: str) -> None:
    session = await runtime.session(agent, name)
    await session.prompt("Sleep.")
    assert (await session.result()).status == "sleeping"


async def fill(place: str, count: int) -> float:
    """Puts sessions to sleep."""
    async with opened(place) as runtime:
        for first in range(0, count, AT_ONCE):
            numbers = range(first, min(first + AT_ONCE, count))
            await asyncio.gather(*(fallen_asleep(runtime, AGENTS[0], f"s{number}") for number in numbers))
    return count


async def memory(place: str, count: int) -> float:
    """The memory of a process that has the store open, after some looks at it."""
    async with opened(place):
        await asyncio.sleep(LOOKS_S)
        gc.collect()
        return used_mb()


async def timely(place: str, count: int) -> float:
    """How late, at the most, short sleepers wake in a store full of others, in ms."""
    async with opened(place) as runtime:
        await asyncio.gather(*(fallen_asleep(runtime, AGENTS[1], f"short{number}") for number in range(SHORT)))
        late = [await _lateness(await runtime.get(f"short{number}")) for number in range(SHORT)]
        return max(late)


async def _lateness(session: windlass.Session) -> int:
    due = 0
    async for record in session.tail(after=0):
        event = getattr(record, "event", None)
        due = getattr(event, "wake_at_ms", None) or due
        if isinstance(event, TimerFired):
            return int(record.at_ms - due)  # type: ignore[union-attr]
    raise AssertionError("it never woke")


async def wake(place: str, count: int) -> float:
    """The clock is an hour ahead: how long it takes until all are awake, in seconds."""
    began = time.perf_counter()
    async with opened(place, HOUR_MS) as runtime:
        while await runtime.store.index.find(Query(tenant=runtime.tenant, agent="long", states=("sleeping",), limit=1)):
            await asyncio.sleep(0.2)
        return time.perf_counter() - began


async def once(place: str, count: int, ahead_ms: int = 2 * HOUR_MS) -> float:
    """Opened once more, an hour later still: how many sessions woke otherwise than once."""
    async with opened(place, ahead_ms) as runtime:
        await runtime.host.watch.look_round()
        wrong = 0
        for number in range(count):
            session = await runtime.get(f"s{number}")
            fired = [1 async for record in session.records() if isinstance(record.event, TimerFired)]
            wrong += len(fired) != 1
        return wrong


STEPS = {"fill": fill, "memory": memory, "timely": timely, "wake": wake, "once": once}


def step(name: str, place: str, count: int) -> float:
    words = [sys.executable, "-m", "benchmarks.sleepers", "--step", name, "--place", place, "--count", str(count)]
    return float(subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=COUNT)
    parser.add_argument("--step", choices=sorted(STEPS))
    parser.add_argument("--place", default="")
    given = parser.parse_args()
    if given.step:
        print(asyncio.run(STEPS[given.step](given.place, given.count)))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        full, empty = os.path.join(folder, "full.db"), os.path.join(folder, "empty.db")
        step("fill", full, given.count)
        bare, ours = step("memory", empty, 0), step("memory", full, given.count)
        met = row(f"MB of a process, {given.count:,} asleep", bare, ours, ours - bare, f"added <= {MB_MAX}", MB_MAX)
        late = step("timely", full, given.count)
        met &= row(f"ms late at the most, {SHORT} that wake", 0, late, late, f"<= {LATE_MS_MAX}", LATE_MS_MAX)
        took = step("wake", full, given.count)
        row("s until all are awake, clock an hour ahead", 0, took, took, "no bound", float("inf"))
        wrong = step("once", full, given.count)
        met &= row("sessions that woke otherwise than once", 0, wrong, wrong, "none", 0.5)
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
