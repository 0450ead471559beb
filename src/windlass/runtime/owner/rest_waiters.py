"""Who waits until a session rests: told when no run is active any more, or when nobody can tell from here."""

from __future__ import annotations

import asyncio


class RestWaiters:
    """Those who wait for the rest of one session. Cheaper than to hear of every record, for whoever waits for the end
    alone."""

    def __init__(self) -> None:
        self._waiters: list[asyncio.Future[None]] = []

    @property
    def awaited(self) -> bool:
        """Whether anybody waits."""
        return bool(self._waiters)

    async def wait(self) -> None:
        """Waits until no run is active any more, or nobody can tell from here: the log was read again, or the session
        was let go."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            await waiter
        finally:
            if waiter in self._waiters:
                self._waiters.remove(waiter)

    def tell(self) -> None:
        """Has whoever waits look again."""
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
