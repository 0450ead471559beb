"""How the five parts of the JSON-lines store reach its directory: each hands its work to the one writer of the process,
which does groups of it under the lock that other processes respect."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import TypeVar, TypeVarTuple

from windlass.events.errors import StorePoisoned, UsageError
from windlass.store.base import Durability
from windlass.store.group_commit import GroupWriter

from .directory import Directory
from .disk import Disk, disk_error

Result = TypeVar("Result")
Args = TypeVarTuple("Args")


class DirectoryWriter:
    """The open directory. Whatever is given to `do` is one job of a group."""

    def __init__(self, root: pathlib.Path, durability: Durability, disk: Disk) -> None:
        self.root = root
        self.stats: dict[str, int] = {"appends": 0, "commits": 0, "syncs": 0, "group_max": 0}
        try:
            self._directory = Directory(root, durability, disk, self.stats)
        except OSError as error:
            raise disk_error(error) from error
        self._writer: GroupWriter[Directory] = GroupWriter(self._directory, inline=durability == "normal")
        self._closed = False

    async def do(
        self, work: Callable[[Directory, *Args], Result], *args: *Args, barrier: bool = False, heavy: bool = False
    ) -> Result:
        """Does a job under the store's lock; its first argument is the directory."""
        if self._directory.poison is not None:
            raise StorePoisoned(str(self._directory.poison)) from self._directory.poison
        result: Result = await self._writer.submit(work, *args, barrier=barrier, heavy=heavy)
        return result

    def blob_path(self, tenant: str, digest: str) -> pathlib.Path:
        """Where a blob lies: it is read without the lock, since it never changes."""
        return self._directory.blob_path(tenant, digest)

    def changes(self) -> int:
        """A number that grows with every group that wrote something."""
        if self._closed:
            raise UsageError("the store is closed: open it again")
        return self._directory.changes()

    async def close(self) -> None:
        """Writes what is queued and lets the files go."""
        self._closed = True
        await self._writer.close()
