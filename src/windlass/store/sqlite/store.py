"""The default store: one SQLite file. One connection in one thread does all writes and checkpoints of a process; the
appends of many sessions share a commit. Imports apsw, so it is itself imported on first use only."""

from __future__ import annotations

import asyncio
import functools
import pathlib
from typing import Self

from windlass.store.base import Capabilities, Durability

from .blobs import SqliteBlobs
from .database import Database
from .inbox import SqliteInbox
from .index import SqliteIndex
from .leases import SqliteLeases
from .log import SqliteLog


class SqliteStore:
    """Acknowledged appends are in a committed transaction; in `full`, also synced to disk. Make it with `open`."""

    CAPABILITIES = Capabilities(durable=True, multi_process=True, transactional=True, sends=True)

    def __init__(self, path: pathlib.Path, durability: Durability, vfs: str | None, *, look: bool = False) -> None:
        """Opens the file; blocks while it does. Use `open`."""
        self.path = path
        self._durability: Durability = durability
        self.database = Database(path, durability, vfs, look=look)
        self.log = SqliteLog(self.database)
        self.inbox = SqliteInbox(self.database)
        self.leases = SqliteLeases(self.database)
        self.index = SqliteIndex(self.database)
        self.blobs = SqliteBlobs(self.database)
        self._seen = (-1, 0)

    @classmethod
    async def open(
        cls, path: str | pathlib.Path, *, durability: Durability = "full", vfs: str | None = None, look: bool = False
    ) -> Self:
        """Opens the file, making it if need be. One that is there is not written to; with `look`, one that cannot be
        written is opened for reading. Raises `UsageError` for a place where no store can be, a file of another
        program or of a newer version, and on an SQLite that is known to lose data; `Damaged` for one that is none."""
        return await asyncio.to_thread(functools.partial(cls, pathlib.Path(path), durability, vfs, look=look))

    @property
    def durability(self) -> Durability:
        return self._durability

    @property
    def capabilities(self) -> Capabilities:
        return self.CAPABILITIES

    @property
    def stats(self) -> dict[str, int]:
        return self.database.stats

    async def changed(self) -> bool:
        seen = (await self.database.commits_of_others(), self.inbox.sends)
        changed = seen != self._seen
        self._seen = seen
        return changed

    async def close(self) -> None:
        """Commits what is queued, folds the log file back, and lets the file go."""
        await self.database.close()
