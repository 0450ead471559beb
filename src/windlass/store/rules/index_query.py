"""Which index rows a query asks for. One definition for every store; a store may narrow down first, never differ."""

from __future__ import annotations

from collections.abc import Iterable

from windlass.events.errors import UsageError
from windlass.store.base import IndexRow, Query

from .ids import check_id
from .session_ledger import Ledger

FIND_LIMIT_MAX = 10_000


def check_query(query: Query) -> None:
    """Refuses bounds that make no sense."""
    check_id("tenant", query.tenant)
    if not 0 < query.limit <= FIND_LIMIT_MAX or query.offset < 0:
        raise UsageError(f"limit must be 1 to {FIND_LIMIT_MAX} and offset not negative: {query.limit}, {query.offset}")


def matches(query: Query, row: IndexRow) -> bool:
    """Whether a row of the query's tenant is asked for."""
    return (
        row.tenant == query.tenant
        and _fields_match(query, row)
        and _times_match(query, row)
        and _words_match(query, row)
    )


def _fields_match(query: Query, row: IndexRow) -> bool:
    if query.states and row.state not in query.states:
        return False
    for wanted, has in ((query.agent, row.agent), (query.parent, row.parent), (query.root, row.root)):
        if wanted is not None and wanted != has:
            return False
    return query.owed is None or query.owed == row.owed


def _times_match(query: Query, row: IndexRow) -> bool:
    if query.wake_before_ms is not None and (row.next_wake_ms is None or row.next_wake_ms > query.wake_before_ms):
        return False
    if query.updated_after_ms is not None and row.updated_ms <= query.updated_after_ms:
        return False
    return query.updated_before_ms is None or row.updated_ms < query.updated_before_ms


def _words_match(query: Query, row: IndexRow) -> bool:
    if any(row.metadata.get(name) != value for name, value in query.metadata.items()):
        return False
    if query.text is None:
        return True
    needle = query.text.casefold()
    return any(needle in text.casefold() for text in (row.session, row.title, row.agent))


def newest_first(row: IndexRow) -> tuple[int, str]:
    """The order of results; the id makes it total, so that pages neither overlap nor skip."""
    return (-row.updated_ms, row.session)


def ledger_fits(query: Query, ledger: Ledger) -> bool:
    """Whether the write side of a session is as asked for: its inbox and its lease."""
    if query.unread is not None and query.unread != bool(ledger.waiting):
        return False
    return query.free_at_ms is None or ledger.until_ms <= query.free_at_ms


def asks_ledger(query: Query) -> bool:
    """Whether the rows alone do not say who fits."""
    return query.unread is not None or query.free_at_ms is not None


def select(query: Query, rows: Iterable[IndexRow]) -> list[IndexRow]:
    """The page of rows that the query asks for, out of all. What only a ledger knows was looked at before."""
    check_query(query)
    asked_for = sorted((row for row in rows if matches(query, row)), key=newest_first)
    return asked_for[query.offset : query.offset + query.limit]
