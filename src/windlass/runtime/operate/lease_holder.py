"""Who drives a session now, as far as its lease and the processes of this machine say."""

from __future__ import annotations

import time
from collections.abc import Iterable

from windlass.events.errors import KernelError, StoreError
from windlass.runtime.host import liveness
from windlass.store.base import Holder, IndexRow, Key, Store


async def holder_of(store: Store, key: Key) -> Holder | None:
    """Who has a session now; None if nobody has, or only a process that is certainly gone."""
    holder = await store.leases.holder(key, now_ms=time.time_ns() // 1_000_000)
    return holder if holder is not None and not liveness.gone(holder.runner) else None


async def holders_of(store: Store, rows: Iterable[IndexRow]) -> dict[str, Holder]:
    """The same for the sessions of many rows, by their ids; those that nobody has are not in it."""
    holders = {}
    for row in rows:
        try:
            holder = await holder_of(store, Key(row.tenant, row.session))
        except (KernelError, StoreError):  # damaged, or deleted meanwhile; the others are told of all the same
            continue
        if holder is not None:
            holders[row.session] = holder
    return holders
