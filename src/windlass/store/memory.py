"""A store that lives as long as its process: for tests, for `run` without a store, and as the plainest reading of the
seam. It never touches a disk and never waits."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence

import msgspec

from windlass.events.errors import NotFound, UsageError
from windlass.events.stored import record
from windlass.events.stored.record import Sealed
from windlass.store.rules.ids import check_digest, check_id, check_key, check_origin, other_origin
from windlass.store.rules.index_query import ledger_fits, select
from windlass.store.rules.lease_expiry import Sightings
from windlass.store.rules.limits import check_blob, check_command, check_messages, check_sealed
from windlass.store.rules.session_ledger import Ledger, exists, judge_adopted

from .base import (
    MEDIA_TYPE,
    SNAPSHOTS_KEPT,
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
    Sent,
    Snapshot,
    TakenCommand,
    blob_digest,
)


class MemorySession:
    """One session: its ledger, and what only reads need."""

    __slots__ = ("index", "ledger", "lines", "snapshots", "starts")

    def __init__(self, key: Key, origin: Origin | None, epoch: int) -> None:
        self.ledger = Ledger(key, origin, epoch)
        self.lines: list[Sealed] = []
        self.starts: list[int] = []
        self.index: IndexRow | None = None
        self.snapshots: dict[int, Snapshot] = {}

    def add(self, sealed: Sealed, takes: Sequence[str]) -> None:
        self.lines.append(sealed)
        self.starts.append(sealed.first_seq)
        self.ledger.advance(sealed, takes)

    def position_of(self, seq: int) -> int | None:
        """The place of the append that holds `seq`."""
        place = bisect_right(self.starts, seq) - 1
        return place if place >= 0 and self.lines[place].last_seq >= seq else None


class Memory:
    """The dictionaries that the five parts share. Whatever is done between two awaits is one transaction."""

    def __init__(self) -> None:
        self._sessions: dict[Key, MemorySession] = {}
        self._blobs: dict[tuple[str, str], tuple[bytes, str]] = {}
        self.writes = 0
        self.stats: dict[str, int] = {"appends": 0, "commits": 0, "syncs": 0}

    def lookup(self, key: Key) -> MemorySession | None:
        return self._sessions.get(check_key(key))

    def session(self, key: Key) -> MemorySession:
        """The session. Raises `NotFound`."""
        session = self._sessions.get(check_key(key))
        if session is None:
            raise NotFound(f"tenant {key.tenant!r} has no session {key.session!r}")
        return session

    def sessions(self) -> Iterator[tuple[Key, MemorySession]]:
        return iter(self._sessions.items())

    def begin(self, key: Key, session: MemorySession) -> None:
        self._sessions[key] = session

    def forget(self, key: Key) -> None:
        """Drops a session, whatever refers to it."""
        self._sessions.pop(key, None)

    def blob(self, tenant: str, digest: str) -> tuple[bytes, str] | None:
        """The bytes and the media type of a blob."""
        return self._blobs.get((check_id("tenant", tenant), check_digest(digest)))

    def keep_blob(self, tenant: str, digest: str, data: bytes, media_type: str) -> None:
        self._blobs.setdefault((tenant, digest), (bytes(data), media_type))

    def drop_blob(self, tenant: str, digest: str) -> bool:
        return self._blobs.pop((check_id("tenant", tenant), check_digest(digest)), None) is not None

    def wrote(self) -> None:
        self.writes += 1
        self.stats["commits"] += 1


class MemoryLog:
    """Each log as a list of appends."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    async def create(self, key: Key, *, origin: Origin | None = None) -> bool:
        session = self._memory.lookup(key)
        if session is not None:
            if session.ledger.origin != origin:
                raise other_origin(key, session.ledger.origin)
            return False
        epoch = 0
        if origin is not None:
            check_origin(key, origin)
            epoch = self._epoch_at(key.tenant, origin)
        self._memory.begin(key, MemorySession(key, origin, epoch))
        self._memory.wrote()
        return True

    def _epoch_at(self, tenant: str, origin: Origin) -> int:
        """The epoch of the append at which a fork begins; there must be one."""
        last = self._history(Key(tenant, origin.session), origin.seq)[-1:]
        if not last or last[0].last_seq != origin.seq or last[0].hash != origin.hash:
            raise UsageError(f"session {origin.session!r} has no append that ends at {origin.seq} with this hash")
        return last[0].epoch

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
        check_sealed(key, sealed, index)
        check_messages(key, sends)
        for digest, data in (blobs or {}).items():
            check_blob(digest, data)
        session = self._memory.session(key)
        session.ledger.judge(sealed, takes)
        session.add(sealed, takes)
        if index is not None:
            session.index = index
        for digest, data in (blobs or {}).items():
            self._memory.keep_blob(key.tenant, digest, data, MEDIA_TYPE)
        for message in sends:
            self._deliver(Key(key.tenant, message.session), message)
        self._memory.stats["appends"] += 1
        self._memory.wrote()

    def _deliver(self, key: Key, message: Message) -> None:
        if self._memory.lookup(key) is None:
            if not message.creates:
                return
            self._memory.begin(key, MemorySession(key, None, 0))
        ledger = self._memory.session(key).ledger
        if not ledger.knows(message.command.command_id):
            ledger.receive(message.command)

    async def adopt(
        self,
        key: Key,
        lines: Sequence[Sealed],
        *,
        origin: Origin | None = None,
        takes: Sequence[TakenCommand] = (),
        index: IndexRow | None = None,
    ) -> None:
        if self._memory.lookup(key) is not None:
            raise exists(key)
        judge_adopted(key, lines, takes, origin)
        epoch = 0
        if origin is not None:
            check_origin(key, origin)
            epoch = self._epoch_at(key.tenant, origin)
        session = MemorySession(key, origin, epoch)
        for sealed in lines:
            session.add(sealed, ())
        for take in takes:
            session.ledger.take(take.command_id, take.seq)
        session.index = index
        self._memory.begin(key, session)
        self._memory.wrote()

    async def head(self, key: Key) -> Head | None:
        session = self._memory.lookup(key)
        return session.ledger.head() if session else None

    async def read(self, key: Key, *, after: int = 0, until: int | None = None) -> AsyncIterator[Sealed]:
        session = self._memory.session(key)
        place, end = bisect_right(session.starts, after), len(session.lines)
        while place < end and (until is None or session.lines[place].last_seq <= until):
            yield session.lines[place]
            place += 1

    def _history(self, key: Key, until: int) -> list[Sealed]:
        session = self._memory.session(key)
        origin = session.ledger.origin
        before = self._history(Key(key.tenant, origin.session), min(until, origin.seq)) if origin else []
        return before + [sealed for sealed in session.lines if sealed.last_seq <= until]

    async def erase(self, key: Key, seq: int, *, by: str, why: str, at_ms: int) -> None:
        session = self._memory.session(key)
        place = session.position_of(seq)
        if place is None:
            raise NotFound(f"session {key.session!r} has no event {seq} of its own")
        line = session.lines[place]
        data = record.erase(line.data, seq, by=by, why=why, at_ms=at_ms)
        session.lines[place] = msgspec.structs.replace(line, data=data)
        self._drop_snapshots_of_tree(key)
        self._memory.wrote()

    def _drop_snapshots_of_tree(self, key: Key) -> None:
        self._memory.session(key).snapshots.clear()
        for fork in self._forks(key):
            self._drop_snapshots_of_tree(Key(key.tenant, fork))

    async def forks(self, key: Key) -> list[str]:
        self._memory.session(key)
        return self._forks(key)

    def _forks(self, key: Key) -> list[str]:
        return sorted(
            other.session
            for other, session in self._memory.sessions()
            if other.tenant == key.tenant and session.ledger.origin and session.ledger.origin.session == key.session
        )

    async def detach(self, key: Key) -> None:
        session = self._memory.session(key)
        if session.ledger.origin is None:
            return
        session.lines = self._history(key, session.ledger.seq)
        session.starts = [sealed.first_seq for sealed in session.lines]
        session.ledger.origin = None
        self._memory.wrote()

    async def delete(self, key: Key) -> None:
        if forks := await self.forks(key):
            raise UsageError(f"session {key.session!r} has forks {forks!r}: delete or detach them first")
        self._memory.forget(key)
        self._memory.wrote()

    async def put_snapshot(self, key: Key, snapshot: Snapshot) -> None:
        snapshots = self._memory.session(key).snapshots
        snapshots[snapshot.seq] = snapshot
        for seq in sorted(snapshots)[:-SNAPSHOTS_KEPT]:
            del snapshots[seq]

    async def get_snapshot(self, key: Key, *, at_most: int | None = None) -> Snapshot | None:
        snapshots = self._memory.session(key).snapshots
        seqs = [seq for seq in snapshots if at_most is None or seq <= at_most]
        return snapshots[max(seqs)] if seqs else None

    async def drop_snapshots(self, key: Key) -> int:
        snapshots = self._memory.session(key).snapshots
        count = len(snapshots)
        snapshots.clear()
        return count


class MemoryInbox:
    """Commands in the ledgers of their sessions."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    async def send(self, key: Key, command: InboxCommand) -> Sent:
        check_command(command)
        ledger = self._memory.session(key).ledger
        if (known := ledger.sent(command.command_id)) is not None:
            return known
        ledger.receive(command)
        self._memory.wrote()
        return Sent(new=True, taken=False)

    async def waiting(self, key: Key, *, limit: int = 100) -> list[InboxCommand]:
        return self._memory.session(key).ledger.inbox(limit)

    async def taken(self, key: Key, *, after: str = "", limit: int = 1000) -> list[TakenCommand]:
        return self._memory.session(key).ledger.taken_after(after, limit)


class MemoryLeases:
    """Leases and epochs in the ledgers of their sessions."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._sightings = Sightings()

    async def claim(self, key: Key, *, runner: str, ttl_ms: int, now_ms: int, renew: bool = False) -> Claim:
        claim = self._memory.session(key).ledger.claim(runner, ttl_ms, now_ms, renew, self._sightings)
        self._memory.wrote()
        return claim

    async def keep(self, key: Key, *, runner: str, epoch: int, ttl_ms: int, now_ms: int) -> None:
        self._memory.session(key).ledger.keep(runner, epoch, ttl_ms, now_ms)

    async def release(self, key: Key, *, runner: str, epoch: int) -> None:
        if self._memory.session(key).ledger.release(runner, epoch):
            self._memory.wrote()

    async def holder(self, key: Key, *, now_ms: int) -> Holder | None:
        return self._memory.session(key).ledger.holder(now_ms, self._sightings)


class MemoryIndex:
    """A row for each session, all looked at for each query."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    async def put(self, row: IndexRow) -> None:
        self._memory.session(Key(row.tenant, row.session)).index = row
        self._memory.wrote()

    async def get(self, key: Key) -> IndexRow | None:
        session = self._memory.lookup(key)
        return session.index if session else None

    async def find(self, query: Query) -> list[IndexRow]:
        fitting = (session for _, session in self._memory.sessions() if ledger_fits(query, session.ledger))
        return select(query, (session.index for session in fitting if session.index is not None))


class MemoryBlobs:
    """Bytes by tenant and digest."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    async def put(self, tenant: str, data: bytes, *, media_type: str = MEDIA_TYPE) -> str:
        check_id("tenant", tenant)
        digest = blob_digest(data)
        check_blob(digest, data)
        self._memory.keep_blob(tenant, digest, data, media_type)
        return digest

    async def get(self, tenant: str, digest: str, *, start: int = 0, length: int | None = None) -> bytes:
        kept = self._memory.blob(tenant, digest)
        if kept is None:
            raise NotFound(f"tenant {tenant!r} has no blob {digest!r}")
        return kept[0][start : None if length is None else start + length]

    async def info(self, tenant: str, digest: str) -> BlobInfo | None:
        kept = self._memory.blob(tenant, digest)
        return BlobInfo(size=len(kept[0]), media_type=kept[1]) if kept else None

    async def erase(self, tenant: str, digest: str) -> bool:
        return self._memory.drop_blob(tenant, digest)


class MemoryStore:
    """Keeps everything in dictionaries. All that a caller can observe is as in the durable stores, but for a crash."""

    def __init__(self) -> None:
        self.memory = Memory()
        self.log = MemoryLog(self.memory)
        self.inbox = MemoryInbox(self.memory)
        self.leases = MemoryLeases(self.memory)
        self.index = MemoryIndex(self.memory)
        self.blobs = MemoryBlobs(self.memory)
        self._seen_writes = 0

    @property
    def durability(self) -> Durability:
        return "normal"

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(durable=False, multi_process=False, transactional=True, sends=True)

    @property
    def stats(self) -> dict[str, int]:
        return self.memory.stats

    async def changed(self) -> bool:
        changed = self.memory.writes != self._seen_writes
        self._seen_writes = self.memory.writes
        return changed

    async def close(self) -> None:
        """Nothing to do: what is in memory stays readable as long as this object lives."""
