"""What a node of a workflow costs beside a bare session, measured side by side in one run.

    python -m benchmarks.flows [--quick]

A graph of 1,000 nodes that do nothing: each is a child session with one reply of a model in this process. The other
side is as many sessions of their own, each with one prompt. Exits with 1 if a node costs more than 3 times a session.
"""

from __future__ import annotations

import argparse
import asyncio
import pathlib
import statistics
import sys
import tempfile
import time

import windlass
from windlass import flows
from windlass.models.base import Request
from windlass.testing.scripted import ScriptedModel

NODES = 1_000
PARALLEL = 16
ROUNDS = 3
TIMES_MAX = 3.0


def nothing(request: Request) -> str:
    return "done"


async def sessions(place: pathlib.Path, count: int) -> float:
    """Milliseconds of each of so many sessions with one prompt, as many at a time as nodes are."""
    agent = windlass.Agent("bare", ScriptedModel(nothing))
    free = asyncio.Semaphore(PARALLEL)
    async with windlass.open(place, agents=[agent]) as runtime:

        async def one(number: int) -> None:
            async with free:
                session = await runtime.session(agent, f"s{number}")
                await session.prompt("nothing")
                await session.result()

        started = time.perf_counter()
        await asyncio.gather(*(one(number) for number in range(count)))
        return (time.perf_counter() - started) * 1000 / count


async def graph(place: pathlib.Path, count: int) -> float:
    """Milliseconds of each of so many nodes of one workflow."""
    agent = windlass.Agent("node", ScriptedModel(nothing))
    flow = flows.Flow(
        "noop", [flows.spawn(f"n{number}", agent, "nothing") for number in range(count)], parallel=PARALLEL
    )
    async with windlass.open(place, agents=[flow]) as runtime:
        started = time.perf_counter()
        result = await (await runtime.flow(flow, "f")).result()
        spent = (time.perf_counter() - started) * 1000 / count
        assert len(result.outputs) == count, result.failure
        return spent


def measured(count: int, rounds: int) -> tuple[float, float]:
    """The medians of both sides, taken in turns."""
    bare, nodes = [], []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            bare.append(asyncio.run(sessions(pathlib.Path(folder) / "bare.db", count)))
            nodes.append(asyncio.run(graph(pathlib.Path(folder) / "flow.db", count)))
    return statistics.median(bare), statistics.median(nodes)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the nodes, once")
    quick = parser.parse_args(arguments).quick
    bare, node = measured(NODES // 10 if quick else NODES, 1 if quick else ROUNDS)
    times = node / bare
    print(f"bare session {bare:.2f} ms   node {node:.2f} ms   {times:.2f} times   at most {TIMES_MAX:.0f}")
    return 0 if times <= TIMES_MAX else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
