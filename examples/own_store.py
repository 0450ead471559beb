"""A store of your own: over whatever a host offers as files, with four functions, get, put, list and delete.

Five parts (log, inbox, leases, index, blobs) share one `Host`, which holds the sessions that were touched in memory and
reads each from the host once. An append is one `put`, so what the host's `put` promises is what the store can promise.
Fencing holds within one process only, since four such functions cannot compare and swap; the store declares so.
"""

from __future__ import annotations

import asyncio
import pathlib
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Protocol

import msgspec

import windlass
from windlass.events.errors import Damaged, NotFound, UsageError
from windlass.events.stored import record
from windlass.events.stored.record import Sealed
from windlass.store import verify_chain
from windlass.store.base import (
    MEDIA_TYPE,
    BlobInfo,
    Capabilities,
    Claim,
    Durability,
    Head,
    Holder,
    InboxCommand,
    IndexRow,
    Key,
    Message,
    Origin,
    Query,
    Recovered,
    Sent,
    Snapshot,
    TakenCommand,
    blob_digest,
)
from windlass.store.jsonl.line_format import frame_append, frame_command, parse_append, parse_command
from windlass.store.jsonl.small_files import About, Lease
from windlass.store.memory import MemoryStore
from windlass.store.rules.ids import check_digest, check_id, check_key, check_origin, file_name
from windlass.store.rules.index_query import check_query, ledger_fits, select
from windlass.store.rules.limits import check_blob, check_command, check_sealed
from windlass.store.rules.session_ledger import Ledger, exists
from windlass.testing import ScriptedModel


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


class Host:
    """The host's files, and the sessions that were read from them. The five parts of the store share it."""

    def __init__(self, files: FileMap) -> None:
        self.files = files
        self.memory = MemoryStore()
        self.positions: dict[Key, int] = {}
        self.recovered: dict[Key, list[Recovered]] = {}
        self.writes = 0
        self._locks: dict[Key, asyncio.Lock] = {}

    def lock(self, key: Key) -> asyncio.Lock:
        """What is done to one session under its lock is one transaction for all others."""
        return self._locks.setdefault(check_key(key), asyncio.Lock())

    def path(self, key: Key, *parts: str) -> str:
        return "/".join((file_name(key.tenant), "sessions", file_name(key.session), *parts))

    def about_path(self, key: Key) -> str:
        return f"{file_name(key.tenant)}/about/{file_name(key.session)}.json"

    def line_path(self, key: Key, first_seq: int) -> str:
        return self.path(key, "log", f"{first_seq:016d}.json")

    def ledger(self, key: Key) -> Ledger:
        return self.memory.memory.session(key).ledger

    def forget(self, key: Key) -> None:
        """Whether the host has kept something is unknown: it is asked again."""
        self.memory.memory.forget(key)

    async def put(self, path: str, data: bytes) -> None:
        await self.files.put(path, data)
        self.writes += 1

    async def sessions(self, tenant: str) -> list[Key]:
        keys = []
        for path in await self.files.list(f"{file_name(tenant)}/about/"):
            data = await self.files.get(path)
            if data is not None:
                about = msgspec.json.decode(data, type=About)
                keys.append(Key(about.tenant, about.session))
        return sorted(keys)

    # --- reading a session into memory, once

    async def lookup(self, key: Key) -> bool:
        """Whether the session exists; if so, it is in memory afterwards. Under the session's lock."""
        if await self.memory.log.head(key) is not None:
            return True
        data = await self.files.get(self.about_path(key))
        if data is None:
            return False
        about = msgspec.json.decode(data, type=About)
        await self._load(key, about.origin)
        return True

    async def need(self, key: Key) -> None:
        """The same, for a session that must be there. Under its lock."""
        if not await self.lookup(key):
            raise NotFound(f"tenant {key.tenant!r} has no session {key.session!r}")

    async def need_unlocked(self, key: Key) -> None:
        async with self.lock(key):
            await self.need(key)

    async def _load(self, key: Key, origin: Origin | None) -> None:
        paths = sorted(await self.files.list(self.path(key, "log/")))
        if paths and _number(paths[0]) == 1:
            origin = None  # a detached session's log begins at 1, even if a crash kept its description from saying so
        if origin is not None:
            await self.need_unlocked(Key(key.tenant, origin.session))
        await self._load_log(key, origin, paths)
        try:
            await self._load_lease(key)
            await self._load_index(key)
            await self._load_inbox(key)
        except BaseException:
            self.forget(key)
            raise

    async def _load_log(self, key: Key, origin: Origin | None, paths: Sequence[str]) -> None:
        seq, chain = (origin.seq, origin.hash) if origin else (0, record.GENESIS)
        lines: list[Sealed] = []
        takes: list[TakenCommand] = []
        row: IndexRow | None = None
        torn = ""
        for place, path in enumerate(paths):
            line = parse_append(await self.files.get(path) or b"")
            if line is None and place == len(paths) - 1:
                torn = path
                break
            if line is None or line.first_seq != seq + 1:
                raise Damaged(f"file {path!r} of session {key.session!r} is damaged", seq=seq + 1)
            takes.extend(TakenCommand(command_id, line.first_seq) for command_id in line.takes)
            lines.append(line.sealed(chain))
            seq, chain, row = line.last_seq, line.hash, line.index or row
        await self.memory.log.adopt(key, lines, origin=origin, takes=takes, index=row)
        if torn:
            await self._cut(key, torn, await self.files.get(torn) or b"")

    async def _cut(self, key: Key, path: str, data: bytes) -> None:
        """The last append was never finished, so it was never acknowledged. Its bytes are put aside."""
        kept = path.replace("/log/", "/torn/")
        await self.put(kept, data)
        await self.files.delete(path)
        notice = Recovered(key=key, seq=self.ledger(key).seq, offset=0, size=len(data), path=kept)
        self.recovered.setdefault(key, []).append(notice)

    async def _load_lease(self, key: Key) -> None:
        ledger = self.ledger(key)
        ledger.owner = ""
        data = await self.files.get(self.path(key, "lease.json"))
        if data:
            lease = msgspec.json.decode(data, type=Lease)
            ledger.epoch = max(ledger.epoch, lease.epoch)
            ledger.owner, ledger.until_ms = lease.owner, lease.until_ms

    async def _load_index(self, key: Key) -> None:
        data = await self.files.get(self.path(key, "index.json"))
        if data:
            seq, row = msgspec.json.decode(data, type=tuple[int, IndexRow])
            if seq >= self.ledger(key).seq or await self.memory.index.get(key) is None:
                await self.memory.index.put(row)

    async def _load_inbox(self, key: Key) -> None:
        ledger = self.ledger(key)
        for path in sorted(await self.files.list(self.path(key, "inbox/"))):
            command = parse_command(await self.files.get(path) or b"")
            self.positions[key] = max(self.positions.get(key, 0), _number(path))
            if command is not None and command.command_id not in ledger.taken:
                ledger.receive(command)


class FileMapLog:
    """A file for each append. Snapshots are kept in memory only: they are disposable."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._memory = host.memory.log
        self.appends = 0

    async def create(self, key: Key, *, origin: Origin | None = None) -> bool:
        host = self._host
        if origin is not None:
            check_origin(check_key(key), origin)
        async with host.lock(key):
            exists = await host.lookup(key)
            if origin is not None:
                await host.need_unlocked(Key(key.tenant, origin.session))
            made = await self._memory.create(key, origin=origin)
            if exists:
                return made
            try:
                await host.put(host.about_path(key), msgspec.json.encode(About(key.tenant, key.session, origin)))
            except BaseException:
                host.forget(key)
                raise
            return True

    async def append(
        self,
        key: Key,
        sealed: Sealed,
        *,
        takes: Sequence[str] = (),
        index: IndexRow | None = None,
        blobs: Mapping[str, bytes] | None = None,
        barrier: bool = False,
        sends: Sequence[Message] = (),
    ) -> None:
        host = self._host
        if sends:
            raise UsageError("this store sends nothing with an append, as its capabilities say")
        check_sealed(check_key(key), sealed, index)
        for digest, data in (blobs or {}).items():
            check_blob(digest, data)
        async with host.lock(key):
            await host.need(key)
            host.ledger(key).judge(sealed, takes)
            # Blobs first: nothing names them until the append is there, which is one file with all the rest in it.
            for digest, data in (blobs or {}).items():
                await put_blob(host, key.tenant, digest, data, MEDIA_TYPE)
            await self._put_line(key, sealed, takes, index)
            await self._memory.append(key, sealed, takes=takes, index=index)
            host.recovered.pop(key, None)
            await drop_taken(host, key, takes)
        self.appends += 1

    async def _put_line(self, key: Key, sealed: Sealed, takes: Sequence[str], index: IndexRow | None) -> None:
        host = self._host
        try:
            await host.put(host.line_path(key, sealed.first_seq), frame_append(sealed, takes, index).rstrip(b"\n"))
        except BaseException:
            host.forget(key)
            raise

    async def adopt(
        self,
        key: Key,
        lines: Sequence[Sealed],
        *,
        origin: Origin | None = None,
        takes: Sequence[TakenCommand] = (),
        index: IndexRow | None = None,
    ) -> None:
        host = self._host
        async with host.lock(key):
            if await host.lookup(key):
                raise exists(key)
            if origin is not None:
                await host.need_unlocked(Key(key.tenant, origin.session))
            await self._memory.adopt(key, lines, origin=origin, takes=takes, index=index)
            try:
                for stale in await host.files.list(host.path(key, "log/")):  # of an import that was cut off
                    await host.files.delete(stale)
                for sealed in lines:
                    mine = [take.command_id for take in takes if take.seq == sealed.first_seq]
                    await self._put_line(key, sealed, mine, index if sealed is lines[-1] else None)
                await host.put(host.about_path(key), msgspec.json.encode(About(key.tenant, key.session, origin)))
            except BaseException:
                host.forget(key)
                raise

    async def head(self, key: Key) -> Head | None:
        async with self._host.lock(key):
            return await self._memory.head(key) if await self._host.lookup(key) else None

    async def read(self, key: Key, *, after: int = 0, until: int | None = None) -> AsyncIterator[Sealed]:
        await self._host.need_unlocked(key)
        async for sealed in self._memory.read(key, after=after, until=until):
            yield sealed

    async def erase(self, key: Key, seq: int, *, by: str, why: str, at_ms: int) -> None:
        host = self._host
        for fork in await self.forks(key):
            await self._drop_snapshots_of_tree(Key(key.tenant, fork))
        async with host.lock(key):
            lines = [sealed async for sealed in self._memory.read(key) if sealed.first_seq <= seq <= sealed.last_seq]
            if not lines:
                raise NotFound(f"session {key.session!r} has no event {seq} of its own")
            line = lines[0]
            stored = parse_append(await host.files.get(host.line_path(key, line.first_seq)) or b"")
            if stored is None:
                raise Damaged(f"append {line.first_seq} of session {key.session!r} is damaged", seq=line.first_seq)
            data = record.erase(line.data, seq, by=by, why=why, at_ms=at_ms)
            await self._put_line(key, msgspec.structs.replace(line, data=data), stored.takes, stored.index)
            await self._memory.erase(key, seq, by=by, why=why, at_ms=at_ms)

    async def _drop_snapshots_of_tree(self, key: Key) -> None:
        await self.drop_snapshots(key)
        for fork in await self.forks(key):
            await self._drop_snapshots_of_tree(Key(key.tenant, fork))

    async def forks(self, key: Key) -> list[str]:
        await self._host.need_unlocked(key)
        for other in await self._host.sessions(key.tenant):
            await self._host.need_unlocked(other)
        return await self._memory.forks(key)

    async def detach(self, key: Key) -> None:
        host = self._host
        async with host.lock(key):
            await host.need(key)
            origin = host.ledger(key).origin
            if origin is None:
                return
            await self._memory.detach(key)
            # Newest first: the log begins at 1 only when all of it is there.
            inherited = [sealed async for sealed in self._memory.read(key, until=origin.seq)]
            for sealed in reversed(inherited):
                await self._put_line(key, sealed, (), None)
            await host.put(host.about_path(key), msgspec.json.encode(About(key.tenant, key.session)))

    async def delete(self, key: Key) -> None:
        host = self._host
        if names := await self.forks(key):
            raise UsageError(f"session {key.session!r} has forks {names!r}: delete or detach them first")
        async with host.lock(key):
            await host.files.delete(host.about_path(key))
            host.forget(key)
            for path in await host.files.list(host.path(key) + "/"):
                await host.files.delete(path)
            host.positions.pop(key, None)
            host.recovered.pop(key, None)
            host.writes += 1

    async def put_snapshot(self, key: Key, snapshot: Snapshot) -> None:
        await self._host.need_unlocked(key)
        await self._memory.put_snapshot(key, snapshot)

    async def get_snapshot(self, key: Key, *, at_most: int | None = None) -> Snapshot | None:
        await self._host.need_unlocked(key)
        return await self._memory.get_snapshot(key, at_most=at_most)

    async def drop_snapshots(self, key: Key) -> int:
        await self._host.need_unlocked(key)
        return await self._memory.drop_snapshots(key)


class FileMapInbox:
    """A file for each command that waits."""

    def __init__(self, host: Host) -> None:
        self._host = host

    async def send(self, key: Key, command: InboxCommand) -> Sent:
        host = self._host
        check_command(command)
        async with host.lock(key):
            await host.need(key)
            known = host.ledger(key).sent(command.command_id)
            if known is not None:
                return known
            position = host.positions.get(key, 0) + 1
            await host.put(host.path(key, "inbox", f"{position:016d}.json"), frame_command(command).rstrip(b"\n"))
            host.positions[key] = position
            return await host.memory.inbox.send(key, command)

    async def waiting(self, key: Key, *, limit: int = 100) -> list[InboxCommand]:
        await self._host.need_unlocked(key)
        return await self._host.memory.inbox.waiting(key, limit=limit)

    async def taken(self, key: Key, *, after: str = "", limit: int = 1000) -> list[TakenCommand]:
        await self._host.need_unlocked(key)
        return await self._host.memory.inbox.taken(key, after=after, limit=limit)


async def drop_taken(host: Host, key: Key, takes: Sequence[str]) -> None:
    """The log knows these commands now; a file that stays behind is only one to skip."""
    if takes and not host.ledger(key).waiting:
        for path in await host.files.list(host.path(key, "inbox/")):
            await host.files.delete(path)


class FileMapLeases:
    """A file for each lease."""

    def __init__(self, host: Host) -> None:
        self._host = host

    async def claim(self, key: Key, *, runner: str, ttl_ms: int, now_ms: int, renew: bool = False) -> Claim:
        host = self._host
        async with host.lock(key):
            await host.need(key)
            claim = await host.memory.leases.claim(key, runner=runner, ttl_ms=ttl_ms, now_ms=now_ms, renew=renew)
            await self._put(key)
            return msgspec.structs.replace(claim, recovered=tuple(host.recovered.get(key, ())))

    async def keep(self, key: Key, *, runner: str, epoch: int, ttl_ms: int, now_ms: int) -> None:
        async with self._host.lock(key):
            await self._host.need(key)
            await self._host.memory.leases.keep(key, runner=runner, epoch=epoch, ttl_ms=ttl_ms, now_ms=now_ms)
            await self._put(key)

    async def release(self, key: Key, *, runner: str, epoch: int) -> None:
        async with self._host.lock(key):
            await self._host.need(key)
            await self._host.memory.leases.release(key, runner=runner, epoch=epoch)
            await self._put(key)

    async def holder(self, key: Key, *, now_ms: int) -> Holder | None:
        async with self._host.lock(key):
            await self._host.need(key)
            return await self._host.memory.leases.holder(key, now_ms=now_ms)

    async def _put(self, key: Key) -> None:
        ledger = self._host.ledger(key)
        lease = Lease(ledger.epoch, ledger.owner, ledger.until_ms)
        await self._host.put(self._host.path(key, "lease.json"), msgspec.json.encode(lease))


class FileMapIndex:
    """The newest row is in the log, or in a file beside it."""

    def __init__(self, host: Host) -> None:
        self._host = host

    async def put(self, row: IndexRow) -> None:
        host, key = self._host, Key(row.tenant, row.session)
        async with host.lock(key):
            await host.need(key)
            kept = (host.ledger(key).seq, row)
            await host.put(host.path(key, "index.json"), msgspec.json.encode(kept))
            await host.memory.index.put(row)

    async def get(self, key: Key) -> IndexRow | None:
        async with self._host.lock(key):
            return await self._host.memory.index.get(key) if await self._host.lookup(key) else None

    async def find(self, query: Query) -> list[IndexRow]:
        check_query(query)
        rows = [(key, await self.get(key)) for key in await self._host.sessions(query.tenant)]
        return select(query, [row for key, row in rows if row and ledger_fits(query, self._host.ledger(key))])


class FileMapBlobs:
    """Two files for each blob: its bytes, then its media type, which says that they are whole."""

    def __init__(self, host: Host) -> None:
        self._host = host

    async def put(self, tenant: str, data: bytes, *, media_type: str = MEDIA_TYPE) -> str:
        digest = blob_digest(data)
        check_blob(digest, data)
        await put_blob(self._host, tenant, digest, data, media_type)
        return digest

    async def get(self, tenant: str, digest: str, *, start: int = 0, length: int | None = None) -> bytes:
        data = await self._host.files.get(blob_path(tenant, digest))
        if data is None:
            raise NotFound(f"tenant {tenant!r} has no blob {digest!r}")
        return data[start : None if length is None else start + length]

    async def info(self, tenant: str, digest: str) -> BlobInfo | None:
        path = blob_path(tenant, digest)
        data, kind = await self._host.files.get(path), await self._host.files.get(path + ".type")
        if data is None or kind is None:
            return None
        return BlobInfo(size=len(data), media_type=kind.decode())

    async def erase(self, tenant: str, digest: str) -> bool:
        path = blob_path(tenant, digest)
        there = await self._host.files.get(path) is not None
        await self._host.files.delete(path)
        await self._host.files.delete(path + ".type")
        return there


def blob_path(tenant: str, digest: str) -> str:
    name = check_digest(digest).removeprefix("sha256:")
    return f"{file_name(check_id('tenant', tenant))}/blobs/{name}"


async def put_blob(host: Host, tenant: str, digest: str, data: bytes, media_type: str) -> None:
    """Keeps a blob, also for the append that names it."""
    path = blob_path(tenant, digest)
    if await host.files.get(path + ".type") is None:
        await host.put(path, data)
        await host.put(path + ".type", media_type.encode())


class FileMapStore:
    """A store over a `FileMap`. `durable` is the host's word: whether what it has put is there after a restart."""

    def __init__(self, files: FileMap, *, durable: bool = True) -> None:
        self._host = Host(files)
        self._durable = durable
        self._seen_writes = 0
        self.log = FileMapLog(self._host)
        self.inbox = FileMapInbox(self._host)
        self.leases = FileMapLeases(self._host)
        self.index = FileMapIndex(self._host)
        self.blobs = FileMapBlobs(self._host)

    @property
    def durability(self) -> Durability:
        return "normal"

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(durable=self._durable, multi_process=False, transactional=True)

    async def changed(self) -> bool:
        changed = self._host.writes != self._seen_writes
        self._seen_writes = self._host.writes
        return changed

    async def close(self) -> None:
        """The host owns its files; nothing is held here that was not put."""


def _number(path: str) -> int:
    return int(path.rsplit("/", 1)[-1].split(".")[0])


class Folder:
    """A host that keeps each file as one file."""

    def __init__(self, root: pathlib.Path) -> None:
        self.root = root

    async def get(self, path: str) -> bytes | None:
        try:
            return (self.root / path).read_bytes()
        except FileNotFoundError:
            return None

    async def put(self, path: str, data: bytes) -> None:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        part = target.with_name(target.name + "~")
        part.write_bytes(data)
        part.replace(target)

    async def list(self, prefix: str) -> list[str]:
        folder = self.root / prefix.rpartition("/")[0]
        paths = [str(path.relative_to(self.root)) for path in folder.rglob("*") if path.is_file()]
        return [path for path in paths if path.startswith(prefix) and not path.endswith("~")]

    async def delete(self, path: str) -> None:
        (self.root / path).unlink(missing_ok=True)


async def main() -> None:
    agent = windlass.Agent("greeter", model=ScriptedModel(["Good morning.", "Good morning again."]))
    for _ in range(2):
        store = FileMapStore(Folder(pathlib.Path("files")))  # a new store each time, over the same files
        async with windlass.open(store, agents=[agent]) as runtime:
            session = await runtime.session(agent, "march")
            await session.prompt("hello")
            print((await session.result()).text)
    verified = await verify_chain(store, session.key)
    files = await Folder(pathlib.Path("files")).list("default/sessions/march/log/")
    print(f"one file for each append: {len(files) == verified.appends}")


if __name__ == "__main__":
    asyncio.run(main())
