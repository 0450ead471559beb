"""Work that must not be cut off in the middle, such as opening and closing a store, or git in a repository."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

ENDING_S = 5.0
"""How long a caller who is cancelled waits for what must not be left half done."""


async def to_its_end(work: asyncio.Task[T], hurry: Callable[[], None] | None = None) -> T:
    """Waits for work that must not be cut off: what a thread opens cannot be called back, and what is half closed is
    closed by nobody. A cancellation is passed on when it has ended, and to it only if that takes too long; `hurry`
    tells it that nobody waits any more."""
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        if hurry is not None:
            hurry()
        await asyncio.wait([work], timeout=ENDING_S)
        if not work.done():
            work.cancel()
        elif not work.cancelled():
            work.exception()  # the caller is told of the cancellation, and of nothing else
        raise
