"""The removal of a whole session, with its jobs: by whoever holds it, so that nobody drives it meanwhile."""

from __future__ import annotations

import os
import time

from windlass.events.errors import LeaseHeld
from windlass.store.base import Key, Store

from .session_jobs import jobs_on_this_machine

LEASE_MS = 60_000
"""For how long a session that is removed is kept from others; ending its jobs takes seconds."""


async def remove_session(store: Store, store_place: str, key: Key) -> bool:
    """Removes a session with its jobs on this machine, unless somebody drives it: it is ours until it is gone. Whether
    it was removed. Raises `NotFound` if there is none, and `UsageError` if forks need it."""
    now_ms = time.time_ns() // 1_000_000
    try:
        await store.leases.claim(key, runner=f"prune-{os.getpid()}", ttl_ms=LEASE_MS, now_ms=now_ms)
    except LeaseHeld:
        return False
    await jobs_on_this_machine(store_place, store, key).end_all()
    await store.log.delete(key)
    return True
