"""Paging in: brings back what left a session's history, as a note to its model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from windlass.events.errors import StaleEpoch, UsageError
from windlass.runtime.host.drive_tasks import DriveTasks
from windlass.runtime.host.opener import Opener
from windlass.runtime.host.slot_table import Slots
from windlass.store.base import Key

if TYPE_CHECKING:
    from windlass.runtime.context.archive_page import Page


class PageIn:
    """Brings pages back into sessions that this process can own."""

    def __init__(self, slots: Slots, opener: Opener, tasks: DriveTasks) -> None:
        self._slots = slots
        self._opener = opener
        self._tasks = tasks

    async def page_in(self, key: Key, query: str, page_ids: Sequence[str], limit: int) -> tuple[Page, ...]:
        """Brings pages back by words or by id; none if nothing fits. Raises `UsageError` if this process cannot own the
        session."""
        driven = await self._opener.ensure_driven(key)
        if driven is None:
            raise UsageError(f"nothing can be paged in from here: {await self._opener.why_not(key)}")
        pager = driven.driver.performer.rare.pager
        pages = await pager.find(query, page_ids, limit)
        if not pages:
            return ()
        fact, there = pager.paged_in(query, pages)
        try:
            await driven.owner.take(fact)
        except StaleEpoch:
            self._tasks.drop(self._slots.at(key), driven)
            return await self.page_in(key, query, page_ids, limit)
        return there
