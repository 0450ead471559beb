"""The default store: one SQLite file. One connection in one thread does all writes and checkpoints of a process; the
appends of many sessions share a commit. Imports apsw on first use only."""

from __future__ import annotations

import asyncio
import functools
import pathlib
import threading
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from windlass.events.errors import StorePoisoned, UsageError, WindlassError
from windlass.events.record import Sealed

from .base import (
    BlobInfo,
    Capabilities,
    Claim,
    Durability,
    Head,
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
from .groups import GroupWriter, Job
from .keys import check_blob, check_command, check_digest, check_id, check_key, check_origin, check_sealed
from .search import check_query

if TYPE_CHECKING:
    import apsw

CHECKPOINT_PAGES = 2_000
"""The log file is folded back into the database when it holds this many pages (8 MB)."""
INLINE_HASH_BYTES = 1024 * 1024
"""Blobs above this size are hashed in a thread."""

Result = TypeVar("Result")


class SqliteStore:
    """Acknowledged appends are in a committed transaction; in `full`, also synced to disk. Make it with `open`."""

    CAPABILITIES = Capabilities(durable=True, multi_process=True, transactional=True)

    def __init__(self, path: pathlib.Path, durability: Durability, vfs: str | None) -> None:
        from . import sqlite_reads, sqlite_schema, sqlite_writes

        self._schema = sqlite_schema
        self._ops = sqlite_writes
        self._reads = sqlite_reads
        self.path = path
        self._durability: Durability = durability
        self._vfs = vfs
        self._poison: StorePoisoned | None = None
        self._closed = False
        self._wal_pages = 0
        self._scrub = False
        self._data_version = -1
        self.stats: dict[str, int] = {"appends": 0, "commits": 0, "syncs": 0, "groups_max": 0, "checkpoints": 0}

    @classmethod
    async def open(
        cls, path: str | pathlib.Path, *, durability: Durability = "full", vfs: str | None = None
    ) -> SqliteStore:
        """Opens the file, making it if need be. Raises `UsageError` for a file of another program or of a newer
        version, and on an SQLite that is known to lose data."""
        store = cls(pathlib.Path(path), durability, vfs)
        await asyncio.to_thread(store._connect)
        return store

    def _connect(self) -> None:
        import apsw

        self._schema.refuse_broken_sqlite(apsw.sqlite_lib_version())
        self._apsw_error: type[Exception] = apsw.Error
        try:
            self._connection = self._schema.connect(self.path, write=True, vfs=self._vfs)
            self._schema.prepare(self._connection, self.path)
            self._short = self._schema.connect(self.path, write=False, vfs=self._vfs)
            self._long = self._schema.connect(self.path, write=False, vfs=self._vfs)
        except apsw.Error as error:
            raise self._schema.store_error(error) from error
        self._long_lock = threading.Lock()
        self._connection.set_wal_hook(self._note_wal)
        self._cursor = self._connection.cursor()
        self._synchronous = ""
        self._set_synchronous(self._durability == "full")
        self._writer: GroupWriter[apsw.Cursor] = GroupWriter(self._commit, self._checkpoint_if_due, self._end)

    @property
    def durability(self) -> Durability:
        return self._durability

    @property
    def capabilities(self) -> Capabilities:
        return self.CAPABILITIES

    # --- the writer's thread

    def _commit(self, jobs: list[Job[apsw.Cursor]]) -> None:
        """One transaction for all jobs. If it fails as a whole, each is tried alone: one that does not fit on the
        disk must not take the others with it."""
        error = self._poison or self._transact(jobs)
        if error is None:
            return
        if len(jobs) > 1 and not isinstance(error, StorePoisoned):
            for job in jobs:
                job.error = job.result = None
                job.error = self._poison or self._transact([job]) or job.error
            return
        for job in jobs:
            job.error = error

    def _transact(self, jobs: list[Job[apsw.Cursor]]) -> WindlassError | None:
        cursor = self._cursor
        full = self._durability == "full" or any(job.barrier for job in jobs)
        try:
            self._set_synchronous(full)
            before = self._connection.total_changes()
            cursor.execute("BEGIN IMMEDIATE")
            for job in jobs:
                try:
                    job.result = job.work(cursor)
                except WindlassError as refusal:
                    job.error = refusal
            cursor.execute("COMMIT")
        except self._apsw_error as error:
            return self._rolled_back(error)
        self.stats["commits"] += 1
        self.stats["groups_max"] = max(self.stats["groups_max"], len(jobs))
        if full and self._connection.total_changes() != before:
            self.stats["syncs"] += 1
        return None

    def _rolled_back(self, error: Exception) -> WindlassError:
        import apsw

        assert isinstance(error, apsw.Error)
        meaning = self._schema.store_error(error, self._connection)
        meaning.__cause__ = error
        if isinstance(meaning, StorePoisoned):
            self._poison = meaning
        if self._connection.in_transaction:
            try:
                self._cursor.execute("ROLLBACK")
            except apsw.Error as second:
                self._poison = StorePoisoned(f"a transaction could not be rolled back ({second}): open the store again")
        return self._poison or meaning

    def _set_synchronous(self, full: bool) -> None:
        level = "FULL" if full else "NORMAL"
        if level != self._synchronous:
            self._cursor.execute(f"PRAGMA synchronous = {level}")
            self._synchronous = level

    def _note_wal(self, connection: apsw.Connection, name: str, pages: int) -> int:
        self._wal_pages = pages
        return 0

    def _checkpoint_if_due(self) -> None:
        if self._poison is None and (self._scrub or self._wal_pages >= CHECKPOINT_PAGES):
            self._checkpoint()

    def _checkpoint(self) -> None:
        import apsw

        try:
            mode = apsw.SQLITE_CHECKPOINT_TRUNCATE if self._scrub else apsw.SQLITE_CHECKPOINT_PASSIVE
            self._connection.wal_checkpoint(mode=mode)
        except (apsw.BusyError, apsw.FullError):
            return  # the commits are safe in the log file; a later checkpoint will do it
        except apsw.Error as error:
            meaning = self._schema.store_error(error, self._connection)
            if isinstance(meaning, StorePoisoned):
                self._poison = meaning
            return
        self._wal_pages = 0
        self._scrub = False
        self.stats["checkpoints"] += 1
        self.stats["syncs"] += 2

    def _end(self) -> None:
        try:
            self._connection.close()
        except self._apsw_error as error:
            # Closing checkpoints; what was acknowledged is in the log file whether or not that works.
            self._poison = self._poison or StorePoisoned(f"closing failed: {error}")

    # --- the callers' side

    async def _write(self, work: Callable[[apsw.Cursor], Result], *, barrier: bool = False) -> Result:
        if self._poison is not None:
            raise StorePoisoned(str(self._poison)) from self._poison
        result: Result = await self._writer.submit(work, barrier=barrier)
        return result

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
        except self._apsw_error as error:
            raise self._schema.store_error(error, connection) from error  # type: ignore[arg-type]
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
        return await self._write(lambda cursor: self._ops.claim(cursor, key, runner, ttl_ms, now_ms, renew))

    async def keep(self, key: Key, *, runner: str, epoch: int, ttl_ms: int, now_ms: int) -> None:
        check_key(key)
        await self._write(lambda cursor: self._ops.keep(cursor, key, runner, epoch, now_ms + ttl_ms))

    async def release(self, key: Key, *, runner: str, epoch: int) -> None:
        check_key(key)
        await self._write(lambda cursor: self._ops.release(cursor, key, runner, epoch))

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
        await self._write(lambda cursor: self._ops.append(cursor, key, sealed, takes, index, blobs), barrier=barrier)
        self.stats["appends"] += 1

    async def adopt(self, key: Key, lines: Sequence[Sealed], *, epoch: int, takes: Sequence[TakenCommand] = ()) -> None:
        check_key(key)
        await self._write(lambda cursor: self._ops.adopt(cursor, key, lines, epoch, takes))

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
        return await self._write(lambda cursor: self._ops.send(cursor, key, command), barrier=True)

    async def inbox(self, key: Key, *, limit: int = 100) -> list[InboxCommand]:
        check_key(key)
        return self._read(lambda cursor: self._reads.inbox(cursor, key, limit))

    async def taken(self, key: Key, *, after: str = "", limit: int = 1000) -> list[TakenCommand]:
        check_key(key)
        return await self._read_long(lambda cursor: self._reads.taken(cursor, key, after, limit))

    # --- snapshots and the index

    async def put_snapshot(self, key: Key, snapshot: Snapshot) -> None:
        check_key(key)
        await self._write(lambda cursor: self._ops.put_snapshot(cursor, key, snapshot))

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
        digest = blob_digest(data) if len(data) <= INLINE_HASH_BYTES else await asyncio.to_thread(blob_digest, data)
        check_blob(digest, data)
        await self._write(lambda cursor: self._ops.put_blob(cursor, tenant, digest, data, media_type))
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
            self._scrub = True
            return result

        result = await self._write(run)
        await self._write(lambda cursor: None)
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
        await self._write(lambda cursor: self._ops.detach(cursor, key))

    async def changed(self) -> bool:
        # The reader's connection sees the commits of our own writer as those of any other process.
        version = self._read(lambda cursor: int(cursor.connection.pragma("data_version")))
        changed = version != self._data_version
        self._data_version = version
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
