"""An archive of the agent's own: it is slow, fails, forgets, and gives what are no pages. It outlives processes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from windlass.runtime.context.archive_page import Page
from windlass.store.base import Key

from .chance import SELDOM
from .loop import ACTOR

if TYPE_CHECKING:
    from .world import World

SLOW_MS = (50, 2_000, 60_000)
"""The last is longer than an archive is waited for."""


class SimArchive:
    """Keeps pages in memory, when it feels like it."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._kept: dict[Key, dict[str, Page]] = {}

    async def _reach(self, what: str) -> None:
        world, actor = self._world, ACTOR.get()
        world.step(actor, f"archive {what}")
        await world.pause(actor, "archive", risk=SELDOM)
        if world.chance.hit(world.rates.archive_slow):
            await asyncio.sleep(world.chance.one(SLOW_MS) / 1000)
        if world.chance.hit(world.rates.archive_fails):
            if world.chance.hit(0.3):
                self._kept.clear()
            raise OSError("the archive is on fire")

    async def put(self, session: Key, pages: Sequence[Page]) -> None:
        await self._reach("put")
        self._world.watch.archived(session, pages)
        self._kept.setdefault(session, {}).update({page.page_id: page for page in pages})

    async def search(self, session: Key, query: str, limit: int) -> Sequence[Page]:
        await self._reach("search")
        if self._world.chance.hit(0.2 * self._world.rates.archive_fails):
            nonsense: Any = ["not a page"]
            return list(nonsense)
        pages = [page for page in self._kept.get(session, {}).values() if query in page.text]
        return pages[-limit:]

    async def get(self, session: Key, page_ids: Sequence[str]) -> Sequence[Page]:
        await self._reach("get")
        kept = self._kept.get(session, {})
        return [kept[page_id] for page_id in page_ids if page_id in kept]
