"""A session as whoever stays with it hears of it: its log from some place on, then what happens, for as long as they
listen."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from windlass.events.errors import StoreError
from windlass.events.live import Live, StreamTruncated
from windlass.runtime.api.session import Session
from windlass.runtime.streams.subscribers import Told

RETRY_S = 0.2
"""The pause before a log is read again that could not be read, or in which the reader fell behind."""


async def fed(session: Session, *, after: int = 0) -> AsyncIterator[Told]:
    """The records behind a place and what is told live, until the runtime is closed. Nobody is let go: whoever fell
    behind is told the rest from the log, and a store that fails is asked again."""
    while not session.runtime.closed:
        with contextlib.suppress(StoreError):
            async for told in session.tail(after=after):
                if isinstance(told, StreamTruncated) and told.reason == "disconnected":
                    break
                if not isinstance(told, Live):
                    after = told.seq
                yield told
        await asyncio.sleep(RETRY_S)
