"""The store of a server as those reach it who ask for it as such: a handle of its own, and one that only watches."""

from __future__ import annotations

import asyncio

from windlass.events.errors import UsageError
from windlass.store import open_store
from windlass.store.base import Store

IN_MEMORY = ":memory:"


class StoreDoor:
    """Opens the store a second time when it is first asked for, so that no tenant's runtime must run for that."""

    def __init__(self, place: str) -> None:
        self._place = place
        self._opening = asyncio.Lock()
        self._watching = asyncio.Lock()
        self._store: Store | None = None
        self._watched: Store | None = None
        self._changes = 0

    async def store(self) -> Store:
        """A handle on the store. Raises `UsageError` if it is in memory, where each tenant has its own."""
        async with self._opening:
            if self._store is None:
                self._store = await self._opened()
            return self._store

    async def changes(self) -> int:
        """A number that grows whenever something was written, by whomever. What the other handle writes is another's
        to this one, so a change of one client is news to all of them."""
        async with self._watching:
            if self._watched is None:
                self._watched = await self._opened()
            self._changes += await self._watched.changed()
            return self._changes

    async def _opened(self) -> Store:
        if self._place == IN_MEMORY:
            raise UsageError("this server keeps its sessions in memory: there is no store that others could work on")
        return await open_store(self._place)

    async def close(self) -> None:
        """Closes both handles."""
        for store in (self._store, self._watched):
            if store is not None:
                await store.close()
