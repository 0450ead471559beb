"""A tree of sessions as the index lists it: who stands below whom, in the order of their calls. Only reads."""

from __future__ import annotations

import re

from windlass.store.base import IndexRow, Key, Query, Store

TREE_MAX = 10_000
"""How many sessions of one tree are looked at; the oldest ones of a larger tree are left out."""
_PIECE = re.compile(r"([a-z]*)([0-9]*)(?:\.([0-9]+))?(.*)", re.DOTALL)


async def rows_below(store: Store, key: Key) -> list[IndexRow]:
    """The sessions below one, at any depth, each behind the one that started it. One that has not begun has no row."""
    own = await store.index.get(key)
    root = own.root if own is not None and own.root else key.session
    rows = await store.index.find(Query(tenant=key.tenant, root=root, limit=TREE_MAX))
    below = [row for row in rows if row.session.startswith(f"{key.session}~")]
    return sorted(below, key=lambda row: place_of(scope_of(key.session, row.session)))


def scope_of(above: str, session: str) -> str:
    """The place of a session below another: the calls that lead to it; empty for the other itself."""
    return session.removeprefix(above).removeprefix("~")


def key_at(key: Key, scope: str) -> Key:
    """The session at a place below another."""
    return Key(key.tenant, f"{key.session}~{scope}") if scope else key


def root_of(session: str) -> str:
    """The root of the tree that a session stands in. A fork stands in none but its own."""
    return session.partition("~")[0]


def place_of(scope: str) -> tuple[tuple[str, int, int, str], ...]:
    """What places are ordered by: the calls that lead there, older ones first, and a session before those below it."""
    return tuple(_piece(one) for one in scope.split("~")) if scope else ()


def _piece(origin: str) -> tuple[str, int, int, str]:
    match = _PIECE.fullmatch(origin)
    assert match is not None  # every text has this form
    return match[1], int(match[2] or 0), int(match[3] or 0), match[4]
