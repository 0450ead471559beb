"""Sessions that somebody else drives: what their host does for those who only ask.

A store that says so has an attribute `elsewhere`. Everything that is read, and every command, goes through the store;
what takes an owner to do (to begin a session, to fork one, to erase) and what is being written go through this.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from .base import Key, Store


class Elsewhere(Protocol):
    """The host of sessions, asked from outside."""

    async def begin(
        self, key: Key, agent: str, *, title: str, metadata: Mapping[str, str], labels: Sequence[str]
    ) -> None:
        """Begins a session of an agent that is served there, or finds it."""
        ...

    async def fork(self, key: Key, branch: Key, *, at_seq: int | None, reopen: str | None) -> None:
        """Makes a session that continues another one."""
        ...

    async def erase(self, key: Key, seq: int, *, why: str) -> None:
        """Erases the content of one record."""
        ...

    async def agents(self, tenant: str) -> list[str]:
        """The names of the agents that are served there."""
        ...

    def follow(self, key: Key, after: str) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """What happens behind a cursor, as server-sent events. Raises `OSError` when it breaks off."""
        ...


def elsewhere_of(store: Store) -> Elsewhere | None:
    """Who drives the sessions of a store; None if whoever opens it may."""
    elsewhere: Elsewhere | None = getattr(store, "elsewhere", None)
    return elsewhere
