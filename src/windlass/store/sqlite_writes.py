"""What each write does inside a transaction of the SQLite store. Every function judges first and writes then, so that
one that refuses has changed nothing and the rest of its group can be committed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import apsw
import msgspec

from windlass.events import record
from windlass.events.errors import CommandTaken, NotFound, SeqConflict, StaleEpoch, StorageFull, UsageError
from windlass.events.record import GENESIS, Sealed

from .base import (
    INBOX_COMMANDS_MAX,
    SNAPSHOTS_KEPT,
    Claim,
    Head,
    InboxCommand,
    IndexRow,
    Key,
    Origin,
    Sent,
    Snapshot,
    TakenCommand,
)
from .leases import Lease, Sightings
from .ledger import judge_adopted, judge_claim, judge_epoch, judge_next
from .runners import process_of
from .sqlite_schema import SEQ_BITS, SEQ_MASK

Cursor = apsw.Cursor

_HEAD = "SELECT sid, seq, hash, epoch, owner, until_ms, origin_session, origin_seq, origin_hash FROM sessions"
_FENCE = "WHERE tenant = ? AND session = ? AND epoch = ? AND owner != '' AND seq = ? AND hash = ? RETURNING sid"
_MOVE = f"UPDATE sessions SET seq = ?, hash = ? {_FENCE}"
_MOVE_INDEXED = (
    "UPDATE sessions SET seq = ?, hash = ?, state = ?, owed = ?, next_wake_ms = ?, agent = ?, parent = ?, root = ?, "
    f"updated_ms = ?, row = ? {_FENCE}"
)
_encode_row = msgspec.json.Encoder().encode


class Found(msgspec.Struct, frozen=True):
    """A session's row, as far as writes need it."""

    sid: int
    seq: int
    hash: str
    epoch: int
    owner: str
    until_ms: int
    origin_session: str | None
    origin_seq: int | None
    origin_hash: str | None

    @property
    def origin(self) -> Origin | None:
        if self.origin_session is None or self.origin_seq is None or self.origin_hash is None:
            return None
        return Origin(session=self.origin_session, seq=self.origin_seq, hash=self.origin_hash)

    @property
    def lease(self) -> Lease:
        return self.epoch, self.owner, self.until_ms

    def head(self) -> Head:
        return Head(seq=self.seq, hash=self.hash, epoch=self.epoch, origin=self.origin)


def lookup(cursor: Cursor, key: Key) -> Found | None:
    """The session, if there is one."""
    row: Any = cursor.execute(f"{_HEAD} WHERE tenant = ? AND session = ?", (key.tenant, key.session)).fetchone()
    return Found(*row) if row else None


def find_session(cursor: Cursor, key: Key) -> Found:
    """The session. Raises `NotFound`."""
    found = lookup(cursor, key)
    if found is None:
        raise NotFound(f"tenant {key.tenant!r} has no session {key.session!r}")
    return found


# --- sessions and leases


def create(cursor: Cursor, key: Key, origin: Origin | None) -> bool:
    found = lookup(cursor, key)
    if found is not None:
        if found.origin != origin:
            raise UsageError(f"session {key.session!r} exists with another origin: {found.origin!r}")
        return False
    epoch = _epoch_at(cursor, key.tenant, origin) if origin else 0
    cursor.execute(
        "INSERT INTO sessions(tenant, session, seq, hash, epoch, origin_session, origin_seq, origin_hash) "
        "VALUES(?, ?, ?, ?, ?, ?, ?, ?)",
        (key.tenant, key.session, *_beginning(origin), epoch, *_origin_columns(origin)),
    )
    return True


def _beginning(origin: Origin | None) -> tuple[int, str]:
    return (origin.seq, origin.hash) if origin else (0, GENESIS)


def _origin_columns(origin: Origin | None) -> tuple[str | None, int | None, str | None]:
    return (origin.session, origin.seq, origin.hash) if origin else (None, None, None)


def _epoch_at(cursor: Cursor, tenant: str, origin: Origin) -> int:
    """The epoch of the append at which a fork begins. The origin's history must have one that ends there, in its own
    log or in one that it continues."""
    found = find_session(cursor, Key(tenant, origin.session))
    while (above := found.origin) is not None and origin.seq <= above.seq:
        found = find_session(cursor, Key(tenant, above.session))
    base = found.sid << SEQ_BITS
    row: Any = cursor.execute(
        "SELECT last_seq, hash, epoch FROM appends WHERE place BETWEEN ? AND ? ORDER BY place DESC LIMIT 1",
        (base, base + min(origin.seq, SEQ_MASK)),
    ).fetchone()
    if row is None or tuple(row[:2]) != (origin.seq, origin.hash):
        raise UsageError(f"session {origin.session!r} has no append that ends at {origin.seq} with this hash")
    return int(row[2])


def claim(cursor: Cursor, key: Key, runner: str, ttl_ms: int, now_ms: int, renew: bool, sightings: Sightings) -> Claim:
    found = find_session(cursor, key)
    epoch = judge_claim(key, runner, now_ms, renew, found.lease, sightings)
    cursor.execute(
        "UPDATE sessions SET epoch = ?, owner = ?, until_ms = ? WHERE sid = ?",
        (epoch, runner, now_ms + ttl_ms, found.sid),
    )
    return Claim(epoch=epoch, head=msgspec.structs.replace(found.head(), epoch=epoch), until_ms=now_ms + ttl_ms)


def keep(cursor: Cursor, key: Key, runner: str, epoch: int, until_ms: int) -> None:
    found = find_session(cursor, key)
    judge_epoch(key, epoch, found.epoch, found.owner)
    if found.owner != runner:
        raise StaleEpoch(f"session {key.session!r} was taken by {process_of(found.owner)}")
    cursor.execute("UPDATE sessions SET until_ms = ? WHERE sid = ?", (until_ms, found.sid))


def release(cursor: Cursor, key: Key, runner: str, epoch: int) -> None:
    found = find_session(cursor, key)
    cursor.execute(
        "UPDATE sessions SET until_ms = 0 WHERE sid = ? AND owner = ? AND epoch = ?", (found.sid, runner, epoch)
    )


# --- the log


def append(
    cursor: Cursor,
    key: Key,
    sealed: Sealed,
    takes: Sequence[str],
    row: IndexRow | None,
    blobs: Mapping[str, bytes] | None,
) -> None:
    """The fence is the statement that moves the head: it matches only the epoch, seq and hash that the append
    continues. Where it matches nothing, the row says which of them it was."""
    if takes:
        _judge_takes(cursor, key, sealed, takes)
    fence = (key.tenant, key.session, sealed.epoch, sealed.first_seq - 1, sealed.prev_hash)
    if row is None:
        moved: Any = cursor.execute(_MOVE, (sealed.last_seq, sealed.hash, *fence)).fetchall()
    else:
        values = (sealed.last_seq, sealed.hash, *_index_columns(row), *fence)
        moved = cursor.execute(_MOVE_INDEXED, values).fetchall()
    if not moved:
        _refuse(cursor, key, sealed)
    sid = moved[0][0]
    _insert(cursor, sid, sealed)
    if takes:
        _take(cursor, sid, [TakenCommand(command_id, sealed.first_seq) for command_id in takes])
    if blobs:
        for digest, data in blobs.items():
            put_blob(cursor, key.tenant, digest, data, "application/octet-stream")


def _refuse(cursor: Cursor, key: Key, sealed: Sealed) -> None:
    found = find_session(cursor, key)
    judge_epoch(key, sealed.epoch, found.epoch, found.owner)
    judge_next(key, sealed, found.seq, found.hash)
    raise SeqConflict(f"session {key.session!r} did not take append {sealed.first_seq}")


def _judge_takes(cursor: Cursor, key: Key, sealed: Sealed, takes: Sequence[str]) -> None:
    found = find_session(cursor, key)
    judge_epoch(key, sealed.epoch, found.epoch, found.owner)
    judge_next(key, sealed, found.seq, found.hash)
    _refuse_taken(cursor, key, found.sid, takes)


def _refuse_taken(cursor: Cursor, key: Key, sid: int, takes: Sequence[str]) -> None:
    if len(set(takes)) != len(takes):
        raise CommandTaken(f"session {key.session!r}: one append takes a command twice: {list(takes)!r}")
    for command_id in takes:
        if cursor.execute(
            "SELECT 1 FROM commands WHERE sid = ? AND command_id = ? AND taken IS NOT NULL", (sid, command_id)
        ).fetchall():
            raise CommandTaken(f"session {key.session!r} has taken command {command_id!r} before")


def _insert(cursor: Cursor, sid: int, sealed: Sealed) -> None:
    cursor.execute(
        "INSERT INTO appends VALUES(?, ?, ?, ?, ?, ?)",
        (
            sid << SEQ_BITS | sealed.first_seq,
            sealed.last_seq,
            sealed.at_ms,
            sealed.epoch,
            sealed.hash,
            sealed.data,
        ),
    )


def _take(cursor: Cursor, sid: int, takes: Sequence[TakenCommand]) -> None:
    # The data of a taken command is in the log from now on.
    cursor.executemany(
        "INSERT INTO commands(sid, command_id, position, at_ms, data, taken) VALUES(?, ?, 0, 0, NULL, ?) "
        "ON CONFLICT(sid, command_id) DO UPDATE SET taken = excluded.taken, data = NULL",
        [(sid, take.command_id, take.seq) for take in takes],
    )


def adopt(cursor: Cursor, key: Key, lines: Sequence[Sealed], epoch: int, takes: Sequence[TakenCommand]) -> None:
    found = find_session(cursor, key)
    judge_epoch(key, epoch, found.epoch, found.owner)
    seq, chain = judge_adopted(key, lines, takes, found.seq, found.hash)
    _refuse_taken(cursor, key, found.sid, [take.command_id for take in takes])
    for sealed in lines:
        _insert(cursor, found.sid, sealed)
    _take(cursor, found.sid, takes)
    highest = max((sealed.epoch for sealed in lines), default=epoch)
    cursor.execute(
        "UPDATE sessions SET seq = ?, hash = ?, epoch = ? WHERE sid = ?", (seq, chain, max(epoch, highest), found.sid)
    )


def erase(cursor: Cursor, key: Key, seq: int, by: str, why: str, at_ms: int) -> None:
    found = find_session(cursor, key)
    base = found.sid << SEQ_BITS
    row: Any = cursor.execute(
        "SELECT place, last_seq, data FROM appends WHERE place BETWEEN ? AND ? ORDER BY place DESC LIMIT 1",
        (base, base + min(max(seq, 0), SEQ_MASK)),
    ).fetchone()
    if row is None or row[1] < seq:
        raise NotFound(f"session {key.session!r} has no event {seq} of its own")
    data = record.erase(row[2], seq, by=by, why=why, at_ms=at_ms)
    cursor.execute("UPDATE appends SET data = ? WHERE place = ?", (data, row[0]))
    _drop_snapshots_of_tree(cursor, key)


def _drop_snapshots_of_tree(cursor: Cursor, key: Key) -> None:
    drop_snapshots(cursor, key)
    for fork in forks(cursor, key):
        _drop_snapshots_of_tree(cursor, Key(key.tenant, fork))


# --- the inbox


def send(cursor: Cursor, key: Key, command: InboxCommand) -> Sent:
    found = find_session(cursor, key)
    known: Any = cursor.execute(
        "SELECT taken FROM commands WHERE sid = ? AND command_id = ?", (found.sid, command.command_id)
    ).fetchall()
    if known:
        return Sent(new=False, taken=known[0][0] is not None)
    waiting: Any = cursor.execute(
        "SELECT count(*) FROM commands WHERE sid = ? AND taken IS NULL", (found.sid,)
    ).fetchone()
    if waiting[0] >= INBOX_COMMANDS_MAX:
        raise StorageFull(f"the inbox of session {key.session!r} holds {INBOX_COMMANDS_MAX} commands")
    position: Any = cursor.execute(
        "UPDATE sessions SET position = position + 1 WHERE sid = ? RETURNING position", (found.sid,)
    ).fetchall()
    cursor.execute(
        "INSERT INTO commands(sid, command_id, position, at_ms, data) VALUES(?, ?, ?, ?, ?)",
        (found.sid, command.command_id, position[0][0], command.at_ms, command.data),
    )
    return Sent(new=True, taken=False)


# --- snapshots and the index


def put_snapshot(cursor: Cursor, key: Key, snapshot: Snapshot) -> None:
    sid = find_session(cursor, key).sid
    cursor.execute(
        "INSERT OR REPLACE INTO snapshots(sid, seq, hash, state_version, data) VALUES(?, ?, ?, ?, ?)",
        (sid, snapshot.seq, snapshot.hash, snapshot.state_version, snapshot.data),
    )
    cursor.execute(
        "DELETE FROM snapshots WHERE sid = ? AND seq NOT IN "
        "(SELECT seq FROM snapshots WHERE sid = ? ORDER BY seq DESC LIMIT ?)",
        (sid, sid, SNAPSHOTS_KEPT),
    )


def drop_snapshots(cursor: Cursor, key: Key) -> int:
    sid = find_session(cursor, key).sid
    return len(cursor.execute("DELETE FROM snapshots WHERE sid = ? RETURNING seq", (sid,)).fetchall())


def _index_columns(row: IndexRow) -> tuple[object, ...]:
    return (
        row.state,
        int(row.owed),
        row.next_wake_ms,
        row.agent,
        row.parent,
        row.root,
        row.updated_ms,
        _encode_row(row),
    )


def put_index(cursor: Cursor, row: IndexRow) -> None:
    sid = find_session(cursor, Key(row.tenant, row.session)).sid
    cursor.execute(
        "UPDATE sessions SET state = ?, owed = ?, next_wake_ms = ?, agent = ?, parent = ?, root = ?, updated_ms = ?, "
        "row = ? WHERE sid = ?",
        (*_index_columns(row), sid),
    )


# --- blobs


def put_blob(cursor: Cursor, tenant: str, digest: str, data: bytes, media_type: str) -> None:
    cursor.execute(
        "INSERT INTO blobs(tenant, digest, media_type, size, data) VALUES(?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
        (tenant, digest, media_type, len(data), data),
    )


def erase_blob(cursor: Cursor, tenant: str, digest: str) -> bool:
    gone = cursor.execute("DELETE FROM blobs WHERE tenant = ? AND digest = ? RETURNING blob", (tenant, digest))
    return bool(gone.fetchall())


# --- forks and deletion


def forks(cursor: Cursor, key: Key) -> list[str]:
    find_session(cursor, key)
    rows: Any = cursor.execute(
        "SELECT session FROM sessions WHERE tenant = ? AND origin_session = ? ORDER BY session",
        (key.tenant, key.session),
    )
    return [row[0] for row in rows]


def delete(cursor: Cursor, key: Key) -> None:
    found = find_session(cursor, key)
    if names := forks(cursor, key):
        raise UsageError(f"session {key.session!r} has forks {names!r}: delete or detach them first")
    base = found.sid << SEQ_BITS
    cursor.execute("DELETE FROM appends WHERE place BETWEEN ? AND ?", (base, base + SEQ_MASK))
    cursor.execute("DELETE FROM sessions WHERE sid = ?", (found.sid,))


def detach(cursor: Cursor, key: Key) -> None:
    """Copies each origin's part, nearest first; where a fork left before its origin's own beginning, that origin has
    nothing to give."""
    found = find_session(cursor, key)
    origin, until = found.origin, found.seq
    while origin is not None:
        until = min(until, origin.seq)
        above = find_session(cursor, Key(key.tenant, origin.session))
        base = above.sid << SEQ_BITS
        cursor.execute(
            "INSERT INTO appends SELECT place - ? + ?, last_seq, at_ms, epoch, hash, data FROM appends "
            "WHERE place BETWEEN ? AND ? AND last_seq <= ?",
            (base, found.sid << SEQ_BITS, base, base + SEQ_MASK, until),
        )
        origin = above.origin
    cursor.execute(
        "UPDATE sessions SET origin_session = NULL, origin_seq = NULL, origin_hash = NULL WHERE sid = ?", (found.sid,)
    )
