"""Tending to the sessions of a store: one task notices what others wrote, what is due and what nobody drives any
more; one keeps the leases. Neither drives anything itself."""

from __future__ import annotations

import asyncio
from typing import Any

from windlass.events.errors import StaleEpoch, StoreError
from windlass.store.base import Key

from .driving import Driving


class Tending(Driving):
    """The watching side of a runtime."""

    _looked_ms: int
    _reported: str = ""

    async def _watch(self) -> None:
        """Notices what other processes wrote, timers that have come due, and sessions that nobody drives any more."""
        while True:
            await self.ports.sleep_ms(self._poll_ms)
            try:
                await self._look_round()
            except StoreError:
                self._looked_ms = self.ports.monotonic_ms() - self._lease_ms  # it may answer the next time
            except Exception as error:  # whatever it was, a runtime that stops watching would hang without a word
                self._looked_ms = self.ports.monotonic_ms() - self._lease_ms
                self._report("a look at the store failed; it is tried again", error)

    async def _look_round(self) -> None:
        for key in [key for key, at_ms in self._wakes.items() if at_ms <= self._now_of(key)]:
            self._wakes.pop(key, None)
            await self._try_to_drive(key)
        await self._go_on()
        if await self.store.changed() or self._overdue:
            await self._notice()

    @property
    def _overdue(self) -> bool:
        """A lease that runs out, or whose process died, changes nothing in the store: so now and then it is asked in
        any case, and for sessions that are held as well."""
        return self.ports.monotonic_ms() - self._looked_ms >= self._lease_ms // 3

    def _now_of(self, key: Key) -> int:
        active = self._active.get(key)
        return active.owner.now_ms() if active is not None else self.ports.now_ms()

    async def _go_on(self) -> None:
        """Takes up again what was left half done here: nobody drives it, and it is not at rest."""
        for key, active in list(self._active.items()):
            if active.task is None or active.task.done():
                owner = active.owner
                if owner.left_stale or (not owner.busy and owner.state.active):
                    await self._try_to_drive(key)

    async def _notice(self) -> None:
        """Has every session driven that is owed work, is due, or has commands waiting: each is one query of the index,
        however many sessions there are. Those that others hold are left to them, but for the rounds that are overdue
        anyway: a claim is a write, and in vain as long as the lease lasts."""
        now = self.ports.now_ms()
        which: dict[str, Any] = {"free_at_ms": now}
        if self._overdue:
            self._looked_ms, which = self.ports.monotonic_ms(), {}
        for name in list(self._bound):
            for more in ({"owed": True}, {"wake_before_ms": now}):
                for key in await self._keys(agent=name, **more, **which):
                    if key not in self._active:
                        await self._try_to_drive(key)
            unread = await self._keys(agent=name, unread=True)
            free = set(await self._keys(agent=name, unread=True, **which)) if unread and which else set(unread)
            for key in unread:
                await self._send_to_inbox(key, key in free)

    async def _send_to_inbox(self, key: Key, free: bool) -> None:
        active = self._active.get(key)
        if active is not None and active.task is not None and not active.task.done():
            active.driver.look()
        elif active is not None or free:
            await self._try_to_drive(key)

    async def _keep_leases(self) -> None:
        while True:
            await self.ports.sleep_ms(self._lease_ms // 3)
            for key, active in list(self._active.items()):
                try:
                    await active.owner.keep()
                except StaleEpoch:
                    self._drop(key, active)
                except StoreError:
                    continue  # the next round may reach it; until then nothing new is begun without asking
                except Exception as error:  # one lease that cannot be kept must not cost the others
                    self._report(f"the lease of session {key.session!r} was not kept; it is tried again", error)

    def _report(self, what: str, error: Exception) -> None:
        """Tells the loop's exception handler, which logs it unless the program has its own; the same thing in a row is
        told once."""
        said = f"windlass: {what}: {type(error).__name__}: {error}"
        if said != self._reported:
            self._reported = said
            asyncio.get_running_loop().call_exception_handler({"message": said, "exception": error})
