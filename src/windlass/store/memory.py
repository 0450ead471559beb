"""A store that lives as long as its process: for tests, for `run` without a store, and as the plainest reading of the
seam. It never touches a disk and never waits."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import AsyncIterator, Mapping, Sequence

import msgspec

from windlass.events import record
from windlass.events.errors import NotFound, UsageError
from windlass.events.record import Sealed

from .base import (
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
    Origin,
    Query,
    Sent,
    Snapshot,
    TakenCommand,
    blob_digest,
)
from .keys import check_blob, check_command, check_digest, check_id, check_key, check_origin, check_sealed
from .leases import Sightings
from .ledger import Ledger
from .search import ledger_fits, select


class _Session:
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


class MemoryStore:
    """Keeps everything in dictionaries. All that a caller can observe is as in the durable stores, but for a crash."""

    def __init__(self) -> None:
        self._sessions: dict[Key, _Session] = {}
        self._blobs: dict[tuple[str, str], tuple[bytes, str]] = {}
        self._sightings = Sightings()
        self._writes = 0
        self._seen_writes = 0
        self.stats: dict[str, int] = {"appends": 0, "commits": 0, "syncs": 0}

    @property
    def durability(self) -> Durability:
        return "normal"

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(durable=False, multi_process=False, transactional=True)

    # --- sessions and leases

    async def create(self, key: Key, *, origin: Origin | None = None) -> bool:
        check_key(key)
        if (session := self._sessions.get(key)) is not None:
            if session.ledger.origin != origin:
                raise UsageError(f"session {key.session!r} exists with another origin: {session.ledger.origin!r}")
            return False
        epoch = 0
        if origin is not None:
            check_origin(key, origin)
            epoch = self._epoch_at(key.tenant, origin)
        self._sessions[key] = _Session(key, origin, epoch)
        self._wrote()
        return True

    def _epoch_at(self, tenant: str, origin: Origin) -> int:
        """The epoch of the append at which a fork begins; there must be one."""
        last = self._history(Key(tenant, origin.session), origin.seq)[-1:]
        if not last or last[0].last_seq != origin.seq or last[0].hash != origin.hash:
            raise UsageError(f"session {origin.session!r} has no append that ends at {origin.seq} with this hash")
        return last[0].epoch

    async def claim(self, key: Key, *, runner: str, ttl_ms: int, now_ms: int, renew: bool = False) -> Claim:
        claim = self._session(key).ledger.claim(runner, ttl_ms, now_ms, renew, self._sightings)
        self._wrote()
        return claim

    async def keep(self, key: Key, *, runner: str, epoch: int, ttl_ms: int, now_ms: int) -> None:
        self._session(key).ledger.keep(runner, epoch, ttl_ms, now_ms)

    async def release(self, key: Key, *, runner: str, epoch: int) -> None:
        if self._session(key).ledger.release(runner, epoch):
            self._wrote()

    async def holder(self, key: Key, *, now_ms: int) -> Holder | None:
        return self._session(key).ledger.holder(now_ms, self._sightings)

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
        check_sealed(key, sealed, index)
        for digest, data in (blobs or {}).items():
            check_blob(digest, data)
        session = self._session(key)
        session.ledger.judge(sealed, takes)
        session.add(sealed, takes)
        if index is not None:
            session.index = index
        for digest, data in (blobs or {}).items():
            self._blobs.setdefault((key.tenant, digest), (bytes(data), "application/octet-stream"))
        self.stats["appends"] += 1
        self._wrote()

    async def adopt(self, key: Key, lines: Sequence[Sealed], *, epoch: int, takes: Sequence[TakenCommand] = ()) -> None:
        session = self._session(key)
        session.ledger.judge_lines(lines, epoch, takes)
        for sealed in lines:
            session.add(sealed, ())
        for take in takes:
            session.ledger.take(take.command_id, take.seq)
        self._wrote()

    async def head(self, key: Key) -> Head | None:
        session = self._sessions.get(check_key(key))
        return session.ledger.head() if session else None

    async def read(self, key: Key, *, after: int = 0, until: int | None = None) -> AsyncIterator[Sealed]:
        session = self._session(key)
        place, end = bisect_right(session.starts, after), len(session.lines)
        while place < end and (until is None or session.lines[place].last_seq <= until):
            yield session.lines[place]
            place += 1

    def _history(self, key: Key, until: int) -> list[Sealed]:
        session = self._session(key)
        origin = session.ledger.origin
        before = self._history(Key(key.tenant, origin.session), min(until, origin.seq)) if origin else []
        return before + [sealed for sealed in session.lines if sealed.last_seq <= until]

    # --- the inbox

    async def send(self, key: Key, command: InboxCommand) -> Sent:
        check_command(command)
        ledger = self._session(key).ledger
        if (known := ledger.sent(command.command_id)) is not None:
            return known
        ledger.receive(command)
        self._wrote()
        return Sent(new=True, taken=False)

    async def inbox(self, key: Key, *, limit: int = 100) -> list[InboxCommand]:
        return self._session(key).ledger.inbox(limit)

    async def taken(self, key: Key, *, after: str = "", limit: int = 1000) -> list[TakenCommand]:
        return self._session(key).ledger.taken_after(after, limit)

    # --- snapshots and the index

    async def put_snapshot(self, key: Key, snapshot: Snapshot) -> None:
        snapshots = self._session(key).snapshots
        snapshots[snapshot.seq] = snapshot
        for seq in sorted(snapshots)[:-SNAPSHOTS_KEPT]:
            del snapshots[seq]

    async def get_snapshot(self, key: Key, *, at_most: int | None = None) -> Snapshot | None:
        snapshots = self._session(key).snapshots
        seqs = [seq for seq in snapshots if at_most is None or seq <= at_most]
        return snapshots[max(seqs)] if seqs else None

    async def drop_snapshots(self, key: Key) -> int:
        snapshots = self._session(key).snapshots
        count = len(snapshots)
        snapshots.clear()
        return count

    async def put_index(self, row: IndexRow) -> None:
        self._session(Key(row.tenant, row.session)).index = row
        self._wrote()

    async def get_index(self, key: Key) -> IndexRow | None:
        session = self._sessions.get(check_key(key))
        return session.index if session else None

    async def find(self, query: Query) -> list[IndexRow]:
        fitting = (session for session in self._sessions.values() if ledger_fits(query, session.ledger))
        return select(query, (session.index for session in fitting if session.index is not None))

    # --- blobs

    async def put_blob(self, tenant: str, data: bytes, *, media_type: str = "application/octet-stream") -> str:
        check_id("tenant", tenant)
        digest = blob_digest(data)
        check_blob(digest, data)
        self._blobs.setdefault((tenant, digest), (bytes(data), media_type))
        return digest

    async def get_blob(self, tenant: str, digest: str, *, start: int = 0, length: int | None = None) -> bytes:
        data, _ = self._blob(tenant, digest)
        return data[start : None if length is None else start + length]

    async def blob_info(self, tenant: str, digest: str) -> BlobInfo | None:
        kept = self._blobs.get((check_id("tenant", tenant), check_digest(digest)))
        return BlobInfo(size=len(kept[0]), media_type=kept[1]) if kept else None

    async def erase_blob(self, tenant: str, digest: str) -> bool:
        return self._blobs.pop((check_id("tenant", tenant), check_digest(digest)), None) is not None

    def _blob(self, tenant: str, digest: str) -> tuple[bytes, str]:
        kept = self._blobs.get((check_id("tenant", tenant), check_digest(digest)))
        if kept is None:
            raise NotFound(f"tenant {tenant!r} has no blob {digest!r}")
        return kept

    # --- erasing, forks, deletion

    async def erase(self, key: Key, seq: int, *, by: str, why: str, at_ms: int) -> None:
        session = self._session(key)
        place = session.position_of(seq)
        if place is None:
            raise NotFound(f"session {key.session!r} has no event {seq} of its own")
        line = session.lines[place]
        data = record.erase(line.data, seq, by=by, why=why, at_ms=at_ms)
        session.lines[place] = msgspec.structs.replace(line, data=data)
        self._drop_snapshots_of_tree(key)
        self._wrote()

    def _drop_snapshots_of_tree(self, key: Key) -> None:
        self._session(key).snapshots.clear()
        for fork in self._forks(key):
            self._drop_snapshots_of_tree(Key(key.tenant, fork))

    async def forks(self, key: Key) -> list[str]:
        self._session(key)
        return self._forks(key)

    def _forks(self, key: Key) -> list[str]:
        return sorted(
            other.session
            for other, session in self._sessions.items()
            if other.tenant == key.tenant and session.ledger.origin and session.ledger.origin.session == key.session
        )

    async def delete(self, key: Key) -> None:
        self._session(key)
        if forks := self._forks(key):
            raise UsageError(f"session {key.session!r} has forks {forks!r}: delete or detach them first")
        del self._sessions[key]
        self._wrote()

    async def detach(self, key: Key) -> None:
        session = self._session(key)
        origin = session.ledger.origin
        if origin is None:
            return
        session.lines = self._history(key, session.ledger.seq)
        session.starts = [sealed.first_seq for sealed in session.lines]
        session.ledger.origin = None
        self._wrote()

    async def changed(self) -> bool:
        changed = self._writes != self._seen_writes
        self._seen_writes = self._writes
        return changed

    async def close(self) -> None:
        """Nothing to do: what is in memory stays readable as long as this object lives."""

    def ledger(self, key: Key) -> Ledger:
        """The write side of a session, for stores that keep their working state here. Raises `NotFound`."""
        return self._session(key).ledger

    def forget(self, key: Key) -> None:
        """Drops a session from memory, whatever refers to it."""
        self._sessions.pop(key, None)

    def _session(self, key: Key) -> _Session:
        session = self._sessions.get(check_key(key))
        if session is None:
            raise NotFound(f"tenant {key.tenant!r} has no session {key.session!r}")
        return session

    def _wrote(self) -> None:
        self._writes += 1
        self.stats["commits"] += 1
