"""What is believed of a lease: what it says, but no longer than a bound from when it was first seen. Clocks differ, and
one that ran ahead, or a damaged number, must not lock a session for years."""

from __future__ import annotations

from windlass.store.base import LEASE_MS_MAX, Holder, Key

SIGHTINGS_MAX = 4_096
"""How many leases that reach too far ahead are remembered; the oldest is forgotten for a new one."""

Lease = tuple[int, str, int]
"""A lease as it is written: epoch, owner, until_ms."""


class Sightings:
    """When each lease that reaches further ahead than any lease may was first met, by the clock of who met it.

    An owner that lives prolongs its lease long before `LEASE_MS_MAX` is over, and then it is another one, met anew: so
    nobody is taken for dead whose clock merely differs, whichever of the two is wrong. What is written is not touched,
    since others, whose clocks may be right, read it too.
    """

    def __init__(self) -> None:
        self._first: dict[Key, tuple[Lease, int]] = {}

    def believed(self, key: Key, lease: Lease, now_ms: int) -> int:
        """The time until which a lease is believed to last."""
        known = self._first.get(key)
        since_ms = min(known[1], now_ms) if known is not None and known[0] == lease else now_ms
        return min(lease[2], since_ms + LEASE_MS_MAX)

    def note(self, key: Key, lease: Lease, now_ms: int) -> int:
        """The same, for somebody who wants the session and will ask again."""
        until_ms = self.believed(key, lease, now_ms)
        if until_ms == lease[2]:
            self._first.pop(key, None)
        else:
            while len(self._first) >= SIGHTINGS_MAX and key not in self._first:
                del self._first[next(iter(self._first))]
            self._first[key] = (lease, until_ms - LEASE_MS_MAX)
        return until_ms

    def holder(self, key: Key, lease: Lease, now_ms: int) -> Holder | None:
        """Who holds the lease now, if it is believed to last."""
        epoch, owner, _ = lease
        until_ms = self.believed(key, lease, now_ms)
        return Holder(runner=owner, epoch=epoch, until_ms=until_ms) if owner and until_ms > now_ms else None
