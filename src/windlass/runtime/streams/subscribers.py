"""What is committed, told to whoever listens. Readers never slow a run: what is told is kept once for all of them, in
bounds, and only those who wait are woken.

A slow reader loses deltas first and is told so once; only when durable records back up is it let go, with the cursor
from which it can resume without a gap.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from itertools import islice

from windlass.events.base import Event
from windlass.events.live import Live, StreamTruncated
from windlass.events.runs import Terminal

from .record import Record
from .shared_buffer import Allowance, SharedBuffer

BUFFER_MAX = 1_024
READ_MIN = 16
"""So many things that all have read are let go together."""
RUN_MAX = 32
"""So many deltas a reader takes at once, at the most: they are its own then, however slow it is."""

Told = Record | Live


class Look:
    """Told when the log must be read: the time of a wait is over, or the session is driven elsewhere now."""


LOOK = Look()


class Subscription:
    """One reader: how far it has come in what all readers share. It may be behind by so many deltas, which it loses
    first and is told of, and by so many records, with which it is let go."""

    def __init__(self, hub: Hub, shared: SharedBuffer, first: Sequence[Live], *, live: bool, buffer_max: int) -> None:
        self._hub = hub
        self._shared = shared
        self.live = live
        self._max = min(buffer_max, shared.records.size)
        self._first: deque[Live] = deque(first)
        """What it gets before anything else."""
        self._record = shared.records.count
        self._delta = shared.deltas.count
        self._wake: asyncio.Future[None] | None = None
        self._closed = False
        self._look = False

    @property
    def lagging(self) -> bool:
        """Whether it is so far behind that records are missing: it is let go, and goes on with the log."""
        records = self._shared.records
        return records.count - self._record > self._max or self._record < records.first

    async def next(self) -> Told | None:
        """The next thing told; None when the subscription is over or its reader was too slow (`lagging`)."""
        while isinstance(told := await self.next_or_look(), Look):
            continue
        return told

    async def next_or_look(self, seconds: float | None = None) -> Told | Look | None:
        """The same, but it may also say that the log must be looked at: after this many seconds, at the latest."""
        while (told := self.at_hand()) is None:
            if self._closed or self.lagging:
                self._hub.leave(self)
                return None
            if self._look:
                self._look = False
                return LOOK
            await self._told(seconds)
        return told

    async def _told(self, seconds: float | None) -> None:
        """Waits until there is something to read, or to look at."""
        loop = asyncio.get_running_loop()
        self._wake = loop.create_future()
        self._hub.waits(self)
        timer = loop.call_later(seconds, self.look) if seconds is not None else None
        try:
            await self._wake
        finally:
            self._wake = None
            if timer is not None:
                timer.cancel()

    def at_hand(self) -> Told | None:
        """What can be read without waiting, if anything."""
        if self._first:
            return self._first.popleft()
        records, deltas = self._shared.records, self._shared.deltas
        behind = records.count - self._record
        if behind and (behind > self._max or self._record < records.first):  # as `lagging` says
            return None
        if self.live and deltas.count > self._delta and deltas.items:
            oldest = max(deltas.count - self._max, deltas.first)
            if oldest > self._delta:
                return self._skip_deltas(oldest)
            place, delta, _ = deltas.items[self._delta - deltas.first]
            if not behind or place < records.items[self._record - records.first][0]:
                self._delta += 1
                return delta
        if not behind:
            return None
        record = records.items[self._record - records.first][1]
        self._record += 1
        return record

    def deltas_at_hand(self) -> list[Live]:
        """The deltas behind the one that was read last, and before the next record: a few at a time."""
        records, deltas = self._shared.records, self._shared.deltas
        start = self._delta - deltas.first
        if self._first or start < 0 or self.lagging:
            return []
        few = islice(deltas.items, start, start + RUN_MAX)
        if records.count > self._record:
            next_record = records.items[self._record - records.first][0]
            run = [delta for place, delta, _ in few if place < next_record]
        else:
            run = [delta for _, delta, _ in few]
        self._delta += len(run)
        return run

    def _skip_deltas(self, to: int) -> StreamTruncated:
        deltas = self._shared.deltas
        dropped, self._delta = to - self._delta, to
        after_seq = deltas.items[to - deltas.first][1].after_seq
        return StreamTruncated(reason="deltas_dropped", dropped=dropped, after_seq=after_seq)

    def records_read(self) -> int:
        """How many records it needs no more."""
        return self._record

    def deltas_read(self) -> int:
        """How many deltas it needs no more."""
        return self._delta

    def wake(self) -> None:
        """Has it read, if it waits."""
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    def look(self) -> None:
        """Sends the reader to the log."""
        self._look = True
        self.wake()

    def looked(self) -> None:
        """The reader knows where the log ends now."""
        self._look = False

    def close(self) -> None:
        self._closed = True
        self._hub.leave(self)
        self.wake()

    def __aiter__(self) -> AsyncIterator[Told]:
        return self._iterate()

    async def _iterate(self) -> AsyncIterator[Told]:
        while (told := await self.next()) is not None:
            yield told


class Hub:
    """The listeners of one session in this process."""

    def __init__(self, allowance: Allowance | None = None, *, closed: bool = False) -> None:
        """`closed` = nothing will ever be told here: its listeners are at their end at once."""
        self._allowance = allowance if allowance is not None else Allowance()
        self._closed = closed
        self._subscriptions: dict[Subscription, None] = {}
        self._shared: SharedBuffer | None = None
        """What was told lately; there is one as long as anybody listens."""
        self._waiting: tuple[set[Subscription], set[Subscription]] = (set(), set())
        """Who waits: for records alone, and for deltas too."""
        self._swept = 0
        self.seq = 0
        self.so_far: Callable[[], list[Live]] | None = None
        """What the open attempt has streamed so far: a late listener gets it first."""
        self.hearing = 0
        """How many want to hear what is being written, and not only what is committed."""
        self.terminal: Terminal | None = None
        """How the last run ended, if nothing was committed since."""

    @property
    def listening(self) -> bool:
        """Whether anyone listens at all."""
        return bool(self._subscriptions)

    def subscribe(self, *, live: bool = True, buffer_max: int = BUFFER_MAX) -> Subscription:
        if self._shared is None:
            self._shared = SharedBuffer(BUFFER_MAX, self._allowance)
        first = self.so_far() if live and self.so_far is not None else []
        subscription = Subscription(self, self._shared, first, live=live, buffer_max=buffer_max)
        if self._closed:
            subscription.close()
            self._leave_buffer()
            return subscription
        self._subscriptions[subscription] = None
        self.hearing += live
        return subscription

    def leave(self, subscription: Subscription) -> None:
        """Forgets a reader, also as one that waits: of a session at rest nobody would be woken for long."""
        if subscription in self._subscriptions:
            del self._subscriptions[subscription]
            self.hearing -= subscription.live
        self._waiting[subscription.live].discard(subscription)
        subscription.wake()
        if not self._subscriptions:
            self._leave_buffer()
        elif not self._closed:  # else it may read what is left
            self._forget_read(subscription)

    def _leave_buffer(self) -> None:
        if self._shared is not None:
            self._shared.close()
            self._shared = None

    def waits(self, subscription: Subscription) -> None:
        """A reader has read all and is to be woken for more."""
        self._waiting[subscription.live].add(subscription)
        self._forget_read(subscription, READ_MIN)

    def _forget_read(self, reader: Subscription, least: int = 0) -> None:
        """Keeps nothing that all have read. Looked for only if the slowest reader went on: no other holds anything
        back."""
        if self._shared is None:
            return
        records, deltas = self._shared.records, self._shared.deltas
        if len(records) > least and records.slowest in (reader, None):
            slowest = min(self._subscriptions, key=Subscription.records_read)
            records.slowest = slowest
            records.forget(slowest.records_read())
        if len(deltas) > least and deltas.slowest in (reader, None):
            last = min((one for one in self._subscriptions if one.live), key=Subscription.deltas_read, default=None)
            deltas.slowest = last
            deltas.forget(last.deltas_read() if last is not None else deltas.count)

    def _wake(self, live: bool) -> None:
        waiting = self._waiting[live]
        if waiting:
            for subscription in tuple(waiting):
                subscription.wake()
            waiting.clear()

    def committed(self, records: list[Record], data_bytes: int = 0) -> None:
        """Tells everyone what is in the log now, where it takes so many bytes."""
        self.passed(records[-1].seq, records[-1].event)
        if self._shared is None:
            return
        self._shared.tell(records, data_bytes)
        self._wake(False)
        self._wake(True)
        self._swept += len(records)
        if self._swept >= BUFFER_MAX:
            self._sweep()

    def _sweep(self) -> None:
        """Lets those go who will not read any more; looked for now and then, so that they cost nothing."""
        self._swept = 0
        for subscription in tuple(self._subscriptions):
            if subscription.lagging:
                self.leave(subscription)

    def passed(self, seq: int, last: Event) -> None:
        """Notes where the log ends; all that is to be done if nobody listens."""
        self.seq = seq
        self.terminal = last if isinstance(last, Terminal) else None

    def live(self, deltas: list[Live]) -> None:
        """Tells everyone what is being written; nothing of it is kept."""
        if self.hearing and self._shared is not None:
            self._shared.stream(deltas)
            self._wake(True)

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
