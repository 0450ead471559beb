"""The SQLite file as the five parts of the store share it: one writer for all, a connection for short reads on the
loop, and one for long reads in a thread."""

from __future__ import annotations

import asyncio
import pathlib
import tempfile
import threading
from collections.abc import Callable
from typing import TypeVar, TypeVarTuple

import apsw

from windlass.events.errors import Damaged, StorePoisoned, UsageError
from windlass.store.base import Durability
from windlass.store.group_commit import GroupWriter

from .committer import SqliteCommitter
from .connections import connect, is_writable, open_for_reading, readable, refuse_missing, resolved
from .schema import refuse_broken_sqlite, store_error

INLINE_BYTES = 256 * 1024
"""Blobs and snapshots above this size are hashed and written off the loop."""
LOOK_WAIT_S = 0.05
"""How long a look for what others wrote waits for the writer to rest."""

Result = TypeVar("Result")
Args = TypeVarTuple("Args")


class Database:
    """The open file. Whatever is given to `write` or `submit` is one job of a transaction."""

    def __init__(self, path: pathlib.Path, durability: Durability, vfs: str | None, *, look: bool = False) -> None:
        self.stats: dict[str, int] = {"appends": 0, "commits": 0, "syncs": 0, "checkpoints": 0, "group_max": 0}
        self._closed = False
        refuse_broken_sqlite(apsw.sqlite_lib_version())
        path = resolved(path)
        self._path = path
        self._long_lock = threading.Lock()
        self._committer: SqliteCommitter | None = None
        self._writer: GroupWriter[apsw.Cursor] | None = None
        """None if the file can only be read."""
        if look:
            refuse_missing(path)
        self._copy: tempfile.TemporaryDirectory[str] | None = None
        if look and not is_writable(path):
            self._copy, path = readable(path)
            self._short, self._long = open_for_reading(path), open_for_reading(path)
            return
        self._committer = SqliteCommitter(path, durability, vfs, self.stats)
        try:
            self._short = connect(path, write=False, vfs=vfs)
            self._long = connect(path, write=False, vfs=vfs)
        except apsw.Error as error:
            self._committer.end()
            raise store_error(error) from error
        self._writer = GroupWriter(self._committer, inline=durability == "normal")

    def submit(
        self, work: Callable[[apsw.Cursor, *Args], Result], *args: *Args, barrier: bool = False, heavy: bool = False
    ) -> asyncio.Future[Result]:
        """Queues a write with its arguments, which spares every append a closure."""
        return self._open_writer().submit(work, *args, barrier=barrier, heavy=heavy)

    async def write(
        self, work: Callable[[apsw.Cursor], Result], *, barrier: bool = False, heavy: bool = False
    ) -> Result:
        """Does a job within the next commit."""
        result: Result = await self._open_writer().submit(work, barrier=barrier, heavy=heavy)
        return result

    async def write_scrubbed(self, work: Callable[[apsw.Cursor], Result]) -> Result:
        """Overwrites what is deleted, and returns when the log file, where old copies of pages stay, was emptied."""

        def run(cursor: apsw.Cursor) -> Result:
            cursor.execute("PRAGMA secure_delete = ON")
            try:
                result = work(cursor)
            finally:
                cursor.execute("PRAGMA secure_delete = OFF")
            if self._committer is not None:
                self._committer.scrub_next()
            return result

        result = await self.write(run, heavy=True)
        await self.write(lambda cursor: None, heavy=True)
        return result

    def _open_writer(self) -> GroupWriter[apsw.Cursor]:
        if self._committer is None or self._writer is None:
            raise UsageError(f"{str(self._path)!r} can only be read: copy it to where it can be written")
        if self._committer.poison is not None:
            raise StorePoisoned(str(self._committer.poison)) from self._committer.poison
        return self._writer

    def read(self, work: Callable[[apsw.Cursor], Result]) -> Result:
        """A short read, on the caller's thread: cheaper than a hop to another one."""
        return self._read_on(self._short, work)

    async def read_long(self, work: Callable[[apsw.Cursor], Result]) -> Result:
        """A read that may take a while, in a thread."""

        def run() -> Result:
            with self._long_lock:
                return self._read_on(self._long, work)

        return await asyncio.to_thread(run)

    def _read_on(self, connection: apsw.Connection, work: Callable[[apsw.Cursor], Result]) -> Result:
        self._refuse_closed()
        cursor = connection.cursor()
        try:
            return work(cursor)
        except apsw.Error as error:
            raise store_error(error, connection) from error
        except (TypeError, ValueError) as error:  # a column that is not of its kind any more
            raise Damaged(f"the database is damaged: a row in it is none of ours ({error})") from error
        finally:
            cursor.close(True)

    def _refuse_closed(self) -> None:
        if self._closed:
            raise UsageError("the store is closed: open it again")

    async def commits_of_others(self) -> int:
        """A number that changes when others commit. While the writer commits nobody else does, and it looks itself
        before it begins; what was committed since is seen as soon as it rests."""
        self._refuse_closed()
        if self._committer is None or self._writer is None:
            return 0
        if not self._writer.if_idle(self._committer.look):
            await asyncio.to_thread(self._writer.if_idle, self._committer.look, wait_s=LOOK_WAIT_S)
        return self._committer.others

    async def close(self) -> None:
        """Commits what is queued, folds the log file back, and lets the file go."""
        if self._closed:
            return
        self._closed = True
        with self._long_lock:
            self._long.close()
        self._short.close()
        if self._copy is not None:
            self._copy.cleanup()
        if self._writer is not None:
            await self._writer.close()
