"""What sleeping sessions cost a running process, and whether each wakes on time and once.

    python -m benchmarks.sleepers [--count 10000]

Each step is a process of its own over one SQLite file: sessions are put to sleep for an hour; a process opens the store
and does nothing (against one with an empty store); in another, some short sleepers are to wake on time beside all
those. Then all wake at once: in one copy of the file across a restart, with a clock that is an hour ahead; in another
in a process that has them open, by a jump of its clock. Beside those who wake, short sleepers are to wake on time, too.
Exits with 1 if a bound is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import pathlib
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec

import windlass
from windlass.events.timers import TimerFired
from windlass.runtime.host.ports import SystemPorts
from windlass.store.base import Query
from windlass.testing import ScriptedModel, by_history, call

from .table import NO_BOUND, row

COUNT = 10_000
AT_ONCE = 50
HOUR_MS = 3_600_000
SHORT_MS = 3_000
SHORT = 20
LOOKS_S = 3.0
LOOK_S = 0.2
MB_MAX = 5.0
LATE_MS_MAX = 1_000


class Ahead(SystemPorts):
    """A world whose clock is ahead."""

    def __init__(self, ahead_ms: int) -> None:
        super().__init__()
        self.ahead_ms = ahead_ms

    def now_ms(self) -> int:
        return super().now_ms() + self.ahead_ms


def sleeper(name: str, wait_ms: int) -> windlass.Agent:
    model = ScriptedModel(by_history([call("wait", for_ms=wait_ms), "asleep", "awake"]))
    return windlass.Agent(name, model, tools=["wait"])


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


def used_mb() -> float:
    pages = int(pathlib.Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


AGENTS = (sleeper("long", HOUR_MS), sleeper("short", SHORT_MS))


def opened(place: str, ports: Ahead | None = None) -> Any:
    return windlass.open(place, agents=AGENTS, durability="normal", ports=ports or Ahead(0))


async def fallen_asleep(runtime: windlass.Runtime, agent: windlass.Agent, name: str) -> None:
    session = await runtime.session(agent, name)
    await session.prompt("Sleep.")
    assert (await session.result()).status == "sleeping"


async def fill(place: str, count: int) -> None:
    """Puts sessions to sleep."""
    async with opened(place) as runtime:
        for first in range(0, count, AT_ONCE):
            numbers = range(first, min(first + AT_ONCE, count))
            await asyncio.gather(*(fallen_asleep(runtime, AGENTS[0], f"s{number}") for number in numbers))


async def memory(place: str, count: int) -> float:
    """The memory of a process that has the store open, after some looks at it."""
    async with opened(place):
        await asyncio.sleep(LOOKS_S)
        gc.collect()
        return used_mb()


async def timely(place: str, count: int) -> float:
    """How late, at the most, short sleepers wake in a store full of others, in ms."""
    async with opened(place) as runtime:
        return await _short_ones(runtime, "quiet")


async def _short_ones(runtime: windlass.Runtime, when: str) -> float:
    """Has some sleep for a short while, and says how late they wake at the most, in ms."""
    names = [f"{when}{number}" for number in range(SHORT)]
    await asyncio.gather(*(fallen_asleep(runtime, AGENTS[1], name) for name in names))
    return max([await _lateness(await runtime.get(name)) for name in names])


async def _lateness(session: windlass.Session) -> int:
    due = 0
    async for record in session.tail(after=0):
        event = getattr(record, "event", None)
        due = getattr(event, "wake_at_ms", None) or due
        if isinstance(event, TimerFired):
            return int(record.at_ms - due)  # type: ignore[union-attr]
    raise AssertionError("it never woke")


class Woken(msgspec.Struct, frozen=True):
    """How it went when all woke at once."""

    seconds: float
    """Until the last of them was awake."""
    half_ms: float
    """Until half of them were woken."""
    late_ms: float
    """How late, at the most, those woke that were to wake meanwhile."""
    mb: float
    """The most memory that the process ever had."""
    wrong: int
    """How many of them woke otherwise than once."""


async def restart(place: str, count: int) -> Woken:
    """A process begins when the clock is an hour ahead."""
    ports = Ahead(HOUR_MS)
    due_ms = ports.now_ms()
    async with opened(place, ports) as runtime:
        return await _woken(runtime, count, due_ms)


async def jump(place: str, count: int) -> Woken:
    """A process has them all asleep, and its clock jumps."""
    ports = Ahead(0)
    async with opened(place, ports) as runtime:
        await asyncio.sleep(LOOKS_S)
        ports.ahead_ms = HOUR_MS
        return await _woken(runtime, count, ports.now_ms())


async def _woken(runtime: windlass.Runtime, count: int, due_ms: int) -> Woken:
    while not await runtime.store.index.find(Query(tenant=runtime.tenant, agent="long", states=("idle",), limit=1)):
        await asyncio.sleep(LOOK_S)
    late = asyncio.ensure_future(_short_ones(runtime, "meanwhile"))
    asleep = Query(tenant=runtime.tenant, agent="long", states=("sleeping", "running"), limit=1)
    while await runtime.store.index.find(asleep):
        await asyncio.sleep(LOOK_S)
    times = [await _times_woken(runtime, f"s{number}") for number in range(count)]
    first = sorted(fired[0] - due_ms for fired in times if fired)
    wrong = sum(len(fired) != 1 for fired in times)
    return Woken(first[-1] / 1000, first[len(first) // 2], await late, peak_mb(), wrong)


async def _times_woken(runtime: windlass.Runtime, name: str) -> list[int]:
    session = await runtime.get(name)
    return [record.at_ms async for record in session.records() if isinstance(record.event, TimerFired)]


async def once(place: str, count: int, ahead_ms: int = 2 * HOUR_MS) -> int:
    """Opened once more, an hour later still: how many sessions have woken otherwise than once."""
    async with opened(place, Ahead(ahead_ms)) as runtime:
        await runtime.host.watch.look_round()
        return sum([len(await _times_woken(runtime, f"s{number}")) != 1 for number in range(count)])


async def once_set_back(place: str, count: int) -> int:
    """The same with a clock that was set back to before they woke."""
    return await once(place, count, ahead_ms=0)


STEPS: dict[str, Callable[[str, int], Coroutine[Any, Any, Any]]] = {
    "fill": fill,
    "memory": memory,
    "timely": timely,
    "restart": restart,
    "jump": jump,
    "once": once,
    "once_set_back": once_set_back,
}


def step(name: str, place: str, count: int) -> Any:
    words = [sys.executable, "-m", "benchmarks.sleepers", "--step", name, "--place", place, "--count", str(count)]
    return json.loads(subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout)


def told(how: str, woken: Woken, asleep_mb: float, again: int) -> bool:
    """The rows of one way to wake; whether its bounds are met."""
    row(f"s until the last woke, {how}", 0, woken.seconds, woken.seconds, "no bound", NO_BOUND)
    row("ms until half of them had", 0, woken.half_ms, woken.half_ms, "no bound", NO_BOUND)
    row("MB at the peak", asleep_mb, woken.mb, woken.mb - asleep_mb, "no bound", NO_BOUND)
    late, wrong = woken.late_ms, woken.wrong + again
    met = row(f"ms late, {SHORT} to wake meanwhile", 0, late, late, f"<= {LATE_MS_MAX}", LATE_MS_MAX)
    return met & row("that woke otherwise than once, then and later", 0, wrong, wrong, "none", 0.5)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=COUNT)
    parser.add_argument("--step", choices=sorted(STEPS))
    parser.add_argument("--place", default="")
    given = parser.parse_args()
    if given.step:
        print(msgspec.json.encode(asyncio.run(STEPS[given.step](given.place, given.count))).decode())
        return 0
    count = given.count
    with tempfile.TemporaryDirectory() as folder:
        full, empty = os.path.join(folder, "full.db"), os.path.join(folder, "empty.db")
        step("fill", full, count)
        jumped = shutil.copy(full, os.path.join(folder, "jumped.db"))
        bare, ours = step("memory", empty, 0), step("memory", full, count)
        met = row(f"MB of a process, {count:,} asleep", bare, ours, ours - bare, f"added <= {MB_MAX}", MB_MAX)
        late = step("timely", full, count)
        met &= row(f"ms late at the most, {SHORT} that wake", 0, late, late, f"<= {LATE_MS_MAX}", LATE_MS_MAX)
        restarted = msgspec.convert(step("restart", full, count), Woken)
        met &= told("across a restart", restarted, ours, step("once", full, count))
        by_jump = msgspec.convert(step("jump", jumped, count), Woken)
        met &= told("by a jump of the clock", by_jump, ours, step("once_set_back", jumped, count))
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
