"""What it adds to the opening of a session that what is read of its log is checked, in machine instructions.

    python -m benchmarks.opening

Runs itself under valgrind's callgrind (see `instructions`), with the check of each row and without it: a stored session
of 200 turns is opened by one runtime after the other, from the snapshot that the one before left, and then from its
first record, as if there were none. Exits with 1 if the check adds more than it may.
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
from collections.abc import AsyncIterator
from typing import Any

from .counting import UNWATCHED_MS
from .instructions import LEASE_MS, NEVER, counted, counted_instructions
from .sides import INSTRUCTIONS, RESULT, opened

SESSION = "long"
TURNS = 200
OPENINGS = 10
KINDS = ("snapshot", "whole")
MORE_MOST = {"snapshot": 0.03, "whole": 0.08}
"""Of the instructions. A sum over bytes is cheaper in time than it is in these: it waits for nothing."""


def agent_of(turns: int) -> Any:
    """An agent whose model asks for a tool in each turn but the last."""
    import windlass
    from windlass.testing import ScriptedModel, call

    @windlass.tool(contract="pure")
    async def read(path: str) -> str:
        "Reads a file."
        return RESULT

    model = ScriptedModel([*(call("read", path=f"/srv/data/{number}.txt") for number in range(turns - 1)), "done"])
    settings = windlass.Settings(turns_max=turns)
    return windlass.Agent("worker", model=model, instructions=INSTRUCTIONS, tools=[read], settings=settings)


async def kept(path: str, turns: int = TURNS) -> None:
    """Writes a session of so many turns."""
    agent = agent_of(turns)
    async with opened(path, agent) as runtime:
        session = await runtime.session(agent, SESSION)
        await session.prompt("Read the files.")
        assert (await session.result()).ok


@contextlib.asynccontextmanager
async def before_opening(path: str, kind: str) -> AsyncIterator[Any]:
    """A runtime that has not opened the session yet, and the agent; of a `whole` log every record is to be read."""
    from windlass.store.base import Key

    agent = agent_of(1)
    async with opened(path, agent, poll_ms=UNWATCHED_MS, lease_ms=LEASE_MS) as runtime:
        if kind == "whole":
            await runtime.store.log.drop_snapshots(Key(runtime.tenant, SESSION))
        yield runtime, agent


async def work(path: str, kind: str) -> None:
    await kept(path)
    for number in range(OPENINGS + 1):
        async with before_opening(path, kind) as (runtime, agent):
            gc.collect()
            gc.set_threshold(700, 10, NEVER)
            with counted() if number else contextlib.nullcontext():
                await (await runtime.session(agent, SESSION)).set_title(str(number))


def unchecked() -> None:
    """Has rows be taken for what they say."""
    from windlass.events.stored.record import Sealed
    from windlass.store.sqlite import log
    from windlass.store.sqlite.schema import SEQ_MASK

    def sealed_of(key: Any, row: Any, seq: int, chain: str) -> Sealed:
        place, last_seq, at_ms, epoch, digest, data, _ = row
        return Sealed(
            first_seq=place & SEQ_MASK,
            last_seq=last_seq,
            at_ms=at_ms,
            epoch=epoch,
            prev_hash=chain,
            hash=digest,
            data=data,
        )

    vars(log)["sealed_of"] = sealed_of


def measured(kind: str, *, checked: bool) -> float:
    """Thousand instructions of an opening."""
    with tempfile.TemporaryDirectory() as place:
        profile = pathlib.Path(place, "callgrind.out")
        command = ["valgrind", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={profile}"]
        command += [sys.executable, "-m", "benchmarks.opening", "--inside", os.path.join(place, "ours.db")]
        command += ["--kind", kind, *([] if checked else ["--unchecked"])]
        subprocess.run(command, check=True, stderr=subprocess.DEVNULL, env={**os.environ, "PYTHONHASHSEED": "0"})
        return counted_instructions(profile) / OPENINGS / 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    parser.add_argument("--kind", choices=KINDS, help=argparse.SUPPRESS)
    parser.add_argument("--unchecked", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.inside:
        if given.unchecked:
            unchecked()
        asyncio.run(work(given.inside, given.kind))
        return
    missed = False
    for kind in KINDS:
        without, checked = measured(kind, checked=False), measured(kind, checked=True)
        more = checked / without - 1
        print(f"thousand instructions of an opening, {kind}: unchecked {without:,.0f}, checked {checked:,.0f}")
        print(f"more with the check: {more:+.1%} (at most {MORE_MOST[kind]:.0%})")
        missed = missed or more > MORE_MOST[kind]
    if missed:
        sys.exit(1)


if __name__ == "__main__":
    main()
