"""What is committed, told to whoever listens. Readers never slow a run: each has a bounded buffer of its own.

A slow reader loses deltas first and is told so once; only when durable records back up is it let go, with the cursor
from which it can resume without a gap.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence

import msgspec

from windlass.events.base import Event
from windlass.events.live import Live, StreamTruncated
from windlass.events.runs import Terminal

from . import cursors

BUFFER_MAX = 1_024


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """One committed event with its place in the log."""

    seq: int
    at_ms: int
    event: Event
    first: int
    """The seq of the fact that caused it; its own where it is the fact."""
    hash: str = ""
    """The chain hash of the append that holds it."""

    @property
    def cursor(self) -> str:
        """The place behind this record, for `session.events(after=...)`."""
        return cursors.made(self.seq, self.hash)


Told = Record | Live


class Gap:
    """Stands in a buffer where deltas are missing; read as one notice that says how many."""


GAP = Gap()


class Look:
    """Told where the log must be read: the time of a wait is over, or the session is driven elsewhere now."""


LOOK = Look()


class Subscription:
    """One reader's buffer: at most so many deltas, at most so many records, and one notice of what is missing."""

    def __init__(self, hub: Hub, *, live: bool, buffer_max: int = BUFFER_MAX) -> None:
        self._hub = hub
        self.live = live
        self._max = buffer_max
        self._waiting: deque[Told | Gap] = deque()
        self._records = 0
        self._dropped = 0
        self._gap_after = 0
        self._wake: asyncio.Future[None] | None = None
        self._closed = False
        self._look = False
        self.lagging = False

    def offer(self, told: Sequence[Told]) -> None:
        """Puts what was told in the buffer, or drops what may be dropped. Called by the hub; never waits."""
        for one in told:
            if self.lagging:
                break
            if isinstance(one, Record):
                self._offer_record(one)
            elif self.live:
                self._offer_live(one)
        if self._wake is not None and not self._wake.done() and (self._waiting or self.lagging):
            self._wake.set_result(None)

    def _offer_record(self, record: Record) -> None:
        if self._records < self._max:
            self._records += 1
            self._waiting.append(record)
            return
        # A record may not be missing: its reader is let go, and told where the log goes on for it.
        self._waiting.clear()
        self._records = 0
        self.lagging = True
        self._hub.leave(self)

    def _offer_live(self, delta: Live) -> None:
        if len(self._waiting) < self._max:
            self._waiting.append(delta)
            return
        if not self._dropped:
            self._waiting.append(GAP)
            self._gap_after = self._hub.seq
        self._dropped += 1

    async def next(self) -> Told | None:
        """The next thing told; None when the subscription is over or its reader was too slow (`lagging`)."""
        while isinstance(told := await self.next_or_look(), Look):
            continue
        return told

    async def next_or_look(self, seconds: float | None = None) -> Told | Look | None:
        """The same, but it may also say that the log must be looked at: after this many seconds, at the latest."""
        while not self._waiting:
            if self._closed or self.lagging:
                return None
            if self._look:
                self._look = False
                return LOOK
            loop = asyncio.get_running_loop()
            self._wake = loop.create_future()
            timer = loop.call_later(seconds, self.look) if seconds is not None else None
            try:
                await self._wake
            finally:
                self._wake = None
                if timer is not None:
                    timer.cancel()
        told = self._waiting.popleft()
        if isinstance(told, Gap):
            told = StreamTruncated(reason="deltas_dropped", dropped=self._dropped, after_seq=self._gap_after)
            self._dropped = 0
        elif isinstance(told, Record):
            self._records -= 1
        return told

    def look(self) -> None:
        """Sends the reader to the log."""
        self._look = True
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    def close(self) -> None:
        self._closed = True
        self._hub.leave(self)
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    def __aiter__(self) -> AsyncIterator[Told]:
        return self._iterate()

    async def _iterate(self) -> AsyncIterator[Told]:
        while (told := await self.next()) is not None:
            yield told


class Hub:
    """The listeners of one session in this process."""

    def __init__(self, *, closed: bool = False) -> None:
        """`closed` = nothing will ever be told here: its listeners are at their end at once."""
        self._closed = closed
        self._subscriptions: list[Subscription] = []
        self.seq = 0
        self.so_far: Callable[[], list[Live]] | None = None
        """What the open attempt has streamed so far: a late listener gets it first."""
        self._hearing = 0
        self.terminal: Terminal | None = None
        """How the last run ended, where nothing was committed since."""

    @property
    def listening(self) -> bool:
        """Whether anyone listens at all."""
        return bool(self._subscriptions)

    @property
    def hearing(self) -> bool:
        """Whether anyone wants to hear what is being written, and not only what is committed."""
        return self._hearing > 0

    def subscribe(self, *, live: bool = True, buffer_max: int = BUFFER_MAX) -> Subscription:
        subscription = Subscription(self, live=live, buffer_max=buffer_max)
        if self._closed:
            subscription.close()
            return subscription
        self._subscriptions.append(subscription)
        self._hearing += live
        if live and self.so_far is not None:
            subscription.offer(self.so_far())
        return subscription

    def leave(self, subscription: Subscription) -> None:
        if subscription in self._subscriptions:
            self._subscriptions.remove(subscription)
            self._hearing -= subscription.live

    def committed(self, records: list[Record]) -> None:
        """Tells everyone what is in the log now."""
        self.passed(records[-1].seq, records[-1].event)
        for subscription in tuple(self._subscriptions):
            subscription.offer(records)

    def passed(self, seq: int, last: Event) -> None:
        """Notes where the log ends; all that is to be done where nobody listens."""
        self.seq = seq
        self.terminal = last if isinstance(last, Terminal) else None

    def live(self, deltas: list[Live]) -> None:
        """Tells everyone what is being written; nothing of it is kept."""
        for subscription in tuple(self._subscriptions):
            subscription.offer(deltas)

    def look(self) -> None:
        """The session is driven elsewhere from now on, or nobody knows: readers must look at the log."""
        self.so_far = None
        for subscription in tuple(self._subscriptions):
            subscription.look()

    def close(self) -> None:
        """Ends all listeners, those that are yet to come among them."""
        self._closed = True
        for subscription in tuple(self._subscriptions):
            subscription.close()
