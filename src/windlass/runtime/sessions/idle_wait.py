"""Waiting until a session rests: no run is active, and what was sent from here has been taken.

What is driven here says itself when it rests; what another process drives is looked up in the log.
"""

from __future__ import annotations

import asyncio

from windlass.events.runs import Terminal
from windlass.kernel.parts.children import waited_for
from windlass.runtime.api.open_things import StillBusy
from windlass.runtime.api.result import Parked
from windlass.runtime.bind.agent_registry import BoundAgents
from windlass.runtime.host.ports import Ports
from windlass.runtime.host.slot_table import Slots
from windlass.runtime.streams.event_streams import closed_meanwhile
from windlass.runtime.streams.log_reader import LogReader
from windlass.runtime.streams.record import Record
from windlass.runtime.streams.subscribers import Subscription
from windlass.store.base import Key, Store

from .session_views import SessionViews


class Rest:
    """Waits for sessions to come to rest."""

    def __init__(
        self,
        store: Store,
        slots: Slots,
        log: LogReader,
        views: SessionViews,
        agents: BoundAgents,
        ports: Ports,
        poll_ms: int,
    ) -> None:
        self._store = store
        self._slots = slots
        self._log = log
        self._views = views
        self._agents = agents
        self._ports = ports
        self._poll_ms = poll_ms

    async def wait(self, key: Key, *, timeout_ms: int | None = None) -> None:
        """Waits until no run is active. Raises `StillBusy`, which names what runs, if that takes longer than given,
        and `Parked` if nothing here can resume it."""
        if timeout_ms is None:
            await self._idle(key)
            return
        deadline = asyncio.timeout(timeout_ms / 1000)
        try:
            async with deadline:
                await self._idle(key)
        except TimeoutError:
            if not deadline.expired():
                raise
            why = f"is still at work after {timeout_ms} ms"
            raise StillBusy(key.session, await self._views.waiting(key), why) from None

    async def _idle(self, key: Key) -> None:
        await self._idle_here(key)
        await self._idle_posted(key)
        while await self._views.works(key):
            listener = self._slots.subscribe(key, live=False)
            try:
                while await self._views.works(key):
                    self.check_parked(key)
                    if not await self._until_ended(key, listener):
                        break
                else:
                    return
            finally:
                self._slots.leave(key, listener)
            if not listener.lagging:
                raise closed_meanwhile(key)

    async def _idle_here(self, key: Key) -> None:
        """What is driven here says itself when it rests; nobody has to hear every record for that."""
        while (
            (driven := self._slots.driven_at(key)) is not None
            and await self._views.works(key)
            and not self.why_parked(key)
        ):
            await driven.owner.rest.wait()
            if self._slots.closed and await self._views.works(key):
                raise closed_meanwhile(key)

    async def _idle_posted(self, key: Key) -> None:
        """What was sent from here is work too, as long as there is somebody to take it: if its code is here, this
        process drives it, unless another one does."""
        slot = self._slots.get(key)
        if slot is not None and slot.posted is not None:
            row = await self._store.index.get(key)
            if row is not None and row.agent in self._agents:
                await self.taken(key)

    async def taken(self, key: Key) -> None:
        """Waits until whoever drives the session has taken what was sent from here: before that, how its last run ended
        is no answer to it."""
        while (slot := self._slots.get(key)) is not None and (command_id := slot.posted) is not None:
            if await self._log.taken_at(key, command_id) is not None:
                self._slots.was_taken(key, command_id)
                return
            self.check_parked(key)
            if self._slots.closed:
                raise closed_meanwhile(key)
            await self._ports.sleep_ms(self._poll_ms)

    def check_parked(self, key: Key) -> None:
        """Raises `Parked` for a session that is, or that waits for one that is: it would be waited for in vain."""
        reason = self.why_parked(key)
        if reason:
            raise Parked(f"session {key.session!r} {reason}")

    def why_parked(self, key: Key) -> str:
        """Why nothing here can resume a session, or one below it whose end it waits for; empty if all is well."""
        reason = self._slots.why_parked(key)
        if reason:
            return f"is parked: {reason}"
        driven = self._slots.driven_at(key)
        for child in waited_for(driven.owner.state) if driven is not None else ():
            below = Key(key.tenant, child.child_id)
            reason = self._slots.why_parked(below)
            if reason:
                return f"waits for {child.child_id!r}, which is parked: {reason}"
            reason = self.why_parked(below)
            if reason:
                return reason
        return ""

    def patience_s(self, key: Key) -> float | None:
        """How long a listener may stay silent before the log must be looked at; for ever if this process is sure to be
        told."""
        driven = self._slots.driven_at(key)
        sure = driven is not None and not driven.owner.stale
        return None if sure else self._slots.patience_s(key, self._poll_ms / 1000)

    async def _until_ended(self, key: Key, listener: Subscription) -> bool:
        """Waits until it is worth looking again; False if the listener is over."""
        while True:
            patience_s = self.patience_s(key)
            told = await listener.next_or_look(patience_s)
            if patience_s is not None or not isinstance(told, Record) or isinstance(told.event, Terminal):
                return told is not None
