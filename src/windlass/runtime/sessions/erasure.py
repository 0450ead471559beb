"""Erasure: the content of an event is replaced by a tombstone, and the log says who did it and why."""

from __future__ import annotations

from windlass.events.errors import NotFound, StaleEpoch, UsageError
from windlass.events.sessions import ContentErased
from windlass.runtime.host.drive_tasks import DriveTasks
from windlass.runtime.host.opener import Opener
from windlass.runtime.host.slot_table import Slots
from windlass.store.base import Key, Store
from windlass.store.driven_elsewhere import elsewhere_of


class Erasure:
    """Erases contents of sessions that this process can own."""

    def __init__(self, store: Store, slots: Slots, opener: Opener, tasks: DriveTasks) -> None:
        self._elsewhere = elsewhere_of(store)
        self._slots = slots
        self._opener = opener
        self._tasks = tasks

    async def erase(self, key: Key, seq: int, *, by: str, why: str) -> None:
        """Erases the content of one event. Raises `UsageError` if the session is at work or driven elsewhere,
        `NotFound` if its own log has no such event."""
        if self._elsewhere is not None:
            await self._elsewhere.erase(key, seq, why=why)
            return
        driven = await self._opener.ensure_driven(key)
        if driven is None:
            raise UsageError(f"nothing can be erased from here: {await self._opener.why_not(key)}")
        if seq < 1:
            raise NotFound(f"session {key.session!r} has no event {seq}: they are numbered from 1")
        try:
            await driven.owner.erase(seq, by=by, why=why)
            await driven.owner.take(ContentErased(seq=seq, by=by, why=why))
        except StaleEpoch:
            self._tasks.drop(self._slots.at(key), driven)
            await self.erase(key, seq, by=by, why=why)
