"""What a child session costs beside a session of its own, measured side by side in one run, by CPU time.

    python -m benchmarks.children [--quick]

A parent whose model starts children, each with a task and one reply of a model in this process, and waits for them: one
in each of its turns, or 16. All that the tree uses is divided by the number of children, the parent's turns included.
The other side is as many sessions of their own, one after the other or 16 at a time, each with one prompt. Exits with 1
if a child that is alone in its turn costs more than 1.5 times a session with `full` durability, or 1.7 times with
`normal`. Of 16 at a time no bound is held: sessions that walk in step share their commits, and children hardly do.
"""

from __future__ import annotations

import argparse
import asyncio
import pathlib
import statistics
import sys
import tempfile
import time
from typing import Literal

import windlass
from windlass.models.base import Request
from windlass.testing.scripted import AnyTurn, ScriptedModel, call

AT_ONCE = (1, 16)
COUNT = 320
ROUNDS = 5
QUICK_COUNT, QUICK_ROUNDS = 96, 3
Durability = Literal["full", "normal"]
BOUNDS: dict[Durability, float] = {"full": 1.5, "normal": 1.7}
TASK = "nothing"


def nothing(request: Request) -> str:
    return "done"


async def sessions(place: pathlib.Path, durability: Durability, count: int, at_once: int) -> float:
    """CPU milliseconds of each of so many sessions with one prompt."""
    agent = windlass.Agent("bare", ScriptedModel(nothing))
    async with windlass.open(place, agents=[agent], durability=durability) as runtime:

        async def one(number: int) -> None:
            session = await runtime.session(agent, f"s{number}")
            await session.prompt(TASK)
            await session.result()

        started = time.process_time()
        for first in range(0, count, at_once):
            await asyncio.gather(*(one(number) for number in range(first, first + at_once)))
        return (time.process_time() - started) * 1000 / count


async def children(place: pathlib.Path, durability: Durability, count: int, at_once: int) -> float:
    """CPU milliseconds of each of so many children of one session."""
    child = windlass.Agent("child", ScriptedModel(nothing), description="does nothing")
    turns = iter(range(count // at_once))

    def lead(request: Request) -> AnyTurn:
        turn = next(turns, None)  # to count them in the history would cost more with each
        if turn is None:
            return "done"
        return [call("spawn", agent="child", task=f"{TASK} {turn}.{number}") for number in range(at_once)]

    settings = windlass.Settings(children_max=count, turns_max=count + 1)
    agent = windlass.Agent("lead", ScriptedModel(lead), agents=[child], settings=settings)
    async with windlass.open(place, agents=[agent], durability=durability) as runtime:
        session = await runtime.session(agent, "s")
        started = time.process_time()
        await session.prompt("go")
        result = await session.result()
        spent = (time.process_time() - started) * 1000 / count
        assert result.text == "done", result
        state = await session.state()
        assert state.children.count == count, state.children.count
        return spent


def measured(durability: Durability, count: int, at_once: int, rounds: int) -> tuple[float, float]:
    """The medians of both sides, taken in turns."""
    bare, below = [], []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            bare.append(asyncio.run(sessions(pathlib.Path(folder) / "bare.db", durability, count, at_once)))
            below.append(asyncio.run(children(pathlib.Path(folder) / "tree.db", durability, count, at_once)))
    return statistics.median(bare), statistics.median(below)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="half the children, fewer rounds")
    quick = parser.parse_args(arguments).quick
    count, rounds = (QUICK_COUNT, QUICK_ROUNDS) if quick else (COUNT, ROUNDS)
    holds = True
    for durability, most in BOUNDS.items():
        for at_once in AT_ONCE:
            bare, child = measured(durability, count, at_once, rounds)
            times, bound = child / bare, f"   at most {most}" if at_once == 1 else ""
            holds &= times <= most or at_once > 1
            print(
                f"{durability:6} {at_once:2} at a time   session {bare:.2f} CPU ms   child {child:.2f} CPU ms   "
                f"{times:.2f} times{bound}",
                flush=True,
            )
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
