"""The right to write one session's log: a lease in time for liveness, an epoch for safety."""

from __future__ import annotations

import asyncio
import logging

from windlass.events.errors import LeaseHeld, StoreError
from windlass.runtime.host.ports import Ports
from windlass.store.base import Claim, Head, Key, Recovered, Store

LOG = logging.getLogger("windlass.owner")


class Lease:
    """One owner's lease on one session."""

    def __init__(self, store: Store, key: Key, ports: Ports) -> None:
        self._store = store
        self._key = key
        self._ports = ports
        self.epoch = 0
        self.head: Head | None = None
        """Where the log ended when it was claimed, until it is read or written."""
        self.lost = False
        """Whether another runner had it before and did not give it back."""
        self.recovered: tuple[Recovered, ...] = ()
        """What the store has cut off the log's end since its last owner."""
        self._runner = ""
        self._ttl_ms = 0
        self._until_ms = 0

    async def claim(self, runner: str, ttl_ms: int) -> None:
        """Takes the session for a runner under a new epoch. Raises `LeaseHeld` while another one lives on it."""
        since = self._ports.monotonic_ms()
        try:
            claim = await self._claim(runner, ttl_ms)
        except asyncio.CancelledError:
            await self._unclaim(runner, ttl_ms)
            raise
        self.epoch = claim.epoch
        self.head = claim.head
        self.lost = claim.lost
        self.recovered = claim.recovered
        self._runner, self._ttl_ms = runner, ttl_ms
        self._until_ms = since + ttl_ms
        LOG.debug("session %s is owned by %s, epoch %d", self._key.session, runner, self.epoch)

    async def _claim(self, runner: str, ttl_ms: int) -> Claim:
        now = self._ports.now_ms()
        try:
            return await self._store.leases.claim(self._key, runner=runner, ttl_ms=ttl_ms, now_ms=now, renew=False)
        except LeaseHeld as held:
            if not self._ports.gone(held.owner):
                raise
            # Its process is gone for certain, so its lease is waited for by nobody.
            over = max(now, held.until_ms) + 1
            return await self._store.leases.claim(self._key, runner=runner, ttl_ms=ttl_ms, now_ms=over, renew=False)

    async def _unclaim(self, runner: str, ttl_ms: int) -> None:
        """Gives back what a claim whose answer nobody heard may have taken. A claim that is repeated says which epoch
        that was: the store answers it behind the first."""
        now = self._ports.now_ms()
        try:
            claim = await self._store.leases.claim(self._key, runner=runner, ttl_ms=ttl_ms, now_ms=now, renew=True)
            await self._store.leases.release(self._key, runner=runner, epoch=claim.epoch)
        except StoreError:
            return  # somebody else has it, or it will run out

    async def keep(self) -> None:
        """Prolongs the lease. Raises `StaleEpoch` if the session belongs to somebody else now."""
        since = self._ports.monotonic_ms()
        await self._store.leases.keep(
            self._key, runner=self._runner, epoch=self.epoch, ttl_ms=self._ttl_ms, now_ms=self._ports.now_ms()
        )
        self._until_ms = since + self._ttl_ms

    @property
    def lasts(self) -> bool:
        """Whether nobody else can have taken the session yet. Looked at right before an effect begins."""
        return self._ports.monotonic_ms() < self._until_ms

    async def release(self) -> None:
        """Gives the lease back; a store that does not answer will see it run out."""
        try:
            await self._store.leases.release(self._key, runner=self._runner, epoch=self.epoch)
        except StoreError:
            return
