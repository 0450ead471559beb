"""What a session costs in machine instructions: the same figure on a busy machine as on an idle one.

    python -m benchmarks.instructions [--http] [--keep FILE]

Runs itself under valgrind's callgrind: 30 sessions at once, six requests each, SQLite, `normal`, after a few that warm
up what is made once. What depends on how long things take, and so on valgrind and on the machine, is held still: rows
of the index are not due by their age, the store is not looked at, no lease is renewed and no full collection happens.
The model is scripted; with `--http` it is the server of `reply_server`, and the HTTP client is counted as well.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import os
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

from .counting import UNWATCHED_MS
from .reply_server import serving
from .sides import INSTRUCTIONS, SHORT_RESULT, agent_at, brief, opened

SESSIONS = 30
WARM_UP = 10
TURNS = 5
"""Requests that ask for a tool; one more has the answer."""
WORDS = [f" word{n}" for n in range(20)]
NEVER = 1_000_000_000
LEASE_MS = 600_000


def scripted_agent() -> Any:
    """An agent whose model answers as the server would."""
    import windlass
    from windlass.testing import ScriptedModel, call, turn
    from windlass.testing.scripted import by_history

    @windlass.tool(contract="pure")
    async def read(path: str) -> str:
        "Reads a file."
        return SHORT_RESULT

    asks = [turn(*WORDS, call("read", path=f"/srv/data/{number}.txt")) for number in range(TURNS)]
    model = ScriptedModel(by_history([*asks, turn(*WORDS)]))
    return windlass.Agent("worker", model=model, instructions=INSTRUCTIONS, tools=[read])


async def work(place: str, port: int | None) -> None:
    """Sessions that warm up, then those that are counted."""
    from windlass.runtime.owner import index_row

    index_row.SUMS_EVERY_MS = NEVER
    agent = agent_at(port, TURNS, brief) if port else scripted_agent()
    path = os.path.join(place, "ours.db")
    async with opened(path, agent, poll_ms=UNWATCHED_MS, lease_ms=LEASE_MS) as runtime:

        async def one(name: str) -> None:
            session = await runtime.session(agent, name)
            await session.prompt("Read the files.")
            assert (await session.result()).ok

        await asyncio.gather(*(one(f"warm{number}") for number in range(WARM_UP)))
        gc.collect()
        gc.set_threshold(700, 10, NEVER)
        with counted():
            await asyncio.gather(*(one(f"s{number}") for number in range(SESSIONS)))


@contextlib.contextmanager
def counted() -> Iterator[None]:
    """Has callgrind count what happens meanwhile."""
    control = ["callgrind_control", "-i"]
    subprocess.run([*control, "on", str(os.getpid())], check=True, stdout=subprocess.DEVNULL)
    try:
        yield
    finally:
        subprocess.run([*control, "off", str(os.getpid())], check=True, stdout=subprocess.DEVNULL)


def counted_instructions(profile: pathlib.Path) -> int:
    """The sum in a file that callgrind wrote."""
    lines = profile.read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("totals:"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--http", action="store_true", help="with a provider over HTTP, whose client is counted")
    parser.add_argument("--keep", type=pathlib.Path, help="where to keep the profile, for callgrind_annotate")
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.inside:
        asyncio.run(work(given.inside, given.port))
        return
    with tempfile.TemporaryDirectory() as place, contextlib.ExitStack() as stack:
        profile = given.keep or pathlib.Path(place, "callgrind.out")
        command = ["valgrind", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={profile}"]
        command += [sys.executable, "-m", "benchmarks.instructions", "--inside", place]
        if given.http:
            command += ["--port", str(stack.enter_context(serving()))]
        subprocess.run(command, check=True, stderr=subprocess.DEVNULL, env={**os.environ, "PYTHONHASHSEED": "0"})
        print(f"million instructions per session: {counted_instructions(profile) / SESSIONS / 1e6:.2f}")


if __name__ == "__main__":
    main()
