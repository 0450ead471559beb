"""Reading sessions: their records, their state, and what follows from a command as it happens.

What another process drives is read from the log; what this one drives is told by its hub.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from weakref import WeakValueDictionary

from windlass.events import codec
from windlass.events.base import Command, Event
from windlass.events.errors import UsageError
from windlass.events.live import StreamTruncated
from windlass.events.runs import Terminal
from windlass.kernel import log
from windlass.kernel.state import State
from windlass.store.base import Key, Store
from windlass.store.chain import history

from . import cursors
from .attached import Lent
from .binding import Bound
from .briefing import Briefing
from .cursors import CursorMismatch
from .driver import Driver, Rested
from .hub import LOOK, Hub, Look, Record, Subscription, Told
from .jobs import Job, StillBusy, begun, dates, jobs_of
from .owner import APPEND_EVENTS_MAX, Owner
from .ports import Ports
from .result import Parked
from .session import ends


class Active:
    """A session that this process drives now."""

    def __init__(self, owner: Owner, driver: Driver, briefing: Briefing) -> None:
        self.owner = owner
        self.driver = driver
        self.briefing = briefing
        self.task: asyncio.Task[Rested] | None = None


class Reading:
    """The reading side of a runtime."""

    store: Store
    ports: Ports
    parked: dict[Key, str]
    _active: dict[Key, Active]
    _bound: dict[str, Bound]
    _hubs: dict[Key, Hub]
    _opening: WeakValueDictionary[Key, asyncio.Lock]
    """One lock for each session that is being opened or let go, as long as somebody holds it."""
    _closed: bool
    _poll_ms: int

    async def send(self, key: Key, command: Command, lent: Lent | None = None) -> None:
        """Has a command taken; the runtime knows how."""
        raise AssertionError("only a runtime takes commands")

    @property
    def closed(self) -> bool:
        """Whether it has been closed, or is being closed."""
        return self._closed

    def hub(self, key: Key) -> Hub:
        found = self._hubs.get(key)
        if found is None:
            found = self._hubs[key] = Hub(closed=self._closed)
        return found

    def _leave(self, key: Key, listener: Subscription) -> None:
        """A reader goes. Where it was the last one of a session that nobody drives here, nothing is kept for it."""
        listener.close()
        self._forget_hub(key)

    def _forget_hub(self, key: Key) -> None:
        hub = self._hubs.get(key)
        if hub is None or hub.listening or key in self._active or key in self._opening:
            return  # whoever opens it has this hub in hand
        del self._hubs[key]

    async def _taken_at(self, key: Key, command_id: str) -> int | None:
        """Where the log took a command; None where it has not."""
        for taken in await self.store.taken(key, after=_just_before(command_id), limit=1):
            if taken.command_id == command_id:
                return taken.seq
        return None

    async def taken_after(self, key: Key, command_id: str) -> int:
        """The seq behind which a command that was taken stands."""
        found = await self._taken_at(key, command_id)
        return found - 1 if found is not None else 0

    async def follow(self, key: Key, command: Command, lent: Lent | None = None) -> AsyncIterator[Told]:
        """Sends a command and gives what follows, until its terminal; of one that was taken before, what followed."""
        listener = self.hub(key).subscribe()  # at once: a hub without listeners may be gone after the next await
        try:
            head = await self.store.head(key)
            after = head.seq if head is not None else 0
            before = await self._taken_at(key, command.command_id)
            if before is not None:
                after = before - 1
            await self.send(key, command, lent)
            async for told in self._merged(key, listener, after):
                yield told
                if isinstance(told, Record) and ends(told.event, command.command_id):
                    return
            if not listener.lagging:
                raise closed_meanwhile(key)
        finally:
            self._leave(key, listener)

    async def tail(self, key: Key, *, after: str | int | None = None) -> AsyncIterator[Told]:
        """The log behind a place, then what happens, live. Raises `CursorMismatch` for a cursor of another log."""
        listener = self.hub(key).subscribe()
        try:
            async for told in self._merged(key, listener, await self.seq_of(key, after)):
                yield told
        finally:
            self._leave(key, listener)

    async def seq_of(self, key: Key, after: str | int | None) -> int:
        """The seq behind which a reader goes on. A cursor is checked against the log, a plain seq is not."""
        if after is None or isinstance(after, int):
            return after or 0
        seq, begins = cursors.read(after)
        if seq == 0:
            return 0
        found = await self._hash_at(key, seq)
        if found is None:
            raise CursorMismatch(key.session, after, f"the log ends before record {seq}")
        if not found.startswith(begins):
            raise CursorMismatch(key.session, after, f"record {seq} is another one there")
        return seq

    async def cursor_at(self, key: Key, seq: int) -> str:
        """The cursor behind a record that is in the log."""
        return cursors.made(seq, await self._hash_at(key, seq) or "") if seq > 0 else cursors.BEGINNING

    async def _hash_at(self, key: Key, seq: int) -> str | None:
        """The hash of the append that holds a record; None where the log ends before it."""
        head = await self.store.head(key)
        if head is None or head.seq < seq:
            return None
        near = APPEND_EVENTS_MAX
        for after, until in ((max(0, seq - near), seq + near), (0, None)):
            async for sealed in history(self.store, key, after=after, until=until):
                if sealed.first_seq <= seq <= sealed.last_seq:
                    return sealed.hash
        return None

    async def end(self, key: Key) -> str:
        """The cursor behind the last record of the log."""
        head = await self.store.head(key)
        return cursors.made(head.seq, head.hash) if head is not None else cursors.BEGINNING

    async def _merged(self, key: Key, listener: Subscription, after: int) -> AsyncIterator[Told]:
        """Reads the log up to where the listener begins, then the listener. Whatever the listener may have missed (a
        gap, or what another process wrote) is read from the log."""
        told: Told | Look | None = LOOK
        while told is not None:
            if isinstance(told, Look) or (isinstance(told, Record) and told.seq > after + 1):
                async for record in self.records(key, after=after):
                    yield record
                    after = record.seq
            if isinstance(told, Record) and told.seq == after + 1:
                yield told
                after = told.seq
            elif not isinstance(told, Record | Look):
                yield told
            told = await listener.next_or_look(None if key in self._active else self._poll_ms / 1000)
        if listener.lagging:
            yield StreamTruncated(reason="disconnected", cursor=await self.cursor_at(key, after), after_seq=after)

    async def records(self, key: Key, *, after: int = 0, until: int | None = None) -> AsyncIterator[Record]:
        """The committed records of a session after a seq."""
        start = after
        head = await self.store.head(key)
        if head is None or head.seq <= after:
            return
        # An append may begin before `after` and end behind it.
        begin = max(0, start - APPEND_EVENTS_MAX)
        async for sealed in history(self.store, key, after=begin, until=until):
            if sealed.last_seq <= start:
                continue
            append = codec.decode(sealed.data)
            for offset, event in enumerate(append.events):
                seq = append.first_seq + offset
                if seq > start and isinstance(event, Event):
                    yield Record(seq=seq, at_ms=append.at_ms, event=event, first=append.first_seq, hash=append.hash)

    # --- looking ---

    async def state(self, key: Key) -> State:
        """The state of a session, as the log has it."""
        state = await self._seen(key)
        active = self._active.get(key)
        return log.copy(state) if active is not None and active.owner.state is state else state

    async def _seen(self, key: Key) -> State:
        """The same, perhaps the owner's own: to be read at once, neither kept nor changed."""
        active = self._active.get(key)
        if active is not None and not active.owner.stale:
            return active.owner.state
        owner = Owner(self.store, key, self.ports, Hub())
        await owner.load()
        return owner.state

    async def jobs(self, key: Key) -> tuple[Job, ...]:
        """What a session is busy with or waits for, as the log has it."""
        state = await self.state(key)
        first = begun(state)
        if first > state.seq:
            return jobs_of(state, {}, state.now_ms)
        since = dates([record async for record in self.records(key, after=first - 1)])
        active = self._active.get(key)
        return jobs_of(state, since, active.owner.now_ms() if active is not None else self.ports.now_ms())

    async def wait_idle(self, key: Key, *, timeout_ms: int | None = None) -> None:
        """Waits until no run is active. Raises `StillBusy`, which names what runs, where that takes longer than given,
        and `Parked` where nothing here can go on with it."""
        if timeout_ms is None:
            await self._idle(key)
            return
        deadline = asyncio.timeout(timeout_ms / 1000)
        try:
            async with deadline:
                await self._idle(key)
        except TimeoutError:
            if not deadline.expired():
                raise
            why = f"is still at work after {timeout_ms} ms"
            raise StillBusy(key.session, await self.jobs(key), why) from None

    async def _idle(self, key: Key) -> None:
        while await self._works(key):
            listener = self.hub(key).subscribe(live=False)
            try:
                while await self._works(key):
                    if key in self.parked:
                        raise Parked(f"session {key.session!r} is parked: {self.parked[key]}")
                    if not await self._until_ended(key, listener):
                        break
                else:
                    return
            finally:
                self._leave(key, listener)
            if not listener.lagging:
                raise closed_meanwhile(key)

    async def _works(self, key: Key) -> bool:
        """Whether a run is active, as far as memory or the log can tell."""
        active = self._active.get(key)
        if active is None:
            return (await self._seen(key)).active
        return active.owner.stale or active.owner.state.active

    async def _until_ended(self, key: Key, listener: Subscription) -> bool:
        """Waits until it is worth looking again; False where the listener is over."""
        while True:
            active = self._active.get(key)
            sure = active is not None and not active.owner.stale
            told = await listener.next_or_look(None if sure else self._poll_ms / 1000)
            if not sure or not isinstance(told, Record) or isinstance(told.event, Terminal):
                return told is not None


def closed_meanwhile(key: Key) -> UsageError:
    """What whoever waits for a session at work is told when the runtime is closed."""
    return UsageError(
        f"this runtime was closed while session {key.session!r} was at work: it goes on where its store is opened again"
    )


def _just_before(command_id: str) -> str:
    """A text that sorts before an id and behind all that come before it."""
    last = ord(command_id[-1:] or "\1") - 1
    return command_id[:-1] + (chr(last) + "\U0010ffff" if 0 <= last < 0xD800 else "")
