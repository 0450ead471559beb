"""One child in a worktree of its own, worked off by a process that is killed at a named moment."""

from __future__ import annotations

import asyncio
import os
import pathlib
import signal
import sys

import windlass
from windlass.runtime.host.ports import SystemPorts

from .support import lead, writer


class Deadly(SystemPorts):
    """Kills the process at the first moment of a name."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name

    def point(self, name: str) -> None:
        if name == self._name:
            os.kill(os.getpid(), signal.SIGKILL)


def agent() -> windlass.Agent:
    return lead(writer(path="new.txt", settings=windlass.Settings(losses_max=1_000)))


async def work(folder: pathlib.Path, moment: str) -> None:
    one = agent()
    async with windlass.open(folder / "work.db", agents=[one], ports=Deadly(moment), lease_ms=1) as runtime:
        session = await runtime.session(one, "s", workspace=folder / "repo")
        if (await session.state()).seq < 2:
            await session.prompt("go", command_id="go")
        result = await session.result("go")
        print(result.status, result.text, flush=True)
        (child,) = [row.session for row in await runtime.sessions(root="s") if row.parent is not None]
        while (await (await runtime.get(child)).state()).tree.status != "removed":
            await asyncio.sleep(0.005)


if __name__ == "__main__":
    asyncio.run(work(pathlib.Path(sys.argv[1]), sys.argv[2]))
