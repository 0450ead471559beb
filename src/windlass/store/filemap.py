"""A store over whatever a host offers as files: four functions, get, put, list and delete.

What it can promise is what the host's `put` promises: if that is atomic and lasting, so is an append. Fencing holds
within one process only, since four such functions cannot compare and swap; it declares so. The sessions that it has
touched are kept in memory, and the host is only read when one is touched first.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Protocol

import msgspec

from windlass.events import record
from windlass.events.errors import Damaged, NotFound, UsageError
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
    Recovered,
    Sent,
    Snapshot,
    TakenCommand,
    blob_digest,
)
from .jsonl_lines import frame_append, frame_command, parse_append, parse_command
from .jsonl_session import About, Lease
from .keys import check_blob, check_command, check_digest, check_id, check_key, check_origin, check_sealed, file_name
from .memory import MemoryStore
from .search import check_query, ledger_fits, select

DEFAULT_TYPE = "application/octet-stream"


class FileMap(Protocol):
    """What a host must offer. Paths are text with `/` between safe names."""

    async def get(self, path: str) -> bytes | None:
        """The file's bytes, None if there is none."""
        ...

    async def put(self, path: str, data: bytes) -> None:
        """Makes or replaces the file."""
        ...

    async def list(self, prefix: str) -> list[str]:
        """All paths that begin so."""
        ...

    async def delete(self, path: str) -> None:
        """Removes the file, if it is there."""
        ...


class FileMapStore:
    """A store over a `FileMap`. `durable` is the host's word: whether what it has put is there after a restart."""

    def __init__(self, files: FileMap, *, durable: bool = True) -> None:
        self._files = files
        self._durable = durable
        self._memory = MemoryStore()
        self._locks: dict[Key, asyncio.Lock] = {}
        self._positions: dict[Key, int] = {}
        self._recovered: dict[Key, list[Recovered]] = {}
        self._writes = self._seen_writes = 0
        self.stats: dict[str, int] = {"appends": 0, "puts": 0}

    @property
    def durability(self) -> Durability:
        return "normal"

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(durable=self._durable, multi_process=False, transactional=True)

    # --- reading a session into memory, once

    def _lock(self, key: Key) -> asyncio.Lock:
        return self._locks.setdefault(check_key(key), asyncio.Lock())

    def _path(self, key: Key, *parts: str) -> str:
        return "/".join((file_name(key.tenant), "sessions", file_name(key.session), *parts))

    def _about_path(self, key: Key) -> str:
        return f"{file_name(key.tenant)}/about/{file_name(key.session)}.json"

    async def _lookup(self, key: Key) -> bool:
        """Whether the session exists; if so, it is in memory afterwards. Under the session's lock."""
        if await self._memory.head(key) is not None:
            return True
        data = await self._files.get(self._about_path(key))
        if data is None:
            return False
        about = msgspec.json.decode(data, type=About)
        await self._load(key, about.origin)
        return True

    async def _need(self, key: Key) -> None:
        if not await self._lookup(key):
            raise NotFound(f"tenant {key.tenant!r} has no session {key.session!r}")

    async def _load(self, key: Key, origin: Origin | None) -> None:
        paths = sorted(await self._files.list(self._path(key, "log/")))
        if paths and _number(paths[0]) == 1:
            origin = None  # a detached session's log begins at 1, even if a crash kept its description from saying so
        if origin is not None:
            await self._need_other(Key(key.tenant, origin.session))
        await self._memory.create(key, origin=origin)
        try:
            await self._load_log(key, paths)
            await self._load_rest(key)
        except BaseException:
            self._memory.forget(key)
            raise

    async def _load_log(self, key: Key, paths: Sequence[str]) -> None:
        ledger = self._memory.ledger(key)
        ledger.owner = "load"  # whoever owns it is read from the lease afterwards
        for place, path in enumerate(paths):
            data = await self._files.get(path) or b""
            line = parse_append(data)
            if line is None and place == len(paths) - 1:
                await self._cut(key, path, data)
                return
            if line is None or line.first_seq != ledger.seq + 1:
                raise Damaged(f"file {path!r} of session {key.session!r} is damaged", seq=ledger.seq + 1)
            takes = [TakenCommand(command_id, line.first_seq) for command_id in line.takes]
            ledger.epoch = max(ledger.epoch, line.epoch)
            await self._memory.adopt(key, [line.sealed(ledger.chain)], epoch=ledger.epoch, takes=takes)
            if line.index is not None:
                await self._memory.put_index(line.index)

    async def _cut(self, key: Key, path: str, data: bytes) -> None:
        """The last append was never finished, so it was never acknowledged. Its bytes are put aside."""
        kept = path.replace("/log/", "/torn/")
        await self._put(kept, data)
        await self._files.delete(path)
        seq = self._memory.ledger(key).seq
        notice = Recovered(key=key, seq=seq, offset=0, size=len(data), path=kept)
        self._recovered.setdefault(key, []).append(notice)

    async def _load_rest(self, key: Key) -> None:
        ledger = self._memory.ledger(key)
        ledger.owner = ""
        lease = await self._files.get(self._path(key, "lease.json"))
        if lease:
            kept = msgspec.json.decode(lease, type=Lease)
            ledger.epoch = max(ledger.epoch, kept.epoch)
            ledger.owner, ledger.until_ms = kept.owner, kept.until_ms
        row = await self._files.get(self._path(key, "index.json"))
        if row:
            seq, index = msgspec.json.decode(row, type=tuple[int, IndexRow])
            current = await self._memory.get_index(key)
            if current is None or seq >= ledger.seq:
                await self._memory.put_index(index)
        for path in sorted(await self._files.list(self._path(key, "inbox/"))):
            command = parse_command(await self._files.get(path) or b"")
            self._positions[key] = max(self._positions.get(key, 0), _number(path))
            if command is not None and command.command_id not in ledger.taken:
                ledger.receive(command)

    async def _need_other(self, key: Key) -> None:
        async with self._lock(key):
            await self._need(key)

    async def _put(self, path: str, data: bytes) -> None:
        await self._files.put(path, data)
        self._writes += 1
        self.stats["puts"] += 1

    # --- sessions and leases

    async def create(self, key: Key, *, origin: Origin | None = None) -> bool:
        if origin is not None:
            check_origin(check_key(key), origin)
        async with self._lock(key):
            exists = await self._lookup(key)
            if origin is not None:
                await self._need_other(Key(key.tenant, origin.session))
            made = await self._memory.create(key, origin=origin)
            if exists:
                return made
            try:
                await self._put(self._about_path(key), msgspec.json.encode(About(key.tenant, key.session, origin)))
            except BaseException:
                self._memory.forget(key)
                raise
            return True

    async def claim(self, key: Key, *, runner: str, ttl_ms: int, now_ms: int, renew: bool = False) -> Claim:
        async with self._lock(key):
            await self._need(key)
            claim = await self._memory.claim(key, runner=runner, ttl_ms=ttl_ms, now_ms=now_ms, renew=renew)
            await self._put_lease(key)
            return msgspec.structs.replace(claim, recovered=tuple(self._recovered.get(key, ())))

    async def keep(self, key: Key, *, runner: str, epoch: int, ttl_ms: int, now_ms: int) -> None:
        async with self._lock(key):
            await self._need(key)
            await self._memory.keep(key, runner=runner, epoch=epoch, ttl_ms=ttl_ms, now_ms=now_ms)
            await self._put_lease(key)

    async def release(self, key: Key, *, runner: str, epoch: int) -> None:
        async with self._lock(key):
            await self._need(key)
            await self._memory.release(key, runner=runner, epoch=epoch)
            await self._put_lease(key)

    async def holder(self, key: Key, *, now_ms: int) -> Holder | None:
        async with self._lock(key):
            await self._need(key)
            return await self._memory.holder(key, now_ms=now_ms)

    async def _put_lease(self, key: Key) -> None:
        ledger = self._memory.ledger(key)
        lease = Lease(ledger.epoch, ledger.owner, ledger.until_ms)
        await self._put(self._path(key, "lease.json"), msgspec.json.encode(lease))

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
        check_sealed(check_key(key), sealed, index)
        for digest, data in (blobs or {}).items():
            check_blob(digest, data)
        async with self._lock(key):
            await self._need(key)
            self._memory.ledger(key).judge(sealed, takes)
            for digest, data in (blobs or {}).items():
                await self._put_blob(key.tenant, digest, data, DEFAULT_TYPE)
            await self._put_line(key, sealed, takes, index)
            await self._memory.append(key, sealed, takes=takes, index=index)
            self._recovered.pop(key, None)
            await self._drop_taken(key, takes)
        self.stats["appends"] += 1

    async def _put_line(self, key: Key, sealed: Sealed, takes: Sequence[str], index: IndexRow | None) -> None:
        try:
            await self._put(self._line_path(key, sealed.first_seq), frame_append(sealed, takes, index).rstrip(b"\n"))
        except BaseException:
            # Whether the host has kept it is unknown: forget the session, so that the host is asked again.
            self._memory.forget(key)
            raise

    async def _drop_taken(self, key: Key, takes: Sequence[str]) -> None:
        """The log knows these commands now; a file that stays behind is only one to skip."""
        if takes and not self._memory.ledger(key).waiting:
            for path in await self._files.list(self._path(key, "inbox/")):
                await self._files.delete(path)

    def _line_path(self, key: Key, first_seq: int) -> str:
        return self._path(key, "log", f"{first_seq:016d}.json")

    async def adopt(self, key: Key, lines: Sequence[Sealed], *, epoch: int, takes: Sequence[TakenCommand] = ()) -> None:
        async with self._lock(key):
            await self._need(key)
            self._memory.ledger(key).judge_lines(lines, epoch, takes)
            for sealed in lines:
                mine = [take.command_id for take in takes if take.seq == sealed.first_seq]
                await self._put_line(key, sealed, mine, None)
            await self._memory.adopt(key, lines, epoch=epoch, takes=takes)

    async def head(self, key: Key) -> Head | None:
        async with self._lock(key):
            return await self._memory.head(key) if await self._lookup(key) else None

    async def read(self, key: Key, *, after: int = 0, until: int | None = None) -> AsyncIterator[Sealed]:
        await self._need_other(key)
        async for sealed in self._memory.read(key, after=after, until=until):
            yield sealed

    # --- the inbox

    async def send(self, key: Key, command: InboxCommand) -> Sent:
        check_command(command)
        async with self._lock(key):
            await self._need(key)
            known = self._memory.ledger(key).sent(command.command_id)
            if known is not None:
                return known
            position = self._positions.get(key, 0) + 1
            path = self._path(key, "inbox", f"{position:016d}.json")
            await self._put(path, frame_command(command).rstrip(b"\n"))
            self._positions[key] = position
            return await self._memory.send(key, command)

    async def inbox(self, key: Key, *, limit: int = 100) -> list[InboxCommand]:
        await self._need_other(key)
        return await self._memory.inbox(key, limit=limit)

    async def taken(self, key: Key, *, after: str = "", limit: int = 1000) -> list[TakenCommand]:
        await self._need_other(key)
        return await self._memory.taken(key, after=after, limit=limit)

    # --- snapshots (in memory only: they are disposable) and the index

    async def put_snapshot(self, key: Key, snapshot: Snapshot) -> None:
        await self._need_other(key)
        await self._memory.put_snapshot(key, snapshot)

    async def get_snapshot(self, key: Key, *, at_most: int | None = None) -> Snapshot | None:
        await self._need_other(key)
        return await self._memory.get_snapshot(key, at_most=at_most)

    async def drop_snapshots(self, key: Key) -> int:
        await self._need_other(key)
        return await self._memory.drop_snapshots(key)

    async def put_index(self, row: IndexRow) -> None:
        key = Key(row.tenant, row.session)
        async with self._lock(key):
            await self._need(key)
            kept = (self._memory.ledger(key).seq, row)
            await self._put(self._path(key, "index.json"), msgspec.json.encode(kept))
            await self._memory.put_index(row)

    async def get_index(self, key: Key) -> IndexRow | None:
        async with self._lock(key):
            return await self._memory.get_index(key) if await self._lookup(key) else None

    async def find(self, query: Query) -> list[IndexRow]:
        check_query(query)
        rows = [(key, await self.get_index(key)) for key in await self._sessions(query.tenant)]
        return select(query, [row for key, row in rows if row and ledger_fits(query, self._memory.ledger(key))])

    async def _sessions(self, tenant: str) -> list[Key]:
        keys = []
        for path in await self._files.list(f"{file_name(tenant)}/about/"):
            data = await self._files.get(path)
            if data is not None:
                about = msgspec.json.decode(data, type=About)
                keys.append(Key(about.tenant, about.session))
        return sorted(keys)

    # --- blobs

    def _blob_path(self, tenant: str, digest: str) -> str:
        name = check_digest(digest).removeprefix("sha256:")
        return f"{file_name(check_id('tenant', tenant))}/blobs/{name}"

    async def put_blob(self, tenant: str, data: bytes, *, media_type: str = DEFAULT_TYPE) -> str:
        digest = blob_digest(data)
        check_blob(digest, data)
        await self._put_blob(tenant, digest, data, media_type)
        return digest

    async def _put_blob(self, tenant: str, digest: str, data: bytes, media_type: str) -> None:
        path = self._blob_path(tenant, digest)
        if await self._files.get(path + ".type") is None:
            await self._put(path, data)
            await self._put(path + ".type", media_type.encode())

    async def get_blob(self, tenant: str, digest: str, *, start: int = 0, length: int | None = None) -> bytes:
        data = await self._files.get(self._blob_path(tenant, digest))
        if data is None:
            raise NotFound(f"tenant {tenant!r} has no blob {digest!r}")
        return data[start : None if length is None else start + length]

    async def blob_info(self, tenant: str, digest: str) -> BlobInfo | None:
        path = self._blob_path(tenant, digest)
        data, kind = await self._files.get(path), await self._files.get(path + ".type")
        if data is None or kind is None:
            return None
        return BlobInfo(size=len(data), media_type=kind.decode())

    async def erase_blob(self, tenant: str, digest: str) -> bool:
        path = self._blob_path(tenant, digest)
        there = await self._files.get(path) is not None
        await self._files.delete(path)
        await self._files.delete(path + ".type")
        return there

    # --- erasing, forks, deletion

    async def erase(self, key: Key, seq: int, *, by: str, why: str, at_ms: int) -> None:
        for fork in await self.forks(key):
            await self._drop_snapshots_of_tree(Key(key.tenant, fork))
        async with self._lock(key):
            line = None
            async for sealed in self._memory.read(key):
                if sealed.first_seq <= seq <= sealed.last_seq:
                    line = sealed
            if line is None:
                raise NotFound(f"session {key.session!r} has no event {seq} of its own")
            stored = parse_append(await self._files.get(self._line_path(key, line.first_seq)) or b"")
            if stored is None:
                raise Damaged(f"append {line.first_seq} of session {key.session!r} is damaged", seq=line.first_seq)
            data = record.erase(line.data, seq, by=by, why=why, at_ms=at_ms)
            erased = msgspec.structs.replace(line, data=data)
            await self._put_line(key, erased, stored.takes, stored.index)
            await self._memory.erase(key, seq, by=by, why=why, at_ms=at_ms)

    async def _drop_snapshots_of_tree(self, key: Key) -> None:
        await self.drop_snapshots(key)
        for fork in await self.forks(key):
            await self._drop_snapshots_of_tree(Key(key.tenant, fork))

    async def forks(self, key: Key) -> list[str]:
        await self._need_other(key)
        for other in await self._sessions(key.tenant):
            await self._need_other(other)
        return await self._memory.forks(key)

    async def delete(self, key: Key) -> None:
        if names := await self.forks(key):
            raise UsageError(f"session {key.session!r} has forks {names!r}: delete or detach them first")
        async with self._lock(key):
            await self._files.delete(self._about_path(key))
            self._memory.forget(key)
            for path in await self._files.list(self._path(key) + "/"):
                await self._files.delete(path)
            self._positions.pop(key, None)
            self._recovered.pop(key, None)
            self._writes += 1

    async def detach(self, key: Key) -> None:
        async with self._lock(key):
            await self._need(key)
            ledger = self._memory.ledger(key)
            if ledger.origin is None:
                return
            own = ledger.origin.seq
            await self._memory.detach(key)
            # Newest first: the log begins at 1 only when all of it is there.
            inherited = [sealed async for sealed in self._memory.read(key, until=own)]
            for sealed in reversed(inherited):
                await self._put_line(key, sealed, (), None)
            await self._put(self._about_path(key), msgspec.json.encode(About(key.tenant, key.session)))

    async def changed(self) -> bool:
        changed = self._writes != self._seen_writes
        self._seen_writes = self._writes
        return changed

    async def close(self) -> None:
        """The host owns its files; nothing is held here that was not put."""


def _number(path: str) -> int:
    return int(path.rsplit("/", 1)[-1].split(".")[0])
