"""Snapshots in the SQLite file."""

from __future__ import annotations

from typing import Any

import apsw

from windlass.store.base import SNAPSHOTS_KEPT, Key, Snapshot

from .forks import forks
from .schema import SEQ_MASK
from .session_row import session_row


def put_snapshot(cursor: apsw.Cursor, key: Key, snapshot: Snapshot) -> None:
    """Keeps a snapshot and drops those that are too old."""
    sid = session_row(cursor, key).sid
    cursor.execute(
        "INSERT OR REPLACE INTO snapshots(sid, seq, hash, state_version, data) VALUES(?, ?, ?, ?, ?)",
        (sid, snapshot.seq, snapshot.hash, snapshot.state_version, snapshot.data),
    )
    cursor.execute(
        "DELETE FROM snapshots WHERE sid = ? AND seq NOT IN "
        "(SELECT seq FROM snapshots WHERE sid = ? ORDER BY seq DESC LIMIT ?)",
        (sid, sid, SNAPSHOTS_KEPT),
    )


def get_snapshot(cursor: apsw.Cursor, key: Key, at_most: int | None) -> Snapshot | None:
    """The newest snapshot, at or before a seq."""
    sid = session_row(cursor, key).sid
    row: Any = cursor.execute(
        "SELECT seq, hash, state_version, data FROM snapshots WHERE sid = ? AND seq <= ? ORDER BY seq DESC LIMIT 1",
        (sid, SEQ_MASK if at_most is None else at_most),
    ).fetchone()
    return Snapshot(seq=row[0], hash=row[1], state_version=row[2], data=row[3]) if row else None


def drop_snapshots(cursor: apsw.Cursor, key: Key) -> int:
    """Removes all of a session's and says how many there were."""
    sid = session_row(cursor, key).sid
    return len(cursor.execute("DELETE FROM snapshots WHERE sid = ? RETURNING seq", (sid,)).fetchall())


def drop_snapshots_of_tree(cursor: apsw.Cursor, key: Key) -> None:
    """Removes those of a session and of all that continue it."""
    drop_snapshots(cursor, key)
    for fork in forks(cursor, key):
        drop_snapshots_of_tree(cursor, Key(key.tenant, fork))
