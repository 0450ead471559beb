"""Watches the store: notices what other processes wrote, what is due, and what nobody drives any more. Drives nothing
itself."""

from __future__ import annotations

import logging
from typing import Any

from windlass.events.errors import StoreError
from windlass.runtime.bind.agent_registry import BoundAgents
from windlass.runtime.owner.session_clock import is_unread, time_of
from windlass.store.base import IndexRow, Key, Query, Store

from .fault_report import FaultReport
from .host_settings import HostSettings
from .opener import Opener
from .ports import Ports
from .slot import Slot
from .slot_table import Slots
from .steady_clock import SteadyClock
from .suspects import Suspects

LOG = logging.getLogger("windlass.store")
OWED_AT_ONCE = 200
"""How many sessions the index is asked for at once."""
NO_TIME_MS = 2**62
"""Later than any time: asks for whatever has one."""


class StoreWatch:
    """One task that looks at the store again and again."""

    def __init__(
        self,
        store: Store,
        ports: Ports,
        settings: HostSettings,
        slots: Slots,
        agents: BoundAgents,
        opener: Opener,
        faults: FaultReport,
        clock: SteadyClock,
    ) -> None:
        self._store = store
        self._ports = ports
        self._settings = settings
        self._slots = slots
        self._agents = agents
        self._opener = opener
        self._faults = faults
        self._clock = clock
        self._suspects = Suspects(slots, ports)
        self._looked_ms = 0
        self._offset_ms = ports.now_ms() - ports.monotonic_ms()
        self._patient_until_ms = 0
        self._jumped_ms = 0
        """By how much the clock was set forward when patience began."""
        self._due_ms = NO_TIME_MS
        """When the next session is due of which only the store knows."""
        self._woke_ms = ports.monotonic_ms()
        """When those that are due here were looked for last."""

    async def run(self) -> None:
        """Looks round until cancelled; first of all at what people were asked about under other code."""
        reviewed = False
        while True:
            if reviewed:
                await self._ports.sleep_ms(self._settings.poll_ms)
            try:
                if not reviewed:
                    reviewed = True
                    await self._review_asked()
                    continue
                await self.look_round()
            except StoreError as error:
                self._look_soon()  # it may answer the next time
                LOG.warning("the store did not answer, looked at again: %s", error)
            except Exception as error:  # whatever it was, a runtime that stops watching would hang without a word
                self._look_soon()
                self._faults.tell("a look at the store failed; it is tried again", error)

    def _look_soon(self) -> None:
        self._looked_ms = self._ports.monotonic_ms() - self._settings.lease_ms

    async def look_round(self) -> None:
        """One look: what is due here, what was left half done here, and what others changed."""
        await self._wake_timed()
        await self._take_up_again()
        if (suspect := self._suspects.next()) is not None:
            await self._opener.try_to_drive(suspect)
        self._notice_jump()
        if await self._store.changed() or self._overdue or self._clock.now_ms() >= self._due_ms:
            await self._notice()

    async def _wake_timed(self) -> None:
        """Wakes the sessions whose times are known here."""
        self._woke_ms = self._ports.monotonic_ms()
        for slot in self._slots.timed:
            if slot.wake_at_ms is not None and slot.wake_at_ms <= self._now_of(slot):
                self._slots.wake(slot, None)
                await self._opener.try_to_drive(slot.key)

    async def drive_owed(self) -> None:
        """Takes up the sessions that are owed work and whose agent is bound here."""
        for name in self._agents:
            await self._drive_all(await self._rows(agent=name, owed=True))

    async def _review_asked(self) -> None:
        """Opens the sessions that wait for people and whose agent is not the one they were asked under: what they ask
        about may be another thing now, and is asked again at once."""
        if not self._settings.take_up:
            return
        for name in self._agents:
            for key in await self._keys(agent=name, states=("asked",)):
                if key not in self._slots.driven and await self._opener.is_of_other_code(key):
                    await self._opener.try_to_drive(key)

    def _notice_jump(self) -> None:
        """A clock that was set forward, or a machine that slept, makes the leases of the living look as if they had run
        out: before anything of theirs is taken they get the time to prolong them. What nobody had before the jump is
        looked for at once: it may be due."""
        offset_ms = self._ports.now_ms() - self._ports.monotonic_ms()
        jumped_ms = offset_ms - self._offset_ms
        if jumped_ms > self._settings.lease_ms // 3:
            self._jumped_ms = jumped_ms + (self._jumped_ms if self._patient else 0)
            self._patient_until_ms = self._ports.monotonic_ms() + self._settings.lease_ms // 2
            self._look_soon()
        self._offset_ms = offset_ms

    @property
    def _patient(self) -> bool:
        return self._ports.monotonic_ms() < self._patient_until_ms

    @property
    def _overdue(self) -> bool:
        """A lease that runs out, or whose process died, changes nothing in the store: so now and then it is asked in
        any case, and for sessions that are held as well."""
        return self._ports.monotonic_ms() - self._looked_ms >= self._settings.lease_ms // 3

    def _now_of(self, slot: Slot) -> int:
        return slot.driven.owner.now_ms() if slot.driven is not None else self._clock.now_ms()

    async def _take_up_again(self) -> None:
        """Takes up what was left half done here: no task is at work on it, and it is not at rest."""
        for slot in self._slots.driven:
            driven = slot.driven
            if driven is not None and not driven.at_work:
                owner = driven.owner
                if owner.left_stale or (not owner.busy and owner.state.active):
                    await self._opener.try_to_drive(slot.key)

    async def _notice(self) -> None:
        """Has every session driven that is owed work, is due, or has commands waiting: each is one query of the index,
        however many sessions there are. Those that others hold are left to them, except in the rounds that are overdue:
        a claim is a write, and in vain as long as the lease lasts."""
        now, which = self._clock.now_ms(), self._free()
        overdue = self._overdue
        if overdue:
            self._looked_ms = self._ports.monotonic_ms()
            which = which if self._patient else {}
        self._due_ms = NO_TIME_MS
        for name in self._agents:
            await self._drive_all(await self._rows(agent=name, owed=True, **which))
            await self._drive_all(await self._due(name, now, which))
            if overdue:
                await self._drive_all(await self._ahead(name, now, which))
            await self._read_inboxes(name, which)

    def _free(self) -> dict[str, Any]:
        """Which sessions nobody has, as far as leases say; after a jump of the clock, those that nobody had before."""
        return {"free_at_ms": self._ports.now_ms() - (self._jumped_ms if self._patient else 0)}

    async def _due(self, agent: str, now: int, which: dict[str, Any]) -> list[IndexRow]:
        """The sleepers that are due. Of those that will be before the store is asked again in any case, the first is
        noted, unless this process knows of it."""
        rows = await self._rows(agent=agent, wake_before_ms=now + self._settings.lease_ms // 3, **which)
        due = [row for row in rows if (row.next_wake_ms or 0) <= now]
        later = [row.next_wake_ms or 0 for row in rows if (row.next_wake_ms or 0) > now and not self._knows_of(row)]
        self._due_ms = min([self._due_ms, *later])
        return due

    def _knows_of(self, row: IndexRow) -> bool:
        slot = self._slots.get(Key(row.tenant, row.session))
        return slot is not None and (slot.driven is not None or slot.wake_at_ms is not None)

    async def _read_inboxes(self, agent: str, which: dict[str, Any]) -> None:
        """Has the commands read that wait in inboxes."""
        unread = await self._rows(agent=agent, unread=True)
        free = await self._rows(agent=agent, unread=True, **which) if unread and which else unread
        for row in unread:
            await self._send_to_inbox(row, free=row in free)

    async def _drive_all(self, rows: list[IndexRow]) -> None:
        """Has them driven one after the other. Of ten thousand that takes a while: those that fall due here meanwhile,
        and what others are told, need not wait for it."""
        for key in self._suspects.apart(rows):
            await self._opener.try_to_drive(key)
            if self._ports.monotonic_ms() - self._woke_ms >= self._settings.poll_ms:
                await self._wake_timed()
                for name in self._agents:
                    await self._read_inboxes(name, self._free())

    async def _ahead(self, agent: str, now: int, which: dict[str, Any]) -> list[IndexRow]:
        """The sleepers whose logs are ahead of the clock and that are due all the same, by the time that has passed.
        If nobody knows how much that is they are opened too, once: from then on a reading of the clock stands beside
        the log."""
        rows = await self._rows(agent=agent, updated_after_ms=now, wake_before_ms=NO_TIME_MS, **which)
        return [row for row in rows if is_unread(row, now) or (row.next_wake_ms or 0) <= time_of(row, now)]

    async def _send_to_inbox(self, row: IndexRow, *, free: bool) -> None:
        """Has commands read. They do not have a session driven before its turn that may end its process."""
        key = Key(row.tenant, row.session)
        driven = self._slots.driven_at(key)
        if driven is not None and driven.at_work:
            driven.driver.look()
        elif driven is not None:
            await self._opener.try_to_drive(key)
        elif free:
            for clear in self._suspects.apart([row]):
                await self._opener.try_to_drive(clear)

    async def _keys(self, **which: Any) -> list[Key]:
        """Every session that fits."""
        return [Key(row.tenant, row.session) for row in await self._rows(**which)]

    async def _rows(self, **which: Any) -> list[IndexRow]:
        """The rows that fit, however many there are, asked for a page at a time."""
        rows: list[IndexRow] = []
        while True:
            query = Query(tenant=self._settings.tenant, limit=OWED_AT_ONCE, offset=len(rows), **which)
            page = await self._store.index.find(query)
            rows += page
            if len(page) < OWED_AT_ONCE:
                return rows
