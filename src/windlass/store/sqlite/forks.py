"""Forks in the SQLite file: a session that continues another names it, and shares its appends until it is detached."""

from __future__ import annotations

from typing import Any

import apsw

from windlass.events.errors import UsageError
from windlass.store.base import Key, Origin

from .schema import SEQ_BITS, SEQ_MASK
from .session_row import session_row


def epoch_at(cursor: apsw.Cursor, tenant: str, origin: Origin) -> int:
    """The epoch of the append at which a fork begins. The origin's history must have one that ends there, in its own
    log or in one that it continues."""
    session = session_row(cursor, Key(tenant, origin.session))
    while (above := session.origin) is not None and origin.seq <= above.seq:
        session = session_row(cursor, Key(tenant, above.session))
    base = session.sid << SEQ_BITS
    row: Any = cursor.execute(
        "SELECT last_seq, hash, epoch FROM appends WHERE place BETWEEN ? AND ? ORDER BY place DESC LIMIT 1",
        (base, base + min(origin.seq, SEQ_MASK)),
    ).fetchone()
    if row is None or tuple(row[:2]) != (origin.seq, origin.hash):
        raise UsageError(f"session {origin.session!r} has no append that ends at {origin.seq} with this hash")
    return int(row[2])


def forks(cursor: apsw.Cursor, key: Key) -> list[str]:
    """The sessions that continue this one."""
    session_row(cursor, key)
    rows: Any = cursor.execute(
        "SELECT session FROM sessions WHERE tenant = ? AND origin_session = ? ORDER BY session",
        (key.tenant, key.session),
    )
    return [row[0] for row in rows]


def detach(cursor: apsw.Cursor, key: Key) -> None:
    """Copies each origin's part, nearest first; if a fork left before its origin's own beginning, that origin has
    nothing to give."""
    session = session_row(cursor, key)
    origin, until = session.origin, session.seq
    while origin is not None:
        until = min(until, origin.seq)
        above = session_row(cursor, Key(key.tenant, origin.session))
        base = above.sid << SEQ_BITS
        cursor.execute(
            "INSERT INTO appends SELECT place - ? + ?, last_seq, at_ms, epoch, hash, data, crc FROM appends "
            "WHERE place BETWEEN ? AND ? AND last_seq <= ?",
            (base, session.sid << SEQ_BITS, base, base + SEQ_MASK, until),
        )
        origin = above.origin
    cursor.execute(
        "UPDATE sessions SET origin_session = NULL, origin_seq = NULL, origin_hash = NULL WHERE sid = ?", (session.sid,)
    )
