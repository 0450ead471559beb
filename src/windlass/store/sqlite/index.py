"""The index in the SQLite file: columns of a session's row, with indexes of SQLite over what is asked most."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import apsw
import msgspec

from windlass.store.base import DAMAGED, IndexRow, Key, Query
from windlass.store.rules.ids import check_key
from windlass.store.rules.index_query import check_query, matches, select

from .database import Database
from .schema import SEQ_BITS
from .session_row import session_row

SET_COLUMNS = "state = ?, owed = ?, next_wake_ms = ?, agent = ?, parent = ?, root = ?, updated_ms = ?, row = ?"

SALVAGE_MAX = 100_000
"""How many sessions of a damaged table are looked up one by one."""

_encode_row = msgspec.json.Encoder().encode
_decode_row = msgspec.json.Decoder(IndexRow).decode


class SqliteIndex:
    """The index of the store over one SQLite file."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def put(self, row: IndexRow) -> None:
        check_key(Key(row.tenant, row.session))
        await self._database.write(lambda cursor: _put(cursor, row))

    async def get(self, key: Key) -> IndexRow | None:
        check_key(key)
        return self._database.read(lambda cursor: _get(cursor, key))

    async def find(self, query: Query) -> list[IndexRow]:
        check_query(query)
        return await self._database.read_long(lambda cursor: _find(cursor, query))


def columns(row: IndexRow) -> tuple[object, ...]:
    """The values of `SET_COLUMNS`, which an append sets in the statement that moves the head."""
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


def _put(cursor: apsw.Cursor, row: IndexRow) -> None:
    sid = session_row(cursor, Key(row.tenant, row.session)).sid
    cursor.execute(f"UPDATE sessions SET {SET_COLUMNS} WHERE sid = ?", (*columns(row), sid))


def _get(cursor: apsw.Cursor, key: Key) -> IndexRow | None:
    row: Any = cursor.execute(
        "SELECT row FROM sessions WHERE tenant = ? AND session = ? AND row IS NOT NULL", (key.tenant, key.session)
    ).fetchone()
    return _row(key.tenant, key.session, row[0]) if row else None


def _row(tenant: str, session: str, data: bytes) -> IndexRow:
    """The row in its stored form; that of a session whose row cannot be read says so, and what it is called."""
    try:
        row = _decode_row(data)
    except (msgspec.DecodeError, UnicodeError, TypeError):
        row = None
    if row is None or (row.tenant, row.session) != (tenant, session):
        return IndexRow(session=session, tenant=tenant, state=DAMAGED)
    return row


def _find(cursor: apsw.Cursor, query: Query) -> list[IndexRow]:
    try:
        return _scanned(cursor, query)
    except (apsw.CorruptError, UnicodeDecodeError):
        return select(query, _salvaged(cursor, query.tenant))


def _salvaged(cursor: apsw.Cursor, tenant: str) -> Iterator[IndexRow]:
    """The rows of a table that cannot be gone through any more, each looked up by its number; one that cannot be read
    says so. Raises what SQLite raises if not even the numbers can be told."""
    highest: Any = cursor.execute(f"SELECT max(place) >> {SEQ_BITS} FROM appends").fetchone()
    for sid in range(1, min(highest[0] or 0, SALVAGE_MAX) + 1):
        try:
            row: Any = cursor.execute("SELECT tenant, session, row FROM sessions WHERE sid = ?", (sid,)).fetchone()
        except (apsw.CorruptError, UnicodeDecodeError):
            yield IndexRow(session=f"number {sid}, whose name cannot be read", tenant=tenant, state=DAMAGED)
            continue
        if row is not None and row[0] == tenant and row[2] is not None:
            yield _row(tenant, row[1], row[2])


def _scanned(cursor: apsw.Cursor, query: Query) -> list[IndexRow]:
    where, values = _narrowed(query)
    # Few are owed or have unread commands: to sort these is cheaper than to go through all in order. The plus signs
    # keep SQLite from doing the latter.
    order = "+updated_ms" if query.owed or query.unread else "updated_ms"
    rows: Any = cursor.execute(
        f"SELECT session, row FROM sessions WHERE {' AND '.join(where)} ORDER BY {order} DESC, session", values
    )
    page: list[IndexRow] = []
    skip = query.offset
    for session, data in rows:
        row = _row(query.tenant, session, data)
        if not matches(query, row):
            continue
        if skip:
            skip -= 1
            continue
        page.append(row)
        if len(page) == query.limit:
            break
    return page


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
