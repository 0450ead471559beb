"""What the sessions of a tree are called among themselves: by place, by agent, numbered if an agent has several."""

from __future__ import annotations

from collections import defaultdict

from windlass.events.errors import Refused
from windlass.store.base import IndexRow, Key, Store

from .tree_rows import place_of, rows_below, scope_of

ROOT, PARENT = "root", "parent"
TOLD_MAX = 40
"""How many names are told at once."""


class TreeNames:
    """The names of the sessions of one tree. Those of one agent are numbered in the order in which they began, also
    those that have ended, so that a number keeps its meaning."""

    def __init__(self, root: str, rows: list[IndexRow]) -> None:
        self._root = root
        self._rows = rows
        self._agents: dict[str, list[str]] = defaultdict(list)
        for row in sorted(rows, key=lambda row: (row.created_ms, place_of(scope_of(root, row.session)))):
            self._agents[row.agent].append(row.session)
        alone = {agent: sessions[0] for agent, sessions in self._agents.items() if len(sessions) == 1}
        numbered = {
            f"{agent}-{number}": session
            for agent, sessions in self._agents.items()
            for number, session in enumerate(sessions, start=1)
            if len(sessions) > 1
        }
        self._by_name = numbered | alone
        self._names = {session: name for name, session in self._by_name.items()}

    def one(self, to: str, own: str, parent: str | None) -> str:
        """The session that is meant. Raises `Refused` with the names that there are if none is, or several are."""
        session_id = self._found(to, parent)
        if session_id == own:
            raise Refused("not_found", f"{to!r} is this session itself. {self.told(own)}")
        if session_id is not None:
            return session_id
        several = ", ".join(self.shown(session) for session in self._agents.get(to, ())[:TOLD_MAX])
        if several:
            raise Refused("not_found", f"several sessions are run by {to!r}: {several}")
        raise Refused("not_found", f"no session of this tree is called {to!r}. {self.told(own)}")

    def meant(self, to: str, own: str, parent: str | None) -> list[str]:
        """All that the words can have meant, now or before there were so many."""
        session_id = self._found(to, parent)
        others = (*self._agents.get(to, ()), *self._agents.get(to.rpartition("-")[0], ()))
        return [one for one in dict.fromkeys((session_id, *others)) if one is not None and one != own]

    def _found(self, to: str, parent: str | None) -> str | None:
        if to == ROOT:
            return self._root
        if to == PARENT:
            return parent
        for row in self._rows:
            if to in (row.session, scope_of(self._root, row.session)):
                return row.session
        return self._by_name.get(to)

    def shown(self, session: str) -> str:
        """A session as others are told of it: its name, and its place."""
        place = scope_of(self._root, session) or ROOT
        name = self._names.get(session)
        return f"{name} ({place})" if name is not None else place

    def told(self, own: str) -> str:
        """The names of the others that are still there, in words."""
        there = [row for row in self._rows if row.session != own and not _has_ended(row)]
        if not there:
            return "There is no other session in this tree"
        shown = [self.shown(row.session) for row in there[:TOLD_MAX]]
        more = f" and {len(there) - TOLD_MAX} more" if len(there) > TOLD_MAX else ""
        return f"There are {', '.join(shown)}{more}"


def _has_ended(row: IndexRow) -> bool:
    return row.parent is not None and row.state == "idle" and not row.owed


async def names_in(store: Store, root: Key) -> TreeNames:
    """The names of the tree below a root, as the index lists it."""
    top = await store.index.get(root)
    return TreeNames(root.session, [*([top] if top is not None else []), *await rows_below(store, root)])
