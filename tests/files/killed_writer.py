"""A process whose agent changes files, and which is killed at one step of that. A second life takes up what there is.

arguments: store, root, step ("-" for none), turn as JSON: [[tool, arguments], ...]"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from typing import Any

import windlass
from windlass.testing.scripted import ScriptedModel, by_history, call
from windlass.tools.context import ToolContext
from windlass.tools.files import FILE_TOOLS, WRITE_TOOLS, file_tools
from windlass.tools.files.write import commit, temporary_files

LEASE_MS = 1
"""A dead process cannot give its lease back, so it holds it only for a moment."""

STEPS: dict[str, tuple[Any, str]] = {
    "kept": (ToolContext, "wait"),
    "staged": (temporary_files, "write_beside"),
    "renamed": (commit, "_put"),
    "synced": (os, "fsync"),
    "moved": (temporary_files, "put_new"),
    "reported": (ToolContext, "changed"),
}


def die(*_: Any, **__: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def plant(step: str) -> None:
    """Dies right before or right after a step, the n-th time that it comes: `renamed:after:2`."""
    name, when, count = step.split(":")
    holder, attribute = STEPS[name]
    really, seen = getattr(holder, attribute), []

    def planted(*args: Any, **more: Any) -> Any:
        if not _ours(args):
            return really(*args, **more)
        seen.append(1)
        if when == "before" and len(seen) == int(count):
            die()
        result = really(*args, **more)
        if when == "after" and len(seen) == int(count):
            die()
        return result

    setattr(holder, attribute, planted)


def _ours(args: tuple[Any, ...]) -> bool:
    """Whether a sync is of the files beneath the root and not of the store."""
    if len(args) == 1 and isinstance(args[0], int):
        return os.readlink(f"/proc/self/fd/{args[0]}").startswith(os.path.realpath(sys.argv[2]))
    return True


async def main() -> None:
    if sys.argv[3] != "-":
        plant(sys.argv[3])
    turn = [call(tool, **args) for tool, args in json.loads(sys.argv[4])]
    agent = windlass.Agent(
        "writer",
        model=ScriptedModel(by_history([turn, "done"])),
        tools=file_tools(sys.argv[2], (*FILE_TOOLS, *WRITE_TOOLS)),
        policy=windlass.ALLOW_ALL,
    )
    async with windlass.open(sys.argv[1], agents=[agent], lease_ms=LEASE_MS, poll_ms=10) as runtime:
        session = await runtime.session(agent, "the-one")
        await session.prompt("go", command_id="the one")
        await session.wait_idle()


if __name__ == "__main__":
    asyncio.run(main())
