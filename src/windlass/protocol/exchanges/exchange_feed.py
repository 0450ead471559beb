"""What is told of a session, as long as somebody waits for it: without a gap, and not if nobody can resume it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from windlass.events.live import StreamTruncated
from windlass.runtime.api.session import Session
from windlass.runtime.streams.subscribers import Told

LOOK_S = 1.0
"""How often it is looked whether a session is still one that somebody can resume."""


async def heard(session: Session, told: AsyncIterator[Told]) -> AsyncIterator[Told]:
    """What is told, however long it takes. A listener that was let go since it was slow goes on with the log. Raises
    `Parked` for a session that would be waited for in vain."""
    while True:
        behind: int | None = None
        while (one := await _next(session, told)) is not None:
            if isinstance(one, StreamTruncated) and one.reason == "disconnected":
                behind = one.after_seq
            else:
                yield one
        if behind is None:
            return
        told = session.tail(after=behind)


async def _next(session: Session, told: AsyncIterator[Told]) -> Told | None:
    async def following() -> Told | None:
        return await anext(told, None)

    waiting = asyncio.ensure_future(following())
    try:
        while not (await asyncio.wait([waiting], timeout=LOOK_S))[0]:
            session.runtime.host.rest.check_parked(session.key)
    finally:
        waiting.cancel()
    return waiting.result()
