"""Hands a session over, and is killed at a named moment: `FOLDER URL TOKEN SESSION MOMENT`."""

from __future__ import annotations

import asyncio
import os
import pathlib
import signal
import sys
from typing import Any

from windlass.runtime.sessions.handoff import Mover, hand_over_to_server
from windlass.store import open_store
from windlass.store.base import Key
from windlass.store.remote.log import RemoteLog
from windlass.store.remote.parts import RemoteInbox
from windlass.store.sqlite.log import SqliteLog

MOMENTS: dict[str, tuple[Any, str, bool]] = {
    "before it is on record here": (SqliteLog, "append", False),
    "behind the record here": (SqliteLog, "append", True),
    "before it arrives": (RemoteLog, "adopt", False),
    "behind its arrival": (RemoteLog, "adopt", True),
    "before a command is sent on": (RemoteInbox, "send", False),
    "behind a command that was sent on": (RemoteInbox, "send", True),
}
"""The method that is the moment, and whether it is behind it."""


def deadly(moment: str) -> None:
    """Has this process end at a moment, as if somebody had pulled the plug."""
    kind, name, is_behind = MOMENTS[moment]
    whole = getattr(kind, name)

    async def method(self: Any, *args: Any, **more: Any) -> Any:
        if is_behind:
            await whole(self, *args, **more)
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(kind, name, method)


async def main(folder: str, url: str, token: str, session: str) -> None:
    store = await open_store(str(pathlib.Path(folder) / "here.db"))
    await hand_over_to_server(store, Key("default", session), url, token, by=Mover(actor="ada", auth="os_user"))


if __name__ == "__main__":
    deadly(sys.argv[5])
    asyncio.run(main(*sys.argv[1:5]))
