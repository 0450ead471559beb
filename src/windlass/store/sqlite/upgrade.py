"""Bringing a file of an older version up to date, in one transaction. Version 1 had no checksums of rows."""

from __future__ import annotations

from typing import Any

import apsw

from windlass.events.errors import Damaged
from windlass.events.stored import record
from windlass.events.stored.record import GENESIS
from windlass.store.base import InboxCommand

from .append_row import checksum
from .inbox import command_checksum
from .schema import SCHEMA_VERSION, SEQ_BITS, SEQ_MASK


def upgrade(connection: apsw.Connection, version: int) -> None:
    """Brings the tables up to date, within the caller's transaction. Every append is verified before its checksum is
    written: what is damaged must not be made to look whole."""
    if version < 2:
        _add_checksums(connection)
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


def _add_checksums(connection: apsw.Connection) -> None:
    connection.execute("ALTER TABLE appends ADD COLUMN crc INTEGER NOT NULL DEFAULT 0")
    connection.execute("ALTER TABLE commands ADD COLUMN crc INTEGER")
    sessions: Any = connection.execute("SELECT sid, origin_hash FROM sessions").fetchall()
    for sid, origin_hash in sessions:
        _sum_session(connection, sid, origin_hash or GENESIS)
    commands: Any = connection.execute("SELECT sid, command_id, at_ms, data FROM commands WHERE taken IS NULL")
    for sid, command_id, at_ms, data in commands.fetchall():
        crc = command_checksum(InboxCommand(command_id=command_id, at_ms=at_ms, data=data))
        connection.execute("UPDATE commands SET crc = ? WHERE sid = ? AND command_id = ?", (crc, sid, command_id))


def _sum_session(connection: apsw.Connection, sid: int, chain: str) -> None:
    base = sid << SEQ_BITS
    places: Any = connection.execute("SELECT place FROM appends WHERE place BETWEEN ? AND ?", (base, base + SEQ_MASK))
    for (place,) in places.fetchall():
        data: Any = connection.execute("SELECT data FROM appends WHERE place = ?", (place,)).fetchone()
        try:
            sealed = record.resealed(data[0], prev_hash=chain)
        except Damaged:
            return  # without its checksum it is refused when it is read, and the other sessions are not
        connection.execute("UPDATE appends SET crc = ? WHERE place = ?", (checksum(sealed), place))
        chain = sealed.hash
