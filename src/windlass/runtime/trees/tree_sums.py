"""What a session has used of each model, with the children that it pays for. Reads logs and changes nothing."""

from __future__ import annotations

import msgspec

from windlass.events.trees.children import ChildStarted
from windlass.events.values.usage import Usage
from windlass.runtime.streams.log_reader import LogReader
from windlass.store.base import Key, Store


class ModelSum(msgspec.Struct, kw_only=True):
    """What was used of one model."""

    requests: int = 0
    usage: Usage = Usage()
    cost_nanos: int = 0


async def sums_by_model(store: Store, key: Key) -> dict[str, ModelSum]:
    """The sums of a session and of those below it, at any depth. A child that was detached pays for itself, as do
    those below it."""
    log, sums = LogReader(store), dict[str, ModelSum]()
    waiting = [key]
    for session in waiting:
        if session != key and await store.log.head(session) is None:
            continue  # it has not begun
        for name, totals in (await log.fold(session)).state.budget.totals.items():
            known = sums.setdefault(name, ModelSum())
            known.requests += totals.requests
            known.usage += totals.usage.total()
            known.cost_nanos += totals.cost_nanos
        async for record in log.records(session, after=0):
            event = record.event
            if not isinstance(event, ChildStarted) or event.mode == "detached":
                continue
            if event.child_id.startswith(f"{session.session}~"):
                waiting.append(Key(key.tenant, event.child_id))
    return sums
