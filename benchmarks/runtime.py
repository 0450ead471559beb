"""How a durable session compares with loops written by hand, measured side by side in one run.

    python -m benchmarks.runtime [--quick] [--part turns|plain|counts|deltas|sessions|resume|parked|import|first]

What is compared is in `sides`, the server in `reply_server`. Each part runs in a fresh process. Exits with 1 if a ratio
misses its bound; an aim is printed beside what was measured and has no such consequence.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from typing import Any

from .counting import UNWATCHED_MS, Counter
from .first_reply import first
from .reply_server import serving
from .sides import (
    SYNCHRONOUS,
    Bare,
    Meter,
    Tool,
    Whole,
    agent_at,
    bare_at,
    brief,
    opened,
    session_of,
    silent,
)
from .table import NO_BOUND, row

TURNS = (50, 200)
STEPS = 10
SESSIONS = 200
TURNS_EACH = 5
PARKED = 1_000
SHORT_RESULT_TURNS = {50: (40, 60), 190: (180, 200)}
"""Which turns are measured for the turn that is named."""

# --- the parts ----------------------------------------------------------------------------------------------------


async def turns(port: int, rounds: int) -> bool:

    met = True
    length = max(TURNS) + STEPS
    for durability in ("normal", "full"):
        found: dict[tuple[str, int], list[float]] = {}
        for _ in range(rounds):
            with tempfile.TemporaryDirectory() as place:
                gc.collect()
                meter = Meter()
                await bare_at(place, port, length, durability, lambda bare, m=meter: bare.run("s", m))  # type: ignore[misc]
                for turn in TURNS:
                    found.setdefault(("bare", turn), []).append(meter.per_turn(turn - STEPS // 2, turn + STEPS // 2))
                gc.collect()
                meter = Meter()
                await session_of(place, port, length, meter, durability)
                for turn in TURNS:
                    found.setdefault(("ours", turn), []).append(meter.per_turn(turn - STEPS // 2, turn + STEPS // 2))
        for turn, bound in zip(TURNS, (2.0, 1.0), strict=True):
            theirs, ours = statistics.median(found["bare", turn]), statistics.median(found["ours", turn])
            what = f"CPU ms per durable turn at {turn}, {durability}"
            met &= row(what, theirs, ours, ours / theirs, f"<= {bound}", bound)
    return met


async def plain(port: int, rounds: int) -> bool:
    """Against the loop that does not stream, with results so short that its history costs it little."""
    await plain_turns(port, rounds)
    await plain_sessions(port, rounds)
    return True


async def plain_turns(port: int, rounds: int) -> None:
    found: dict[tuple[str, int], list[float]] = {}
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as place:
            meters = {"whole": Meter("one line"), "ours": Meter("one line")}
            gc.collect()
            await bare_at(place, port, 210, "normal", lambda loop, m=meters["whole"]: loop.run("s", m), Whole)  # type: ignore[misc]
            gc.collect()
            await session_of(place, port, 210, meters["ours"])
            for side, meter in meters.items():
                for turn, (first, last) in SHORT_RESULT_TURNS.items():
                    found.setdefault((side, turn), []).append(meter.per_turn(first, last))
    for turn, aim in zip(SHORT_RESULT_TURNS, (1.8, 1.0), strict=True):
        theirs, ours = statistics.median(found["whole", turn]), statistics.median(found["ours", turn])
        row(f"CPU ms per turn at {turn}, no stream", theirs, ours, ours / theirs, f"aim <= {aim}", aim)


async def plain_sessions(port: int, rounds: int) -> None:
    rates: dict[str, list[tuple[float, float]]] = {"whole": [], "ours": []}
    for _ in range(max(3, rounds * 2 // 3)):
        with tempfile.TemporaryDirectory() as place:
            gc.collect()
            rates["ours"].append(await at_once(place, port, "normal", brief))
            gc.collect()
            rates["whole"].append(
                await bare_at(place, port, TURNS_EACH, "normal", lambda loop: by_hand(loop, brief), Whole)
            )
    for index, what in enumerate(("sessions/s, 200 at once, no stream", "  sessions per CPU second, no stream")):
        theirs, ours = (
            statistics.median([SESSIONS / spent[index] for spent in rates[side]]) for side in ("whole", "ours")
        )
        row(what, theirs, ours, ours / theirs, "aim >= 0.5", -0.5)


async def counts(port: int, rounds: int) -> bool:
    """What can be counted, for each turn between the thirtieth and the fiftieth."""
    sides: dict[str, Counter] = {"bare": Counter(), "whole": Counter(), "ours": Counter(), "ours, full": Counter()}
    for side, counter in sides.items():
        with tempfile.TemporaryDirectory() as place, counter.counting():
            if side in ("bare", "whole"):
                kind = Bare if side == "bare" else Whole
                await bare_at(place, port, 60, "normal", lambda loop, c=counter: loop.run("s", c), kind)  # type: ignore[misc]
            else:
                durability = "full" if side.endswith("full") else "normal"
                await session_of(place, port, 60, counter, durability, poll_ms=UNWATCHED_MS)
    found = {side: counter.per_turn(30, 50) for side, counter in sides.items()}
    for durability in ("normal", "full"):
        ours, theirs = found["ours" if durability == "normal" else "ours, full"], found["whole"]
        for name, aim in (("passes", 4), ("statements", 4), ("calls", NO_BOUND)):
            a, b = getattr(theirs, name), getattr(ours, name)
            row(f"{name} per turn, {durability}, no stream", a, b, b, f"aim <= {aim}", aim)
    return True


async def deltas(port: int, rounds: int) -> bool:
    import windlass

    rates: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as place:
            gc.collect()
            before = time.process_time()
            count = await bare_at(place, port, "long", "normal", lambda bare: bare.run("s", silent))
            rates[0].append(count / (time.process_time() - before))
            agent = agent_at(port, "long", silent)
            async with opened(os.path.join(place, "ours.db"), agent, "normal") as rt:
                session = await rt.session(agent, "s")
                gc.collect()
                before, count = time.process_time(), 0
                async for event in session.prompt("Read the files."):
                    count += type(event) is windlass.TextDelta
                rates[1].append(count / (time.process_time() - before))
    theirs, ours = statistics.median(rates[0]), statistics.median(rates[1])
    return row("typed deltas per CPU second, subscribed", theirs, ours, ours / theirs, ">= 0.8", -0.8)


async def at_once(place: str, port: int, durability: Any, tool: Tool) -> tuple[float, float]:
    """Many sessions of ours at once: the time and the CPU that they took."""
    agent = agent_at(port, TURNS_EACH, tool)
    async with opened(os.path.join(place, "ours.db"), agent, durability) as rt:

        async def one(name: str) -> None:
            session = await rt.session(agent, name)
            await session.prompt("Read the files.")
            assert (await session.result()).ok

        before, used = time.perf_counter(), time.process_time()
        await asyncio.gather(*(one(f"s{n}") for n in range(SESSIONS)))
        return time.perf_counter() - before, time.process_time() - used


async def by_hand(loop: Bare, tool: Tool = silent) -> tuple[float, float]:
    """As many with a loop."""
    before, used = time.perf_counter(), time.process_time()
    await asyncio.gather(*(loop.run(f"s{n}", tool) for n in range(SESSIONS)))
    return time.perf_counter() - before, time.process_time() - used


async def sessions(port: int, rounds: int) -> bool:

    met = True
    rates: dict[tuple[str, str], list[float]] = {}
    spent: dict[tuple[str, str], list[float]] = {}
    peak = 0.0

    def measured(side: str, durability: str, seconds: float, cpu: float) -> None:
        rates.setdefault((side, durability), []).append(SESSIONS / seconds)
        spent.setdefault((side, durability), []).append(SESSIONS / cpu)

    for number in range(max(3, rounds * 2 // 3)):
        for durability in SYNCHRONOUS:
            with tempfile.TemporaryDirectory() as place:
                gc.collect()
                measured("ours", durability, *await at_once(place, port, durability, silent))
        if number == 0:
            peak = peak_mb()  # before the other side has used any memory
        for durability in SYNCHRONOUS:
            with tempfile.TemporaryDirectory() as place:
                gc.collect()
                measured("bare", durability, *await bare_at(place, port, TURNS_EACH, durability, by_hand))
    for durability in SYNCHRONOUS:
        theirs, mine = (statistics.median(rates[side, durability]) for side in ("bare", "ours"))
        met &= row(f"sessions/s, {SESSIONS} at once, {durability}", theirs, mine, mine / theirs, ">= 0.5", -0.5)
        theirs, mine = (statistics.median(spent[side, durability]) for side in ("bare", "ours"))
        row(f"  sessions per CPU second, {durability}", theirs, mine, mine / theirs, "no bound", NO_BOUND)
    return met & row("  MB of the whole process at its peak", 0, peak, peak, "<= 80", 80)


async def resume(port: int, rounds: int) -> bool:

    with tempfile.TemporaryDirectory() as place:
        path = os.path.join(place, "ours.db")
        agent = agent_at(port, 200, silent)
        async with opened(path, agent) as rt:
            session = await rt.session(agent, "s")
            await session.prompt("Read the files.")
            assert (await session.result()).ok
        times = []
        for _ in range(rounds):
            again = agent_at(port, 200, silent)
            async with opened(path, again) as rt:
                gc.collect()
                before = time.perf_counter()
                session = await rt.session(again, "s")
                await session.set_title("ready")
                times.append((time.perf_counter() - before) * 1000)
    found = statistics.median(times)
    return row("ms until a 200-turn session is ready", 0, found, found, "<= 15", 15)


async def parked(port: int, rounds: int) -> bool:
    import windlass

    with tempfile.TemporaryDirectory() as place:
        policy = windlass.Policy(rules=(windlass.ask("read"),))
        agent = agent_at(port, 1, silent, policy=policy)
        async with opened(os.path.join(place, "ours.db"), agent, "normal") as rt:

            async def park(name: str) -> None:
                session = await rt.session(agent, name)
                await session.prompt("Read the files.")
                assert (await session.result()).status == "asked"

            for number in range(20):
                await park(f"warm{number}")
            gc.collect()
            before = rss_mb()
            for begin in range(0, PARKED, 50):
                await asyncio.gather(*(park(f"s{begin + n}") for n in range(50)))
            gc.collect()
            found = rss_mb() - before
    return row(f"MB that {PARKED} parked sessions add", 0, found, found, "<= 20", 20)


async def imports(port: int, rounds: int) -> bool:
    def least(code: str) -> float:
        measured = f"import time; {code}; print(time.process_time())"
        runs = [subprocess.run([sys.executable, "-c", measured], capture_output=True, check=True) for _ in range(10)]
        return min(float(run.stdout) for run in runs) * 1000

    bare = least("import msgspec")
    ours = least("import windlass; windlass.Agent; windlass.tool; windlass.open")
    return row("CPU ms of the import over msgspec's", bare, ours, ours - bare, "<= 60", 60)


PARTS: dict[str, Callable[[int, int], Awaitable[bool]]] = {
    "turns": turns,
    "plain": plain,
    "counts": counts,
    "deltas": deltas,
    "sessions": sessions,
    "resume": resume,
    "parked": parked,
    "import": imports,
    "first": first,
}


def rss_mb() -> float:
    pages = int(pathlib.Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def peak_mb() -> float:
    """The most memory that the process ever had."""
    status = pathlib.Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1e3


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--part", choices=sorted(PARTS), help="one part only")
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    rounds = 3 if given.quick else 9
    if given.part and given.port:
        return 0 if asyncio.run(PARTS[given.part](given.port, rounds)) else 1  # type: ignore[arg-type]
    with serving() as port:
        print(f"{'what':44} {'bare':>12} {'ours':>12} {'ratio':>7}  bound", flush=True)
        missed = 0
        for part in [given.part] if given.part else list(PARTS):
            again = [sys.executable, "-m", "benchmarks.runtime", "--part", part, "--port", str(port)]
            missed |= subprocess.run([*again, "--quick"] if given.quick else again).returncode
        return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
