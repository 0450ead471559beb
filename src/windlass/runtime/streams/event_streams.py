"""Streams of a session's events: the log up to now, then what happens, live; and what follows from one command.

What another process drives is read from the log; what this one drives is told by its hub.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing

from windlass.events.base import Event
from windlass.events.commands import CommandCompleted, CommandRefused
from windlass.events.errors import UsageError
from windlass.events.live import StreamTruncated
from windlass.events.runs import Terminal
from windlass.events.stored.registry import EVENTS
from windlass.runtime.host.slot_table import Slots
from windlass.store.base import Key

from .cursors import Cursors
from .log_reader import LogReader
from .record import Record
from .subscribers import LOOK, Look, Subscription, Told

FEED_S = 10.0
"""How long a command waits for the stream of what follows from it, if another process tells of that."""


class EventStreams:
    """Hands the events of sessions to readers."""

    def __init__(self, slots: Slots, log: LogReader, cursors: Cursors, poll_ms: int) -> None:
        self._slots = slots
        self._log = log
        self._cursors = cursors
        self._poll_ms = poll_ms

    async def tail(self, key: Key, *, after: str | int | None = None) -> AsyncIterator[Told]:
        """The log behind a place, then what happens, live. Raises `CursorMismatch` for a cursor of another log."""
        listener = self._slots.subscribe(key)
        try:
            async for run in self._merged(key, listener, await self._cursors.seq_of(key, after)):
                for told in run:
                    yield told
        finally:
            self._slots.leave(key, listener)

    async def follow(self, key: Key, command_id: str, send: Callable[[], Awaitable[None]]) -> AsyncIterator[Told]:
        """Sends a command and gives what follows, until its terminal; of one that was taken before, what followed."""
        async with aclosing(self.follow_together(key, command_id, send)) as runs:
            async for run in runs:
                for told in run:
                    yield told

    async def follow_together(
        self, key: Key, command_id: str, send: Callable[[], Awaitable[None]]
    ) -> AsyncGenerator[Sequence[Told]]:
        """The same, with what is there already together."""
        listener = self._slots.subscribe(key)  # at once: a slot without listeners may be gone after the next await
        try:
            feeds = self._slots.feeds
            fed = feeds is not None and await feeds.ready(key, FEED_S)
            listener.looked()
            head = await self._log.head(key)
            after = head.seq if head is not None else 0
            before = await self._log.taken_at(key, command_id)
            if before is not None:
                after = before - 1
            await send()
            # What a driver of this process has written since, or somebody else tells of, the listener has heard.
            heard = before is None and (fed or key in self._slots.driven)
            async for run in self._merged(key, listener, after, heard=heard):
                yield run
                last = run[-1]
                if type(last) is Record and ends(last.event, command_id):
                    return
            if not listener.lagging:
                raise closed_meanwhile(key)
        finally:
            self._slots.leave(key, listener)

    async def _merged(
        self, key: Key, listener: Subscription, after: int, *, heard: bool = False
    ) -> AsyncIterator[Sequence[Told]]:
        """Reads the log up to where the listener begins, unless it has `heard` all that came since, then the listener.
        Whatever the listener may have missed (a gap, or what another process wrote) is read from the log. Deltas that
        are there already come together, so that less is done for each; a record comes alone."""
        told: Told | Look | None = LOOK if not heard else await self._next(key, listener)
        while told is not None:
            record = told if isinstance(told, Record) else None
            if record is None and not isinstance(told, Look):
                yield [told, *listener.deltas_at_hand()]
            elif record is None or record.seq > after + 1:
                async for missed in self._log.records(key, after=after):
                    yield [missed]
                    after = missed.seq
            if record is not None and record.seq == after + 1:
                yield [record]
                after = record.seq
            told = listener.at_hand() or await self._next(key, listener)
        if listener.lagging:
            cursor = await self._cursors.behind(key, after)
            yield [StreamTruncated(reason="disconnected", cursor=cursor, after_seq=after)]

    async def _next(self, key: Key, listener: Subscription) -> Told | Look | None:
        waits = None if key in self._slots.driven else self._slots.patience_s(key, self._poll_ms / 1000)
        return await listener.next_or_look(waits)


ENDS = frozenset(kind for kind in EVENTS if issubclass(kind, (Terminal, CommandCompleted, CommandRefused)))
"""What may end a command."""


def ends(event: Event, command_id: str) -> bool:
    """Whether an event is the terminal of a command."""
    if type(event) not in ENDS:  # as most are: asked for each event
        return False
    if isinstance(event, Terminal):
        return command_id in event.commands
    return isinstance(event, CommandCompleted | CommandRefused) and event.command_id == command_id


def closed_meanwhile(key: Key) -> UsageError:
    """What whoever waits for a session at work is told when the runtime is closed."""
    return UsageError(
        f"this runtime was closed while session {key.session!r} was at work: it goes on when its store is opened again"
    )
