"""Sessions and logs as they are read: a list, how one stands, pages of records. Only reads."""

from __future__ import annotations

from typing import Any

import msgspec

from windlass.protocol.wire_events import record_bytes
from windlass.runtime.api.runtime import Runtime
from windlass.runtime.api.session import Session
from windlass.store.base import IndexRow

from .arguments import Find
from .desk import Words
from .outcome import outcome_of

PAGE_BYTES_MAX = 256 * 1024
"""Of records in one answer; a page has one at the least."""


async def find(runtime: Runtime, asked: Find) -> dict[str, Any]:
    """Sessions, the last changed first."""
    rows = await runtime.sessions(
        states=(asked.state,) if asked.state is not None else (),
        agent=asked.agent,
        text=asked.text,
        limit=asked.limit,
    )
    return {"sessions": [row_view(row) for row in rows]}


def row_view(row: IndexRow) -> dict[str, Any]:
    """What the index says of a session."""
    plain: dict[str, Any] = msgspec.to_builtins(row, enc_hook=str)
    return {**plain, "state": row.state}


async def look(session: Session, words: Words) -> dict[str, Any]:
    """How a session stands, whether it has had a run or not."""
    row = await session.runtime.store.index.get(session.key) or IndexRow(session=session.session_id, state="new")
    state = await session.state()
    result = await session.result() if state.run.run_id and not state.active else None
    outcome: dict[str, Any] = msgspec.to_builtins(await outcome_of(session, result, words), enc_hook=str)
    if result is None and not state.active:
        outcome["status"] = row.state
    return {**outcome, "cursor": await session.cursor(), "session": row_view(row)}


async def read_log(session: Session, after: str | None, limit: int) -> dict[str, Any]:
    """A page of a log behind a cursor. Raises `CursorMismatch` for a cursor of another log."""
    records: list[Any] = []
    size, more, cursor = 0, False, after or ""
    async for record in session.records(after=after or None):
        data = record_bytes(record)
        if len(records) == limit or (records and size + len(data) > PAGE_BYTES_MAX):
            more = True
            break
        size += len(data)
        records.append(msgspec.json.decode(data))
        cursor = record.cursor
    return {"records": records, "cursor": cursor, "more": more}
