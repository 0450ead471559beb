"""Logs and snapshots in the SQLite file, and the transaction that an append is. Every function on a cursor judges first
and writes then, so that one that refuses has changed nothing and the rest of its group can be committed."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import apsw
import msgspec

from windlass.events.errors import Damaged, NotFound, SeqConflict, UsageError
from windlass.events.stored import record
from windlass.events.stored.record import GENESIS, Sealed
from windlass.store.base import MEDIA_TYPE, Head, IndexRow, Key, Message, Origin, Snapshot, TakenCommand
from windlass.store.rules.ids import check_key, check_origin, other_origin
from windlass.store.rules.limits import check_blob, check_messages, check_sealed
from windlass.store.rules.session_ledger import exists, judge_adopted, judge_epoch, judge_next

from . import inbox
from .append_row import COLUMNS, changed, checksum, insert, missing, sealed_of
from .blobs import put as put_blob
from .database import INLINE_BYTES, Database
from .forks import detach, epoch_at, forks
from .index import SET_COLUMNS, columns
from .schema import SEQ_BITS, SEQ_MASK
from .session_row import SessionRow, lookup, session_row
from .snapshots import drop_snapshots, drop_snapshots_of_tree, get_snapshot, put_snapshot

PAGE_LINES = 256
PAGE_BYTES = 1024 * 1024
"""How much of a log one read of the database fetches."""

_FENCE = "WHERE tenant = ? AND session = ? AND epoch = ? AND owner != '' AND seq = ? AND hash = ? RETURNING sid"
_MOVE = f"UPDATE sessions SET seq = ?, hash = ? {_FENCE}"
_MOVE_INDEXED = f"UPDATE sessions SET seq = ?, hash = ?, {SET_COLUMNS} {_FENCE}"


class SqliteLog:
    """The logs of the store over one SQLite file."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def create(self, key: Key, *, origin: Origin | None = None) -> bool:
        check_key(key)
        if origin is not None:
            check_origin(key, origin)
        return await self._database.write(functools.partial(_create, key=key, origin=origin))

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
        check_key(key)
        check_sealed(key, sealed, index)
        if sends:
            check_messages(key, sends)
        if not blobs:
            await self._database.submit(append, key, sealed, takes, index, None, sends, barrier=barrier)
            return
        heavy = sum(map(len, blobs.values())) > INLINE_BYTES
        for digest, data in blobs.items():
            await asyncio.to_thread(check_blob, digest, data) if heavy else check_blob(digest, data)
        await self._database.submit(append, key, sealed, takes, index, blobs, sends, barrier=barrier, heavy=heavy)
        self._database.stats["appends"] += 1

    async def adopt(
        self,
        key: Key,
        lines: Sequence[Sealed],
        *,
        origin: Origin | None = None,
        takes: Sequence[TakenCommand] = (),
        index: IndexRow | None = None,
    ) -> None:
        check_key(key)
        if origin is not None:
            check_origin(key, origin)
        work = functools.partial(_adopt, key=key, lines=lines, origin=origin, takes=takes, index=index)
        await self._database.write(work, heavy=True)

    async def head(self, key: Key) -> Head | None:
        check_key(key)
        session = self._database.read(lambda cursor: lookup(cursor, key))
        return session.head() if session else None

    async def read(self, key: Key, *, after: int = 0, until: int | None = None) -> AsyncIterator[Sealed]:
        check_key(key)
        page = self._database.read(lambda cursor: _page(cursor, key, after, until))
        while True:
            for sealed in page.lines:
                yield sealed
            if page.damage is not None:
                raise page.damage
            if not page.more:
                return
            work = functools.partial(_page, key=key, after=page.lines[-1].last_seq, until=until)
            page = await self._database.read_long(work)

    async def erase(self, key: Key, seq: int, *, by: str, why: str, at_ms: int) -> None:
        check_key(key)
        await self._database.write_scrubbed(lambda cursor: _erase(cursor, key, seq, by, why, at_ms))

    async def forks(self, key: Key) -> list[str]:
        check_key(key)
        return self._database.read(lambda cursor: forks(cursor, key))

    async def detach(self, key: Key) -> None:
        check_key(key)
        await self._database.write(lambda cursor: detach(cursor, key), heavy=True)

    async def delete(self, key: Key) -> None:
        check_key(key)
        await self._database.write_scrubbed(lambda cursor: _delete(cursor, key))

    async def put_snapshot(self, key: Key, snapshot: Snapshot) -> None:
        check_key(key)
        heavy = len(snapshot.data) > INLINE_BYTES
        await self._database.write(lambda cursor: put_snapshot(cursor, key, snapshot), heavy=heavy)

    async def get_snapshot(self, key: Key, *, at_most: int | None = None) -> Snapshot | None:
        check_key(key)
        return self._database.read(lambda cursor: get_snapshot(cursor, key, at_most))

    async def drop_snapshots(self, key: Key) -> int:
        check_key(key)
        return await self._database.write(lambda cursor: drop_snapshots(cursor, key))


def _create(cursor: apsw.Cursor, key: Key, origin: Origin | None) -> bool:
    session = lookup(cursor, key)
    if session is not None:
        if session.origin != origin:
            raise other_origin(key, session.origin)
        return False
    epoch = epoch_at(cursor, key.tenant, origin) if origin else 0
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


def append(
    cursor: apsw.Cursor,
    key: Key,
    sealed: Sealed,
    takes: Sequence[str],
    row: IndexRow | None,
    blobs: Mapping[str, bytes] | None,
    sends: Sequence[Message] = (),
) -> None:
    """The fence is the statement that moves the head: it matches only the epoch, seq and hash that the append
    continues. If it matches nothing, the row says which of them it was."""
    if takes and inbox.may_be_taken(cursor, key, takes):
        _judge_takes(cursor, key, sealed, takes)
    fence = (key.tenant, key.session, sealed.epoch, sealed.first_seq - 1, sealed.prev_hash)
    if row is None:
        moved: Any = cursor.execute(_MOVE, (sealed.last_seq, sealed.hash, *fence)).fetchall()
    else:
        values = (sealed.last_seq, sealed.hash, *columns(row), *fence)
        moved = cursor.execute(_MOVE_INDEXED, values).fetchall()
    if not moved:
        _refuse(cursor, key, sealed)
    sid = moved[0][0]
    insert(cursor, sid, sealed)
    if takes:
        inbox.take(cursor, sid, [TakenCommand(command_id, sealed.first_seq) for command_id in takes])
    if blobs:
        for digest, data in blobs.items():
            put_blob(cursor, key.tenant, digest, data, MEDIA_TYPE)
    for message in sends:
        inbox.deliver(cursor, key.tenant, message)


def _refuse(cursor: apsw.Cursor, key: Key, sealed: Sealed) -> None:
    session = session_row(cursor, key)
    judge_epoch(key, sealed.epoch, session.epoch, session.owner)
    judge_next(key, sealed, session.seq, session.hash)
    raise SeqConflict(f"session {key.session!r} did not take append {sealed.first_seq}")


def _judge_takes(cursor: apsw.Cursor, key: Key, sealed: Sealed, takes: Sequence[str]) -> None:
    session = session_row(cursor, key)
    judge_epoch(key, sealed.epoch, session.epoch, session.owner)
    judge_next(key, sealed, session.seq, session.hash)
    inbox.refuse_taken(cursor, key, session.sid, takes)


def _adopt(
    cursor: apsw.Cursor,
    key: Key,
    lines: Sequence[Sealed],
    origin: Origin | None,
    takes: Sequence[TakenCommand],
    index: IndexRow | None,
) -> None:
    if lookup(cursor, key) is not None:
        raise exists(key)
    seq, chain = judge_adopted(key, lines, takes, origin)
    _create(cursor, key, origin)
    session = session_row(cursor, key)
    for sealed in lines:
        insert(cursor, session.sid, sealed)
    inbox.take(cursor, session.sid, takes)
    epoch = max([session.epoch, *(sealed.epoch for sealed in lines)])
    cursor.execute("UPDATE sessions SET seq = ?, hash = ?, epoch = ? WHERE sid = ?", (seq, chain, epoch, session.sid))
    if index is not None:
        cursor.execute(f"UPDATE sessions SET {SET_COLUMNS} WHERE sid = ?", (*columns(index), session.sid))


def _erase(cursor: apsw.Cursor, key: Key, seq: int, by: str, why: str, at_ms: int) -> None:
    session = session_row(cursor, key)
    base = session.sid << SEQ_BITS
    row: Any = cursor.execute(
        f"SELECT {COLUMNS} FROM appends WHERE place BETWEEN ? AND ? ORDER BY place DESC LIMIT 1",
        (base, base + min(max(seq, 0), SEQ_MASK)),
    ).fetchone()
    if row is None or row[1] < seq:
        raise NotFound(f"session {key.session!r} has no event {seq} of its own")
    sealed = sealed_of(key, row, *_before(cursor, session, row[0] - 1))
    erased = msgspec.structs.replace(sealed, data=record.erase(sealed.data, seq, by=by, why=why, at_ms=at_ms))
    cursor.execute("UPDATE appends SET data = ?, crc = ? WHERE place = ?", (erased.data, checksum(erased), row[0]))
    drop_snapshots_of_tree(cursor, key)


class _Page(msgspec.Struct, frozen=True):
    """Some lines, whether there may be more behind them, and why there are no more if they are damaged there."""

    lines: list[Sealed]
    more: bool = False
    damage: Damaged | None = None


def _page(cursor: apsw.Cursor, key: Key, after: int, until: int | None) -> _Page:
    session = session_row(cursor, key)
    page = _page_of(cursor, key, session, after, until)
    if page.damage is not None and lookup(cursor, key) != session:
        return _page(cursor, key, after, until)  # it was written to, or deleted, between two of these statements
    return page


def _page_of(cursor: apsw.Cursor, key: Key, session: SessionRow, after: int, until: int | None) -> _Page:
    base = session.sid << SEQ_BITS
    start = base + min(max(after, 0), SEQ_MASK)
    seq, chain = _before(cursor, session, start)
    rows: Any = cursor.execute(
        f"SELECT {COLUMNS} FROM appends WHERE place > ? AND place <= ? ORDER BY place LIMIT ?",
        (start, base + SEQ_MASK, PAGE_LINES),
    )
    lines: list[Sealed] = []
    size = 0
    for row in rows:
        try:
            sealed = sealed_of(key, row, seq, chain)
        except Damaged as damage:
            return _Page(lines, damage=None if until is not None and until <= seq else damage)
        if until is not None and sealed.last_seq > until:
            return _Page(lines)
        lines.append(sealed)
        seq, chain = sealed.last_seq, sealed.hash
        size += len(sealed.data)
        if size >= PAGE_BYTES or len(lines) == PAGE_LINES:
            return _Page(lines, more=True)
    return _Page(lines, damage=_end_of(key, session, seq, chain, until))


def _end_of(key: Key, session: SessionRow, seq: int, chain: str, until: int | None) -> Damaged | None:
    """What is wrong with a log that has no more rows behind (seq, chain)."""
    if seq < session.seq and (until is None or until > seq):
        return missing(key, seq, session.seq)
    return changed(key, seq) if seq == session.seq and chain != session.hash else None


def _before(cursor: apsw.Cursor, session: SessionRow, place: int) -> tuple[int, str]:
    """Where the log ends up to a place: with the last append there, or with what the session continues."""
    row: Any = cursor.execute(
        "SELECT last_seq, hash FROM appends WHERE place BETWEEN ? AND ? ORDER BY place DESC LIMIT 1",
        (session.sid << SEQ_BITS, place),
    ).fetchone()
    return (row[0], row[1]) if row else _beginning(session.origin)


def _delete(cursor: apsw.Cursor, key: Key) -> None:
    session = session_row(cursor, key)
    if names := forks(cursor, key):
        raise UsageError(f"session {key.session!r} has forks {names!r}: delete or detach them first")
    base = session.sid << SEQ_BITS
    cursor.execute("DELETE FROM appends WHERE place BETWEEN ? AND ?", (base, base + SEQ_MASK))
    cursor.execute("DELETE FROM sessions WHERE sid = ?", (session.sid,))
