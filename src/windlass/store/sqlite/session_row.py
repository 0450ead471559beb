"""A session's row in the SQLite file, as far as judging a write or a claim needs it."""

from __future__ import annotations

from typing import Any

import apsw
import msgspec

from windlass.events.errors import NotFound
from windlass.store.base import Head, Key, Origin
from windlass.store.rules.lease_expiry import Lease

_COLUMNS = "SELECT sid, seq, hash, epoch, owner, until_ms, origin_session, origin_seq, origin_hash FROM sessions"


class SessionRow(msgspec.Struct, frozen=True):
    """Where the session's log ends, whose it is, and what it continues."""

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


def lookup(cursor: apsw.Cursor, key: Key) -> SessionRow | None:
    """The session, if there is one."""
    row: Any = cursor.execute(f"{_COLUMNS} WHERE tenant = ? AND session = ?", (key.tenant, key.session)).fetchone()
    return SessionRow(*row) if row else None


def session_row(cursor: apsw.Cursor, key: Key) -> SessionRow:
    """The session. Raises `NotFound`."""
    row = lookup(cursor, key)
    if row is None:
        raise NotFound(f"tenant {key.tenant!r} has no session {key.session!r}")
    return row
