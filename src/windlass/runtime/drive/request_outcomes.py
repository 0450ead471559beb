"""What came of requests that were made aside from the conversation, told to the tool or the judge that waits for it."""

from __future__ import annotations

import asyncio

from windlass.events.base import Event
from windlass.events.turns import ModelFailed, ModelReplied


class RequestOutcome:
    """What came of a request, and what the log says follows from it."""

    __slots__ = ("events", "fact")

    def __init__(self, fact: ModelReplied | ModelFailed, events: list[Event]) -> None:
        self.fact = fact
        self.events = events


class RequestOutcomes:
    """Those that are waited for, by the id of their request."""

    def __init__(self) -> None:
        self._waiting: dict[str, asyncio.Future[RequestOutcome | None]] = {}

    def wait_for(self, request_id: str) -> asyncio.Future[RequestOutcome | None]:
        """What comes of a request that was just decided on; None if it is given up before it ends."""
        waiter = self._waiting[request_id] = asyncio.get_running_loop().create_future()
        return waiter

    def tell(self, request_id: str, outcome: RequestOutcome | None) -> None:
        """Tells whoever waits, if anybody does."""
        waiter = self._waiting.pop(request_id, None)
        if waiter is not None and not waiter.done():
            waiter.set_result(outcome)
