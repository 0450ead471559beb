"""One timer for the deadlines of all requests on an event loop: most of them are never reached, so none has its own."""

from __future__ import annotations

import asyncio
from typing import Protocol


class Waiting(Protocol):
    """Somebody with a deadline, as the loop's clock counts. It may move while it waits; moved nearer, it says so."""

    due: float

    def rung(self, now: float) -> None:
        """The deadline has passed: deal with it, by setting another one or by leaving."""
        ...


class Alarm:
    """Rings for each that waits when its deadline has passed. The timer is set for the nearest deadline there was, and
    never called back: one that fires for nothing costs less than one for each request."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._waiting: dict[Waiting, None] = {}
        self._timer: asyncio.TimerHandle | None = None

    def enter(self, who: Waiting) -> None:
        """Has somebody waked, or looks again at one whose deadline has moved nearer."""
        self._waiting[who] = None
        if self._timer is None or who.due < self._timer.when():
            self._set(who.due)

    def leave(self, who: Waiting) -> None:
        """Its deadline is of no interest any more. Leaving twice is no error."""
        self._waiting.pop(who, None)

    def _set(self, when: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.loop.call_at(when, self._ring)

    def _ring(self) -> None:
        self._timer = None
        now = self.loop.time()
        for who in [who for who in self._waiting if who.due <= now]:
            if who in self._waiting:
                who.rung(now)
        if self._waiting and self._timer is None:
            self._set(min(who.due for who in self._waiting))
