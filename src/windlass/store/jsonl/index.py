"""The index in the directory: the newest row is in the log itself, and a copy beside it saves reading the log."""

from __future__ import annotations

import pathlib

from windlass.events.errors import KernelError, UsageError
from windlass.store.base import DAMAGED, IndexRow, Key, Query
from windlass.store.rules.ids import check_key
from windlass.store.rules.index_query import asks_ledger, check_query, ledger_fits, matches, select

from .directory import Directory
from .disk import SHORT_ERRNOS
from .plain_files import refuse_links
from .session import about_in, is_session
from .small_files import About, KeptIndex, decoded
from .writer import DirectoryWriter


class JsonlIndex:
    """The index of the store over a directory."""

    def __init__(self, writer: DirectoryWriter) -> None:
        self._writer = writer

    async def put(self, row: IndexRow) -> None:
        key = check_key(Key(row.tenant, row.session))
        await self._writer.do(lambda directory: directory.view(key).put_index(row))

    async def get(self, key: Key) -> IndexRow | None:
        check_key(key)
        return await self._writer.do(_get, key)

    async def find(self, query: Query) -> list[IndexRow]:
        check_query(query)
        return await self._writer.do(lambda directory: select(query, _rows(directory, query)), heavy=True)


def _get(directory: Directory, key: Key) -> IndexRow | None:
    view = directory.lookup(key)
    return view.index if view else None


def _rows(directory: Directory, query: Query) -> list[IndexRow]:
    """The rows of a tenant's sessions whose ledgers fit; logs are read only if they hold a newer row than the kept one,
    and for a query that asks for what only a ledger knows. A session that cannot be read has a row that says so."""
    rows = []
    sessions = directory.tenant(query.tenant) / "sessions"
    refuse_links(directory.root, sessions)
    for path in sorted(sessions.glob("[!.]*")):
        try:
            row = _row(directory, path)
            fits = row is not None and (not asks_ledger(query) or _fits(directory, query, row, path))
        except (KernelError, UsageError, OSError) as error:
            if isinstance(error, OSError) and error.errno in SHORT_ERRNOS:
                raise  # this is not about the session
            row, fits = _damaged(query.tenant, path), True
        if row is not None and fits:
            rows.append(row)
    return rows


def _fits(directory: Directory, query: Query, row: IndexRow, path: pathlib.Path) -> bool:
    """Whether a session is asked for. An inbox that nobody ever wrote to is not opened to see that it is empty."""
    if not matches(query, row) or (query.unread and not (path / "inbox.jsonl").stat().st_size):
        return False
    return ledger_fits(query, directory.view(Key(row.tenant, row.session)).ledger)


def _row(directory: Directory, path: pathlib.Path) -> IndexRow | None:
    if not is_session(path):
        return None
    about = about_in(path)
    key = Key(about.tenant, about.session)
    kept = decoded(path / "index.json", KeptIndex)
    if kept is not None and kept.is_of(key) and kept.log_end == (path / "log.jsonl").stat().st_size:
        return kept.row
    return directory.view(key).index


def _damaged(tenant: str, path: pathlib.Path) -> IndexRow:
    try:
        about = decoded(path / "session.json", About)
    except OSError:  # not even that: the folder's name is left, and the other sessions are told of as ever
        about = None
    named = about is not None and about.is_at(path)
    return IndexRow(session=about.session if named and about else path.name, tenant=tenant, state=DAMAGED)
