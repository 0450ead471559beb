"""Tending to the sessions of a store: one task notices what others wrote, what is due and what nobody drives any
more; one keeps the leases. Neither drives anything itself."""

from __future__ import annotations

from windlass.events.errors import StaleEpoch, StoreError
from windlass.store.base import Key, Query

from .driving import OWED_AT_ONCE, Driving

MAIL_NEWEST = 50
LOOKS_AT_ONCE = 32


class Tending(Driving):
    """The watching side of a runtime."""

    _unread: int
    _look_at: int
    _mail: dict[str, int]
    """How many times the inboxes of an agent's sessions must still be gone through."""
    _mail_at: dict[str, int]
    _looked_ms: int

    async def _watch(self) -> None:
        """Notices what other processes wrote, timers that have come due, and sessions that nobody drives any more."""
        while True:
            await self.ports.sleep_ms(self._poll_ms)
            try:
                await self._look_round()
            except StoreError:
                continue  # it may answer the next time

    async def _look_round(self) -> None:
        for key in [key for key, at_ms in self._wakes.items() if at_ms <= self._now_of(key)]:
            self._wakes.pop(key, None)
            await self._try_to_drive(key)
        # A lease that runs out changes nothing in the store, so it is looked for now and then in any case.
        overdue = self.ports.monotonic_ms() - self._looked_ms >= self._lease_ms // 3
        if await self.store.changed() or overdue:
            self._looked_ms = self.ports.monotonic_ms()
            await self._notice()
        await self._look_in()
        await self._read_mail()

    def _now_of(self, key: Key) -> int:
        active = self._active.get(key)
        return active.owner.now_ms() if active is not None else self.ports.now_ms()

    async def _notice(self) -> None:
        self._unread = len(self._active)
        now = self.ports.now_ms()
        for name in list(self._bound):
            waiting = [*await self._keys(agent=name, owed=True), *await self._keys(agent=name, wake_before_ms=now)]
            for key in waiting:
                if key not in self._active:
                    await self._try_to_drive(key)
        self._mail = dict.fromkeys(self._bound, 2)

    async def _look_in(self) -> None:
        """Sends the drivers here to their inboxes: all of them where they are few, else a tenth at a time in turn. Our
        own commits look like those of others, so this happens as often as the store is asked."""
        keys = list(self._active)
        share = min(self._unread, max(LOOKS_AT_ONCE, len(keys) // 10), len(keys))
        self._unread -= share
        for key in [keys[(self._look_at + number) % len(keys)] for number in range(share)]:
            active = self._active.get(key)
            if active is None:
                continue
            if active.task is not None and not active.task.done():
                active.driver.look()
            elif active.owner.stale or active.owner.state.active or await self.store.inbox(key, limit=1):
                await self._try_to_drive(key)
        self._look_at += share

    async def _read_mail(self) -> None:
        """Looks into the inboxes of sessions at rest. The newest ones are looked into each time, the others a page at a
        time in turn, twice around: a command to any of them is found, and no round takes long."""
        for name in [name for name, rounds in self._mail.items() if rounds]:
            place = self._mail_at.get(name, 0)
            everyone = Query(tenant=self.tenant, agent=name, limit=MAIL_NEWEST)
            page = Query(tenant=self.tenant, agent=name, limit=OWED_AT_ONCE, offset=place)
            rows = await self.store.find(page)
            over = len(rows) < OWED_AT_ONCE
            self._mail_at[name] = 0 if over else place + OWED_AT_ONCE
            self._mail[name] -= over
            for row in [*rows, *(await self.store.find(everyone) if place else ())]:
                key = Key(row.tenant, row.session)
                if key not in self._active and key not in self.parked and await self.store.inbox(key, limit=1):
                    await self._try_to_drive(key)

    async def _keep_leases(self) -> None:
        while True:
            await self.ports.sleep_ms(self._lease_ms // 3)
            for key, active in list(self._active.items()):
                try:
                    await active.owner.keep()
                except StaleEpoch:
                    self._drop(key, active)
                    if active.task is not None:
                        active.task.cancel()
                except StoreError:
                    continue  # the next round may reach it; until then nothing new is begun without asking
