"""The slots of a process: made when a session is first spoken of, forgotten when nothing would be lost with them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from windlass.runtime.streams.shared_buffer import Allowance
from windlass.runtime.streams.subscribers import Subscription
from windlass.runtime.workspace.folder import FOLDERS_KEPT_MAX, Folder
from windlass.store.base import Key

from .slot import Driven, Slot

if TYPE_CHECKING:
    from windlass.runtime.streams.feeds import Feeds

LOG = logging.getLogger("windlass.owner")
PARKED_MAX = 1_000
POSTED_MAX = 1_000


class Line:
    """Slots that have something in common, in the order in which they got it last."""

    def __init__(self) -> None:
        self._slots: dict[Key, Slot] = {}

    def __len__(self) -> int:
        return len(self._slots)

    def __iter__(self) -> Iterator[Slot]:
        return iter(tuple(self._slots.values()))

    def __contains__(self, key: Key) -> bool:
        return key in self._slots

    def put(self, slot: Slot) -> None:
        self._slots.pop(slot.key, None)
        self._slots[slot.key] = slot

    def drop(self, slot: Slot) -> None:
        self._slots.pop(slot.key, None)

    def beyond(self, most: int) -> Iterator[Slot]:
        """Takes out the oldest as long as there are more than so many."""
        while len(self._slots) > most:
            yield self._slots.pop(next(iter(self._slots)))


class Slots:
    """Every session that this process knows something of."""

    def __init__(self) -> None:
        self.closed = False
        """Whether the runtime is closed, or being closed: nothing is driven any more."""
        self.draining = False
        """Whether the process is about to end: what has begun is finished, and nothing is taken up."""
        self._table: dict[Key, Slot] = {}
        self._allowance = Allowance()
        """What may be kept for the slow readers of all sessions together."""
        self.driven = Line()
        self.resting = Line()
        """Driven sessions whose task has ended, kept open for their next command."""
        self.parked = Line()
        self.timed = Line()
        """Sessions that are to be woken at a time."""
        self._posted = Line()
        self._placed = Line()
        self.feeds: Feeds | None = None
        """What tells of sessions that only somebody else drives; None if this process may drive them."""

    def __len__(self) -> int:
        return len(self._table)

    def at(self, key: Key) -> Slot:
        """The slot of a session, made if there is none. Use it before the next await, or hold it by `locked`."""
        slot = self._table.get(key)
        if slot is None:
            slot = self._table[key] = Slot(key, self._allowance, closed=self.closed)
        return slot

    def get(self, key: Key) -> Slot | None:
        """The slot of a session, if there is one."""
        return self._table.get(key)

    def asked_for(self, key: Key) -> bool:
        """Whether a session was asked for by name, or one above it was."""
        return any(slot.asked_for for slot in self._upwards(key))

    def _upwards(self, key: Key) -> Iterator[Slot]:
        """The slots of a session and of those above it, as far as there are any."""
        pieces = key.session.split("~")
        for end in range(len(pieces), 0, -1):
            slot = self._table.get(Key(key.tenant, "~".join(pieces[:end])))
            if slot is not None:
                yield slot

    def driven_at(self, key: Key) -> Driven | None:
        """What drives a session here, if anything does."""
        slot = self._table.get(key)
        return slot.driven if slot is not None else None

    def why_parked(self, key: Key) -> str:
        """Why a session is parked; empty if it is not."""
        slot = self._table.get(key)
        return slot.parked if slot is not None else ""

    def forget(self, slot: Slot) -> None:
        """Drops a slot if nothing would be lost with it. The only way in which slots go."""
        if slot.empty and self._table.get(slot.key) is slot:
            del self._table[slot.key]

    @asynccontextmanager
    async def locked(self, key: Key) -> AsyncIterator[Slot]:
        """A session's slot, for whoever opens the session or lets it go: one at a time."""
        slot = self.at(key)
        slot.holders += 1
        try:
            async with slot.lock:
                yield slot
        finally:
            slot.holders -= 1
            self.forget(slot)

    async def quiet(self, timeout_s: float) -> None:
        """Waits until nobody opens a session or lets one go, for so long at most."""
        held = [slot.lock for slot in self._table.values() if slot.lock.locked()]
        if held:
            _, late = await asyncio.wait([asyncio.ensure_future(_passed(lock)) for lock in held], timeout=timeout_s)
            for task in late:
                task.cancel()

    def close_hubs(self) -> None:
        """Ends all readers."""
        for slot in tuple(self._table.values()):
            slot.hub.close()

    # --- readers ---

    def subscribe(self, key: Key, *, live: bool = True) -> Subscription:
        """A listener to a session. Give it back by `leave`."""
        hub = self.at(key).hub
        listener = hub.subscribe(live=live)
        if self.feeds is not None and not self.closed:
            self.feeds.begin(key, hub)
        return listener

    def leave(self, key: Key, listener: Subscription) -> None:
        """A reader goes."""
        listener.close()
        slot = self._table.get(key)
        if slot is not None:
            if self.feeds is not None and not slot.hub.listening:
                self.feeds.leave(key)
            self.forget(slot)

    def patience_s(self, key: Key, poll_s: float) -> float:
        """How long a reader waits for word of a session that is not driven here before it looks at the log."""
        return self.feeds.patience_s(key, poll_s) if self.feeds is not None else poll_s

    # --- what is true of a session ---

    def seat(self, slot: Slot, driven: Driven) -> None:
        """A session is driven here from now on, whatever kept it from that before."""
        slot.driven = driven
        slot.held_up = ""
        slot.parked = ""
        self.parked.drop(slot)
        self.driven.put(slot)

    def unseat(self, slot: Slot) -> None:
        """It is not any more."""
        slot.driven = None
        self.driven.drop(slot)
        self.resting.drop(slot)

    def park(self, key: Key, reason: str) -> None:
        """Nothing here can resume a session. A runtime that is closed parks nothing: work ends with it."""
        if self.closed:
            return
        LOG.error("session %s is parked: %s", key.session, reason)
        slot = self.at(key)
        slot.parked = reason
        self.parked.put(slot)
        for oldest in self.parked.beyond(PARKED_MAX):
            oldest.parked = ""
            self.forget(oldest)
        for above in self._upwards(key):  # whoever waits for one of them may wait for this one
            if above.driven is not None:
                above.driven.owner.rest.tell()
                above.hub.look()

    def paused(self) -> dict[Key, str]:
        """The sessions that wait for room in the store, each with what it says."""
        held_up = {slot.key: slot.held_up for slot in self._table.values() if slot.held_up}
        driven = {slot.key: slot.driven.owner.paused for slot in self.driven if slot.driven is not None}
        return {**held_up, **{key: reason for key, reason in driven.items() if reason}}

    def post(self, key: Key, command_id: str) -> None:
        """Notes what was left for another process last."""
        slot = self.at(key)
        slot.posted = command_id
        self._posted.put(slot)
        for oldest in self._posted.beyond(POSTED_MAX):
            oldest.posted = None
            self.forget(oldest)

    def was_taken(self, key: Key, command_id: str) -> None:
        """Another process has taken what was left for it."""
        slot = self._table.get(key)
        if slot is not None and slot.posted == command_id:
            slot.posted = None
            self._posted.drop(slot)
            self.forget(slot)

    def place(self, key: Key, folder: Folder) -> None:
        """Notes where a session works."""
        slot = self.at(key)
        slot.folder = folder
        self._placed.put(slot)
        for oldest in self._placed.beyond(FOLDERS_KEPT_MAX):
            oldest.folder = None
            self.forget(oldest)

    def wake(self, slot: Slot, at_ms: int | None) -> None:
        """Notes when a session is to be woken, if at all."""
        slot.wake_at_ms = at_ms
        if at_ms is None:
            self.timed.drop(slot)
            self.forget(slot)
        else:
            self.timed.put(slot)


async def _passed(lock: asyncio.Lock) -> None:
    async with lock:
        pass
