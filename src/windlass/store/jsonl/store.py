"""A store of plain files: a directory per session with its log as JSON lines, for people who want to read and grep what
their agents did. Many processes may share it; a lock on the directory makes each group of writes one at a time."""

from __future__ import annotations

import asyncio
import os
import pathlib
from typing import Self

from windlass.events.errors import UsageError
from windlass.store.base import Capabilities, Durability
from windlass.store.rules.rights import may

from .blobs import JsonlBlobs
from .disk import Disk
from .inbox import JsonlInbox
from .index import JsonlIndex
from .leases import JsonlLeases
from .log import JsonlLog
from .writer import DirectoryWriter


class JsonlStore:
    """The store over a directory. Make it with `open`."""

    CAPABILITIES = Capabilities(durable=True, multi_process=True, transactional=True, sends=True)

    def __init__(self, root: pathlib.Path, durability: Durability, disk: Disk) -> None:
        """Opens the directory; blocks while it does. Use `open`."""
        self.root = root
        self._durability: Durability = durability
        self.writer = DirectoryWriter(root, durability, disk)
        self.log = JsonlLog(self.writer)
        self.inbox = JsonlInbox(self.writer)
        self.leases = JsonlLeases(self.writer)
        self.index = JsonlIndex(self.writer)
        self.blobs = JsonlBlobs(self.writer)
        self._seen_changes = -1

    @classmethod
    async def open(
        cls,
        root: str | pathlib.Path,
        *,
        durability: Durability = "full",
        disk: Disk | None = None,
        look: bool = False,
    ) -> Self:
        """Opens the directory, making it if need be; with `look`, one that cannot be written is opened for reading.
        Raises `UsageError` for one that holds something else, or that a newer version wrote."""
        path = pathlib.Path(root)
        return await asyncio.to_thread(cls, path, durability, disk or _disk_of(path, look))

    @property
    def durability(self) -> Durability:
        return self._durability

    @property
    def capabilities(self) -> Capabilities:
        return self.CAPABILITIES

    @property
    def stats(self) -> dict[str, int]:
        return self.writer.stats

    async def changed(self) -> bool:
        changes = self.writer.changes()
        changed = changes != self._seen_changes
        self._seen_changes = changes
        return changed

    async def close(self) -> None:
        """Writes what is queued and lets the files go."""
        await self.writer.close()


def _disk_of(path: pathlib.Path, look: bool) -> Disk:
    if look and not os.path.lexists(path / "windlass.json"):
        raise UsageError(f"there is no store at {str(path)!r}")
    return Disk(read_only=look and not may(path / "lock", os.W_OK))
