"""What each read asks of the SQLite store. Every query begins with the tenant, through the session's row."""

from __future__ import annotations

from typing import Any

import msgspec

from windlass.events.errors import NotFound
from windlass.events.record import GENESIS, Sealed

from .base import BlobInfo, InboxCommand, IndexRow, Key, Query, Snapshot, TakenCommand
from .search import matches
from .sqlite_schema import SEQ_BITS, SEQ_MASK
from .sqlite_writes import Cursor, find_session

PAGE_LINES = 256
PAGE_BYTES = 1024 * 1024
"""How much of a log one read of the database fetches."""

_decode_row = msgspec.json.Decoder(IndexRow).decode


def page(cursor: Cursor, key: Key, after: int, until: int | None) -> tuple[list[Sealed], bool]:
    """Some lines, and whether there may be more behind them."""
    found = find_session(cursor, key)
    base = found.sid << SEQ_BITS
    start = base + min(max(after, 0), SEQ_MASK)
    row: Any = cursor.execute(
        "SELECT hash FROM appends WHERE place BETWEEN ? AND ? ORDER BY place DESC LIMIT 1", (base, start)
    ).fetchone()
    chain = row[0] if row else found.origin.hash if found.origin else GENESIS
    rows: Any = cursor.execute(
        "SELECT place, last_seq, at_ms, epoch, hash, data FROM appends WHERE place > ? AND place <= ? "
        "AND last_seq <= ? ORDER BY place LIMIT ?",
        (start, base + SEQ_MASK, SEQ_MASK if until is None else until, PAGE_LINES),
    )
    lines: list[Sealed] = []
    size = 0
    for place, last_seq, at_ms, epoch, digest, data in rows:
        lines.append(Sealed(first_seq=place & SEQ_MASK, last_seq=last_seq, at_ms=at_ms, epoch=epoch,
                            prev_hash=chain, hash=digest, data=data))  # fmt: skip
        chain = digest
        size += len(data)
        if size >= PAGE_BYTES:
            return lines, True
    return lines, len(lines) == PAGE_LINES


def inbox(cursor: Cursor, key: Key, limit: int) -> list[InboxCommand]:
    sid = find_session(cursor, key).sid
    rows: Any = cursor.execute(
        "SELECT command_id, at_ms, data, position FROM commands WHERE sid = ? AND taken IS NULL "
        "ORDER BY position LIMIT ?",
        (sid, limit),
    )
    return [InboxCommand(command_id=i, at_ms=at, data=data, position=p) for i, at, data, p in rows]


def taken(cursor: Cursor, key: Key, after: str, limit: int) -> list[TakenCommand]:
    sid = find_session(cursor, key).sid
    rows: Any = cursor.execute(
        "SELECT command_id, taken FROM commands WHERE sid = ? AND command_id > ? AND taken IS NOT NULL "
        "ORDER BY command_id LIMIT ?",
        (sid, after, limit),
    )
    return [TakenCommand(command_id, seq) for command_id, seq in rows]


def snapshot(cursor: Cursor, key: Key, at_most: int | None) -> Snapshot | None:
    sid = find_session(cursor, key).sid
    row: Any = cursor.execute(
        "SELECT seq, hash, state_version, data FROM snapshots WHERE sid = ? AND seq <= ? ORDER BY seq DESC LIMIT 1",
        (sid, SEQ_MASK if at_most is None else at_most),
    ).fetchone()
    return Snapshot(seq=row[0], hash=row[1], state_version=row[2], data=row[3]) if row else None


def index_row(cursor: Cursor, key: Key) -> IndexRow | None:
    row: Any = cursor.execute(
        "SELECT row FROM sessions WHERE tenant = ? AND session = ? AND row IS NOT NULL", (key.tenant, key.session)
    ).fetchone()
    return _decode_row(row[0]) if row else None


def find(cursor: Cursor, query: Query) -> list[IndexRow]:
    where, values = _narrowed(query)
    # Few are owed or have unread commands: to sort these is cheaper than to go through all in order. The plus signs
    # keep SQLite from doing the latter.
    order = "+updated_ms" if query.owed or query.unread else "updated_ms"
    rows: Any = cursor.execute(
        f"SELECT row FROM sessions WHERE {' AND '.join(where)} ORDER BY {order} DESC, session", values
    )
    found: list[IndexRow] = []
    skip = query.offset
    for (data,) in rows:
        row = _decode_row(data)
        if not matches(query, row):
            continue
        if skip:
            skip -= 1
            continue
        found.append(row)
        if len(found) == query.limit:
            break
    return found


def blob(cursor: Cursor, tenant: str, digest: str, start: int, length: int | None) -> bytes:
    row: Any = cursor.execute(
        "SELECT blob, size FROM blobs WHERE tenant = ? AND digest = ?", (tenant, digest)
    ).fetchone()
    if row is None:
        raise NotFound(f"tenant {tenant!r} has no blob {digest!r}")
    start = min(start, row[1])
    length = row[1] - start if length is None else min(length, row[1] - start)
    blob = cursor.connection.blob_open("main", "blobs", "data", row[0], False)
    try:
        blob.seek(start)
        return blob.read(length)
    finally:
        blob.close()


def blob_info(cursor: Cursor, tenant: str, digest: str) -> BlobInfo | None:
    row: Any = cursor.execute(
        "SELECT size, media_type FROM blobs WHERE tenant = ? AND digest = ?", (tenant, digest)
    ).fetchone()
    return BlobInfo(size=row[0], media_type=row[1]) if row else None


def _narrowed(query: Query) -> tuple[list[str], list[Any]]:
    """The conditions that SQLite can judge by its indexes."""
    where: list[str] = ["+tenant = ?" if query.unread else "tenant = ?", "row IS NOT NULL"]
    values: list[Any] = [query.tenant]
    exact: list[tuple[str, Any]] = [("agent", query.agent), ("parent", query.parent), ("root", query.root)]
    if query.owed is not None:
        where.append(f"owed = {int(query.owed)}")
    if query.unread is not None:
        where.append(f"sid {'IN' if query.unread else 'NOT IN'} (SELECT sid FROM commands WHERE taken IS NULL)")
    for column, value in exact:
        if value is not None:
            where.append(f"{column} = ?")
            values.append(value)
    if query.states:
        where.append(f"state IN ({', '.join('?' * len(query.states))})")
        values.extend(query.states)
    bounds = (
        ("until_ms <=", query.free_at_ms),
        ("next_wake_ms <=", query.wake_before_ms),
        ("updated_ms >", query.updated_after_ms),
        ("updated_ms <", query.updated_before_ms),
    )
    for condition, limit in bounds:
        if limit is not None:
            where.append(f"{condition} ?")
            values.append(limit)
    return where, values
