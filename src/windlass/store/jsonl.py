"""A store of plain files: a directory per session with its log as JSON lines, for people who want to read and grep what
their agents did. Many processes may share it; a lock on the directory makes each group of writes one at a time."""

from __future__ import annotations

import asyncio
import functools
import pathlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import TypeVar

from windlass.events.errors import NotFound, StorePoisoned, UsageError
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
from .disk import Disk, disk_error
from .groups import GroupWriter
from .jsonl_directory import DEFAULT_TYPE, Directory
from .keys import check_blob, check_command, check_digest, check_id, check_key, check_origin, check_sealed
from .search import check_query, select

Result = TypeVar("Result")


class JsonlStore:
    """The store over a directory. Make it with `open`."""

    CAPABILITIES = Capabilities(durable=True, multi_process=True, transactional=True)

    def __init__(self, root: pathlib.Path, durability: Durability, disk: Disk) -> None:
        self.stats: dict[str, int] = {"appends": 0, "commits": 0, "syncs": 0, "group_max": 0}
        self.root = root
        self._durability: Durability = durability
        try:
            self._directory = Directory(root, durability, disk, self.stats)
        except OSError as error:
            raise disk_error(error) from error
        self._writer: GroupWriter[Directory] = GroupWriter(self._directory, inline=durability == "normal")
        self._seen_changes = -1
        self._closed = False

    @classmethod
    async def open(
        cls, root: str | pathlib.Path, *, durability: Durability = "full", disk: Disk | None = None
    ) -> JsonlStore:
        """Opens the directory, making it if need be. Raises `UsageError` for one that holds something else, or that a
        newer version wrote."""
        return await asyncio.to_thread(cls, pathlib.Path(root), durability, disk or Disk())

    @property
    def durability(self) -> Durability:
        return self._durability

    @property
    def capabilities(self) -> Capabilities:
        return self.CAPABILITIES

    async def _do(self, work: Callable[[Directory], Result], *, barrier: bool = False, heavy: bool = False) -> Result:
        if self._directory.poison is not None:
            raise StorePoisoned(str(self._directory.poison)) from self._directory.poison
        result: Result = await self._writer.submit(work, barrier=barrier, heavy=heavy)
        return result

    # --- sessions and leases

    async def create(self, key: Key, *, origin: Origin | None = None) -> bool:
        check_key(key)
        if origin is not None:
            check_origin(key, origin)
        return await self._do(lambda files: files.create(key, origin))

    async def claim(self, key: Key, *, runner: str, ttl_ms: int, now_ms: int, renew: bool = False) -> Claim:
        check_key(key)
        return await self._do(lambda files: files.view(key).claim(runner, ttl_ms, now_ms, renew))

    async def keep(self, key: Key, *, runner: str, epoch: int, ttl_ms: int, now_ms: int) -> None:
        check_key(key)
        await self._do(lambda files: files.keep(key, runner, epoch, ttl_ms, now_ms))

    async def release(self, key: Key, *, runner: str, epoch: int) -> None:
        check_key(key)
        await self._do(lambda files: files.release(key, runner, epoch))

    async def holder(self, key: Key, *, now_ms: int) -> Holder | None:
        check_key(key)
        return await self._do(lambda files: files.view(key).holder(now_ms))

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
        work = functools.partial(_append, key=key, sealed=sealed, takes=takes, index=index, blobs=blobs or {})
        await self._do(work, barrier=barrier, heavy=bool(blobs))
        self.stats["appends"] += 1

    async def adopt(self, key: Key, lines: Sequence[Sealed], *, epoch: int, takes: Sequence[TakenCommand] = ()) -> None:
        check_key(key)
        await self._do(lambda files: files.adopt(key, lines, epoch, takes), heavy=True)

    async def head(self, key: Key) -> Head | None:
        check_key(key)

        def work(files: Directory) -> Head | None:
            view = files.lookup(key)
            return view.head() if view else None

        return await self._do(work)

    async def read(self, key: Key, *, after: int = 0, until: int | None = None) -> AsyncIterator[Sealed]:
        check_key(key)
        more = True
        while more:
            page, more = await self._do(functools.partial(_page, key=key, after=after, until=until))
            for sealed in page:
                yield sealed
            after = page[-1].last_seq if page else after

    # --- the inbox

    async def send(self, key: Key, command: InboxCommand) -> Sent:
        check_key(key)
        check_command(command)
        # A command is acknowledged to its sender: it must be kept in either mode.
        return await self._do(lambda files: files.view(key).send(command), barrier=True)

    async def inbox(self, key: Key, *, limit: int = 100) -> list[InboxCommand]:
        check_key(key)
        return await self._do(lambda files: files.view(key).waiting(limit))

    async def taken(self, key: Key, *, after: str = "", limit: int = 1000) -> list[TakenCommand]:
        check_key(key)
        return await self._do(lambda files: files.view(key).ledger.taken_after(after, limit))

    # --- snapshots and the index

    async def put_snapshot(self, key: Key, snapshot: Snapshot) -> None:
        check_key(key)
        await self._do(lambda files: files.view(key).put_snapshot(snapshot), heavy=True)

    async def get_snapshot(self, key: Key, *, at_most: int | None = None) -> Snapshot | None:
        check_key(key)
        return await self._do(lambda files: files.view(key).get_snapshot(at_most))

    async def drop_snapshots(self, key: Key) -> int:
        check_key(key)
        return await self._do(lambda files: files.view(key).drop_snapshots())

    async def put_index(self, row: IndexRow) -> None:
        key = check_key(Key(row.tenant, row.session))
        await self._do(lambda files: files.view(key).put_index(row))

    async def get_index(self, key: Key) -> IndexRow | None:
        check_key(key)

        def work(files: Directory) -> IndexRow | None:
            view = files.lookup(key)
            return view.index if view else None

        return await self._do(work)

    async def find(self, query: Query) -> list[IndexRow]:
        check_id("tenant", query.tenant)
        check_query(query)
        return await self._do(lambda files: select(query, files.index_rows(query)), heavy=True)

    # --- blobs

    async def put_blob(self, tenant: str, data: bytes, *, media_type: str = DEFAULT_TYPE) -> str:
        check_id("tenant", tenant)
        digest = await asyncio.to_thread(blob_digest, data)
        check_blob(digest, data)
        await self._do(lambda files: files.put_blob(tenant, digest, data, media_type), heavy=True)
        return digest

    async def get_blob(self, tenant: str, digest: str, *, start: int = 0, length: int | None = None) -> bytes:
        path = self._directory.blob_path(check_id("tenant", tenant), digest)
        try:
            return await asyncio.to_thread(_slice, path, start, length)
        except FileNotFoundError:
            raise NotFound(f"tenant {tenant!r} has no blob {digest!r}") from None

    async def blob_info(self, tenant: str, digest: str) -> BlobInfo | None:
        path = self._directory.blob_path(check_id("tenant", tenant), digest)
        try:
            size = path.stat().st_size
        except FileNotFoundError:
            return None
        kind = path.with_suffix(".type")
        return BlobInfo(size=size, media_type=kind.read_text() if kind.exists() else DEFAULT_TYPE)

    async def erase_blob(self, tenant: str, digest: str) -> bool:
        check_id("tenant", tenant)
        check_digest(digest)
        return await self._do(lambda files: files.erase_blob(tenant, digest), heavy=True)

    # --- erasing, forks, deletion

    async def erase(self, key: Key, seq: int, *, by: str, why: str, at_ms: int) -> None:
        check_key(key)
        await self._do(lambda files: files.erase(key, seq, by, why, at_ms), heavy=True)

    async def forks(self, key: Key) -> list[str]:
        check_key(key)
        return await self._do(lambda files: files.forks(key))

    async def delete(self, key: Key) -> None:
        check_key(key)
        await self._do(lambda files: files.delete(key), heavy=True)

    async def detach(self, key: Key) -> None:
        check_key(key)
        await self._do(lambda files: files.detach(key), heavy=True)

    async def changed(self) -> bool:
        if self._closed:
            raise UsageError("the store is closed: open it again")
        changes = self._directory.changes()
        changed = changes != self._seen_changes
        self._seen_changes = changes
        return changed

    async def close(self) -> None:
        """Writes what is queued and lets the files go."""
        self._closed = True
        await self._writer.close()


def _append(
    files: Directory,
    key: Key,
    sealed: Sealed,
    takes: Sequence[str],
    index: IndexRow | None,
    blobs: Mapping[str, bytes],
) -> None:
    files.append(key, sealed, takes, index, blobs)


def _page(files: Directory, key: Key, after: int, until: int | None) -> tuple[list[Sealed], bool]:
    return files.view(key).page(after, until)


def _slice(path: pathlib.Path, start: int, length: int | None) -> bytes:
    with path.open("rb") as file:
        file.seek(start)
        return file.read() if length is None else file.read(length)
