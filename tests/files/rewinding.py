"""What dies in the middle of a rewind that puts files back: a real process, killed at the step that it is told."""

from __future__ import annotations

import asyncio
import os
import pathlib
import signal
import sys
from typing import Any

import windlass
from windlass.runtime.host.ports import SystemPorts
from windlass.runtime.workspace import restored_files
from windlass.testing.scripted import ScriptedModel, by_history, call
from windlass.tools.files import file_tools

FILES = 4
COMMAND = "01a1e5b4-c2b0-783c-ade2-034da86b9abe"
STEPS = ("files_restoring", "file_1", "file_3", "files_restored", "rewound")


def writer(place: pathlib.Path, *turns: Any) -> windlass.Agent:
    """An agent that writes files, and then does what else is wanted."""
    edits = [{"path": f"f{number}.txt", "old": "", "new": f"{number}\n"} for number in range(FILES)]
    script = [[call("patch", edits=edits)], "done", *turns]
    tools = file_tools(place / "root", ("read", "patch"))
    return windlass.Agent("writer", model=ScriptedModel(by_history(script)), tools=tools, policy=windlass.ALLOW_ALL)


class DyingPorts(SystemPorts):
    """The real world, up to the step at which this process is killed."""

    def __init__(self, step: str) -> None:
        super().__init__()
        self.step = step
        self.files = 0

    def point(self, name: str) -> None:
        if name == self.step:
            os.kill(os.getpid(), signal.SIGKILL)


async def die(place: pathlib.Path, step: str) -> None:
    """Works, rewinds, and dies."""
    ports, real = DyingPorts(step), vars(restored_files)["commit"]

    def commit(changes: Any) -> Any:
        done = real(changes)
        ports.files += 1
        ports.point(f"file_{ports.files}")
        return done

    vars(restored_files)["commit"] = commit
    agent = writer(place)
    async with windlass.open(place / "work.db", agents=[agent], ports=ports, lease_ms=1_000) as runtime:
        session = await runtime.session(agent, "s")
        before = (await session.state()).seq
        await session.prompt("go")
        await session.wait_idle()
        await session.rewind(before, files=True, command_id=COMMAND)
        ports.point("rewound")


if __name__ == "__main__":
    asyncio.run(die(pathlib.Path(sys.argv[1]), sys.argv[2]))
