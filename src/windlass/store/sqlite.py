"""The default store: one SQLite file. One connection in one thread does all writes and checkpoints of a process; the
appends of many sessions share a commit. Imports apsw on first use only."""

from __future__ import annotations

import asyncio
import functools
import pathlib
import threading
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Self, TypeVar

from windlass.events.errors import StorePoisoned, UsageError
from windlass.events.record import Sealed

from .base import (
    BlobInfo,
    Capabilities,
    Claim,
    Durability,
    Head,
    Holder,
    InboxCommand,
    IndexRow,
    Key,
    Origin,
    Query,
    Sent,
    Snapshot,
    TakenCommand,
    blob_digest,
)
from .groups import GroupWriter
from .keys import check_blob, check_command, check_digest, check_id, check_key, check_origin, check_sealed, check_ttl
from .leases import Sightings
from .search import check_query

if TYPE_CHECKING:
    import apsw

INLINE_BYTES = 256 * 1024
"""Blobs and snapshots above this size are hashed and written off the loop."""
LOOK_WAIT_S = 0.05
"""How long a look for what others wrote waits for the writer to rest."""

Result = TypeVar("Result")


class SqliteStore:
    """Acknowledged appends are in a committed transaction; in `full`, also synced to disk. Make it with `open`."""

    CAPABILITIES = Capabilities(durable=True, multi_process=True, transactional=True)

    def __init__(self, path: pathlib.Path, durability: Durability, vfs: str | None) -> None:
        """Opens the file; blocks while it does. Use `open`."""
        import apsw

        from . import sqlite_commits, sqlite_opening, sqlite_reads, sqlite_schema, sqlite_writes

        self._schema, self._ops, self._reads = sqlite_schema, sqlite_writes, sqlite_reads
        self.path = path
        self._durability: Durability = durability
        self._closed = False
        self._sent = 0
        self._seen = (-1, 0)
        self._sightings = Sightings()
        self.stats: dict[str, int] = {"appends": 0, "commits": 0, "syncs": 0, "checkpoints": 0, "group_max": 0}
        sqlite_schema.refuse_broken_sqlite(apsw.sqlite_lib_version())
        try:
            self._committer = sqlite_commits.SqliteCommitter(path, durability, vfs, self.stats)
            self._short = sqlite_opening.connect(path, write=False, vfs=vfs)
            self._long = sqlite_opening.connect(path, write=False, vfs=vfs)
        except apsw.Error as error:
            raise sqlite_schema.store_error(error) from error
        self._long_lock = threading.Lock()
        self._writer: GroupWriter[apsw.Cursor] = GroupWriter(self._committer, inline=durability == "normal")

    @classmethod
    async def open(cls, path: str | pathlib.Path, *, durability: Durability = "full", vfs: str | None = None) -> Self:
        """Opens the file, making it if need be. One that is there is not written to. Raises `UsageError` for a
        place where no store can be, a file of another program or of a newer version, and on an SQLite that is known to
        lose data."""
        return await asyncio.to_thread(cls, pathlib.Path(path), durability, vfs)

    @property
    def durability(self) -> Durability:
        return self._durability

    @property
    def capabilities(self) -> Capabilities:
        return self.CAPABILITIES

    # --- the callers' side

    async def _write(
        self, work: Callable[[apsw.Cursor], Result], *, barrier: bool = False, heavy: bool = False
    ) -> Result:
        self._refuse_poisoned()
        result: Result = await self._writer.submit(work, barrier=barrier, heavy=heavy)
        return result

    def _refuse_poisoned(self) -> None:
        if self._committer.poison is not None:
            raise StorePoisoned(str(self._committer.poison)) from self._committer.poison

    def _read(self, work: Callable[[apsw.Cursor], Result]) -> Result:
        """A short read, on the caller's thread: cheaper than a hop to another one."""
        return self._read_on(self._short, work)

    async def _read_long(self, work: Callable[[apsw.Cursor], Result]) -> Result:
        def run() -> Result:
            with self._long_lock:
                return self._read_on(self._long, work)

        return await asyncio.to_thread(run)

    def _read_on(self, connection: apsw.Connection, work: Callable[[apsw.Cursor], Result]) -> Result:
        if self._closed:
            raise UsageError("the store is closed: open it again")
        cursor = connection.cursor()
        try:
            return work(cursor)
        except self._schema.SqliteError as error:
            raise self._schema.store_error(error, connection) from error
        finally:
            cursor.close(True)

    # --- sessions and leases

    async def create(self, key: Key, *, origin: Origin | None = None) -> bool:
        check_key(key)
        if origin is not None:
            check_origin(key, origin)
        return await self._write(functools.partial(self._ops.create, key=key, origin=origin))

    async def claim(self, key: Key, *, runner: str, ttl_ms: int, now_ms: int, renew: bool = False) -> Claim:
        check_key(key)
        check_ttl(ttl_ms)
        work = functools.partial(self._ops.claim, key=key, runner=runner, ttl_ms=ttl_ms, now_ms=now_ms, renew=renew)
        return await self._write(functools.partial(work, sightings=self._sightings))

    async def keep(self, key: Key, *, runner: str, epoch: int, ttl_ms: int, now_ms: int) -> None:
        check_key(key)
        check_ttl(ttl_ms)
        await self._write(lambda cursor: self._ops.keep(cursor, key, runner, epoch, now_ms + ttl_ms))

    async def release(self, key: Key, *, runner: str, epoch: int) -> None:
        check_key(key)
        await self._write(lambda cursor: self._ops.release(cursor, key, runner, epoch))

    async def holder(self, key: Key, *, now_ms: int) -> Holder | None:
        check_key(key)
        found = self._read(lambda cursor: self._ops.find_session(cursor, key))
        return self._sightings.holder(key, found.lease, now_ms)

    # --- the log

    async def append(
        self,
        key: Key,
        sealed: Sealed,
        *,
        takes: Sequence[str] = (),
        index: IndexRow | None = None,
        blobs: Mapping[str, bytes] | None = None,
        barrier: bool = False,
    ) -> None:
        check_key(key)
        check_sealed(key, sealed, index)
        for digest, data in (blobs or {}).items():
            check_blob(digest, data)
        self._refuse_poisoned()
        await self._writer.submit(self._ops.append, key, sealed, takes, index, blobs, barrier=barrier)
        self.stats["appends"] += 1

    async def adopt(self, key: Key, lines: Sequence[Sealed], *, epoch: int, takes: Sequence[TakenCommand] = ()) -> None:
        check_key(key)
        await self._write(lambda cursor: self._ops.adopt(cursor, key, lines, epoch, takes), heavy=True)

    async def head(self, key: Key) -> Head | None:
        check_key(key)
        found = self._read(lambda cursor: self._ops.lookup(cursor, key))
        return found.head() if found else None

    async def read(self, key: Key, *, after: int = 0, until: int | None = None) -> AsyncIterator[Sealed]:
        check_key(key)
        page, more = self._read(lambda cursor: self._reads.page(cursor, key, after, until))
        while True:
            for sealed in page:
                yield sealed
            if not more:
                return
            work = functools.partial(self._reads.page, key=key, after=page[-1].last_seq, until=until)
            page, more = await self._read_long(work)

    # --- the inbox

    async def send(self, key: Key, command: InboxCommand) -> Sent:
        check_key(key)
        check_command(command)
        # A command is acknowledged to its sender: it must be kept in either mode.
        sent: Sent = await self._write(lambda cursor: self._ops.send(cursor, key, command), barrier=True)
        self._sent += 1
        return sent

    async def inbox(self, key: Key, *, limit: int = 100) -> list[InboxCommand]:
        check_key(key)
        return self._read(lambda cursor: self._reads.inbox(cursor, key, limit))

    async def taken(self, key: Key, *, after: str = "", limit: int = 1000) -> list[TakenCommand]:
        check_key(key)
        return await self._read_long(lambda cursor: self._reads.taken(cursor, key, after, limit))

    # --- snapshots and the index

    async def put_snapshot(self, key: Key, snapshot: Snapshot) -> None:
        check_key(key)
        await self._write(
            lambda cursor: self._ops.put_snapshot(cursor, key, snapshot), heavy=len(snapshot.data) > INLINE_BYTES
        )

    async def get_snapshot(self, key: Key, *, at_most: int | None = None) -> Snapshot | None:
        check_key(key)
        found: Snapshot | None = self._read(lambda cursor: self._reads.snapshot(cursor, key, at_most))
        return found

    async def drop_snapshots(self, key: Key) -> int:
        check_key(key)
        return await self._write(lambda cursor: self._ops.drop_snapshots(cursor, key))

    async def put_index(self, row: IndexRow) -> None:
        check_key(Key(row.tenant, row.session))
        await self._write(lambda cursor: self._ops.put_index(cursor, row))

    async def get_index(self, key: Key) -> IndexRow | None:
        check_key(key)
        found: IndexRow | None = self._read(lambda cursor: self._reads.index_row(cursor, key))
        return found

    async def find(self, query: Query) -> list[IndexRow]:
        check_query(query)
        return await self._read_long(lambda cursor: self._reads.find(cursor, query))

    # --- blobs

    async def put_blob(self, tenant: str, data: bytes, *, media_type: str = "application/octet-stream") -> str:
        check_id("tenant", tenant)
        digest = blob_digest(data) if len(data) <= INLINE_BYTES else await asyncio.to_thread(blob_digest, data)
        check_blob(digest, data)
        await self._write(
            lambda cursor: self._ops.put_blob(cursor, tenant, digest, data, media_type), heavy=len(data) > INLINE_BYTES
        )
        return digest

    async def get_blob(self, tenant: str, digest: str, *, start: int = 0, length: int | None = None) -> bytes:
        check_id("tenant", tenant)
        check_digest(digest)
        return await self._read_long(lambda cursor: self._reads.blob(cursor, tenant, digest, start, length))

    async def blob_info(self, tenant: str, digest: str) -> BlobInfo | None:
        check_id("tenant", tenant)
        check_digest(digest)
        found: BlobInfo | None = self._read(lambda cursor: self._reads.blob_info(cursor, tenant, digest))
        return found

    async def erase_blob(self, tenant: str, digest: str) -> bool:
        check_id("tenant", tenant)
        check_digest(digest)
        return await self._write_scrubbed(lambda cursor: self._ops.erase_blob(cursor, tenant, digest))

    async def _write_scrubbed(self, work: Callable[[apsw.Cursor], Result]) -> Result:
        """Overwrites what is deleted, and returns when the log file, where old copies of pages stay, was emptied."""

        def run(cursor: apsw.Cursor) -> Result:
            cursor.execute("PRAGMA secure_delete = ON")
            try:
                result = work(cursor)
            finally:
                cursor.execute("PRAGMA secure_delete = OFF")
            self._committer.scrub_next()
            return result

        result = await self._write(run, heavy=True)
        await self._write(lambda cursor: None, heavy=True)
        return result

    # --- erasing, forks, deletion

    async def erase(self, key: Key, seq: int, *, by: str, why: str, at_ms: int) -> None:
        check_key(key)
        await self._write_scrubbed(lambda cursor: self._ops.erase(cursor, key, seq, by, why, at_ms))

    async def forks(self, key: Key) -> list[str]:
        check_key(key)
        return self._read(lambda cursor: self._ops.forks(cursor, key))

    async def delete(self, key: Key) -> None:
        check_key(key)
        await self._write_scrubbed(lambda cursor: self._ops.delete(cursor, key))

    async def detach(self, key: Key) -> None:
        check_key(key)
        await self._write(lambda cursor: self._ops.detach(cursor, key), heavy=True)

    async def changed(self) -> bool:
        if self._closed:
            raise UsageError("the store is closed: open it again")
        # While the writer commits nobody else does, and it looks itself before it begins; what was committed since is
        # seen as soon as it rests.
        if not self._writer.if_idle(self._committer.look):
            await asyncio.to_thread(self._writer.if_idle, self._committer.look, wait_s=LOOK_WAIT_S)
        seen = (self._committer.others, self._sent)
        changed = seen != self._seen
        self._seen = seen
        return changed

    async def close(self) -> None:
        """Commits what is queued, folds the log file back, and lets the file go."""
        if self._closed:
            return
        self._closed = True
        with self._long_lock:
            self._long.close()
        self._short.close()
        await self._writer.close()
