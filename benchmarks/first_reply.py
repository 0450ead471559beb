"""How long a new process takes until the first words of its first reply."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile

from .table import NO_BOUND, row

FIRST = """
import asyncio, os, sys, time
import windlass
from benchmarks.sides import agent_at, opened, silent

async def main():
    agent = agent_at(int(sys.argv[1]), 1, silent)
    async with opened(os.path.join(sys.argv[2], "ours.db"), agent) as rt:
        session = await rt.session(agent, "s")
        async for event in session.prompt("Read the files."):
            if type(event) is windlass.TextDelta:
                print(time.process_time())
                break

asyncio.run(main())
"""
FIRST_BARE = """
import asyncio, os, sys, time
from benchmarks.sides import Bare, bare_at, silent

class Once(Bare):
    async def _ask(self, messages):
        found = await super()._ask(messages)
        print(time.process_time())
        return found

asyncio.run(bare_at(sys.argv[2], int(sys.argv[1]), 0, "normal", lambda loop: loop.run("s", silent), Once))
"""


async def first(port: int, rounds: int) -> bool:
    """CPU of a new process until the first words of its first reply, its bytecode compiled as an installation has it;
    and the same if it must be compiled first."""

    def least(code: str, cache: str, *, written: bool) -> float:
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": cache, "PYTHONDONTWRITEBYTECODE": "" if written else "1"}
        found = []
        for _ in range(rounds + 1 if written else 1):
            with tempfile.TemporaryDirectory() as place:
                run = [sys.executable, "-c", code, str(port), place]
                found.append(float(subprocess.run(run, capture_output=True, check=True, env=environment).stdout))
        return min(found) * 1000

    with tempfile.TemporaryDirectory() as cache:
        uncompiled = statistics.median([least(FIRST, cache, written=False) for _ in range(rounds)])
        bare, ours = least(FIRST_BARE, cache, written=True), least(FIRST, cache, written=True)
    row("CPU ms to the first reply, new process", bare, ours, ours, "aim <= 400", 400)
    row("  the same, nothing compiled", bare, uncompiled, uncompiled, "no bound", NO_BOUND)
    return True
