"""One session in memory, owned: its state, the end of its chain, and the one way to add to its log.

`take` is the only writer. A fact is decided, sealed, appended and only then published. When an append fails, what is
in memory is thrown away and folded again from the log, which alone says whether the append was kept.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from windlass.events.base import Command, Event, Fact
from windlass.events.errors import (
    CodecError,
    CommandTaken,
    NotFound,
    Refused,
    SeqConflict,
    StaleEpoch,
    StorageFull,
    StoreError,
    UsageError,
)
from windlass.events.live import StorePaused
from windlass.events.stored import codec, record
from windlass.events.stored.record import Sealed
from windlass.events.tools.calls import ToolStarted
from windlass.events.values.blocks import refs_in
from windlass.events.values.ids import child_task_id
from windlass.events.values.items import HistoryItem
from windlass.kernel import log
from windlass.kernel.outgoing_messages import messages
from windlass.kernel.owed import needs
from windlass.kernel.state import STATE_VERSION, State
from windlass.kernel.step import step
from windlass.runtime.host.ports import Ports
from windlass.runtime.host.steady_clock import SteadyClock
from windlass.runtime.streams.event_loggers import log_events
from windlass.runtime.streams.log_reader import LogReader
from windlass.runtime.streams.record import Record, causes, records_of
from windlass.runtime.streams.subscribers import Hub
from windlass.store.base import Key, Message, Snapshot, Store

from .event_memory import EventMemory
from .held_lease import Lease
from .index_row import Listing
from .outbox import Outbox
from .rest_waiters import RestWaiters
from .secret_filter import holds_secret, without_secrets
from .session_clock import SessionClock, time_of
from .store_retries import FINAL, StorePatience

SNAPSHOT_EVERY_RECORDS = 1_000
CONFLICTS_MAX = 3
FETCHES_MAX = 100
TURN_LOOK_S = 0.5
"""How often whoever does not wait for room looks whether the one before does."""

T = TypeVar("T")
Along = Callable[[State], Iterable[Fact]]
"""Makes the facts that a session begins with, each of the state behind the one before."""


class Owner:
    """The writer of one session under one epoch."""

    def __init__(
        self,
        store: Store,
        key: Key,
        ports: Ports,
        hub: Hub,
        steady: SteadyClock,
        *,
        snapshot_every: int = SNAPSHOT_EVERY_RECORDS,
    ) -> None:
        self.store = store
        self.key = key
        self.ports = ports
        self.hub = hub
        self.log = LogReader(store)
        self.rest = RestWaiters()
        """Who waits for its rest."""
        self.lease = Lease(store, key, ports)
        self.memory = EventMemory(key, self.log)
        self._outbox = Outbox(store, key, self.memory)
        self.state = State()
        self.hash = ""
        self.stale = True
        self.on_committed: Callable[[list[Event]], None] | None = None
        self.on_kept: Callable[[Key, int], None] | None = None
        """Told from where on something was added to the log."""
        self.on_taken: Callable[[], None] | None = None
        """Told whenever a fact was taken, refused or given up: what is owed may be something else now."""
        self.on_sent: Callable[[Key, Sequence[str]], None] | None = None
        """Told which sessions were sent something with an append, but for children that were sent their task."""
        self._steady = steady
        self._clock = SessionClock(steady)
        self._patience = StorePatience(ports, key.session, functools.partial(tell_paused, hub))
        self._unsure = False
        """Whether an append was handed over whose end nobody heard: it may still be written."""
        self._read: set[str] = set()
        """The hashes of the appends that the last `load` read."""
        self._lock = asyncio.Lock()
        self._listing = Listing(key)
        self._snapshot_every = snapshot_every
        self._snapshot_seq = 0

    @property
    def epoch(self) -> int:
        return self.lease.epoch

    def now_ms(self) -> int:
        """The session's own clock."""
        return self._clock.now_ms()

    async def insist(self, work: Callable[[], Awaitable[T]]) -> T:
        """Does what may be done twice, again if the store is full or does not answer."""
        return await self._patience.insist(work)

    @property
    def paused(self) -> str:
        """Why the session waits for its store; empty unless it does."""
        return self._patience.paused

    def drives(self) -> None:
        """From now on work may be under way that only this owner can put on record: a full disk is waited for."""
        self._patience.for_ever = True

    async def release(self) -> None:
        """Gives the session up; whoever waits for its rest looks again."""
        self.rest.tell()
        await self.lease.release()

    async def may_begin(self, is_owed: Callable[[], bool]) -> bool:
        """Whether an effect may begin at this very moment: it is still owed, as far as the log says, and nobody else
        can have taken the session. Raises `StaleEpoch` if somebody has."""
        while True:
            if self.busy:
                await self.settled()
            if not is_owed():
                return False
            if self.lease.lasts:
                return True
            await self.insist(self.lease.keep)

    # --- reading ---

    async def load(self) -> None:
        """Folds the log from its newest usable snapshot."""
        if self._unsure:
            # Behind this write, whatever was handed over before has been written or never will be.
            await self.lease.keep()
            self._unsure = False
        # Nobody else can have written since the claim, and we have not yet.
        head, self.lease.head = self.lease.head, None
        folded = await self.log.fold(self.key, head)
        state = folded.state
        if 0 < self.epoch < state.epoch:
            # What is owed under another epoch is owed by its owner alone.
            raise StaleEpoch(f"session {self.key.session!r} is at epoch {state.epoch}, this owner has {self.epoch}")
        self.state = state
        self._listing.forget()
        self.hash = folded.hash
        self._read = {append.hash for append in folded.appends}
        self._snapshot_seq = folded.snapshot_seq
        events = {
            seq: event
            for append in folded.appends
            for seq, event in enumerate(append.events, start=append.first_seq)
            if isinstance(event, Event)
        }
        self.memory.reset({seq: events[seq] for seq in needs(state) if seq in events})
        await self._set_clock(state.now_ms)
        self.stale = False
        if self.hub.listening:
            news = [told for append in folded.appends for told in records_of(append, after=self.hub.seq)]
            if news:
                self.hub.committed(news)
        self.hub.seq = max(self.hub.seq, state.seq)
        if folded.appends and not self.store.capabilities.sends:
            last = folded.appends[-1]
            known = [event for event in last.events if isinstance(event, Event)]
            sends = messages(state, last.first_seq, known)
            await self._outbox.send_apart(await self._outbox.filled(state, last.first_seq, known, sends))
        self.rest.tell()

    async def _set_clock(self, log_ms: int) -> None:
        """Lets the session's time go on from where it is: what has passed since its log was written is counted, if
        anybody knows."""
        if self._steady.now_ms() < log_ms:
            row = await self.store.index.get(self.key)
            if row is not None:
                log_ms = max(log_ms, time_of(row, self._steady.now_ms()))
        self._clock.not_before(log_ms)

    def follows(self, at_ms: int) -> None:
        """What is put on record from now on came after this time of another session's clock."""
        self._clock.not_before(at_ms + 1)

    async def event(self, seq: int) -> Event:
        """The event at a seq, content included."""
        for _ in range(FETCHES_MAX):
            event = self.memory.known(seq)
            if event is not None:
                return event
            await self.insist(lambda: self.memory.fetch((seq,)))
        raise NotFound(f"session {self.key.session!r} does not stand still: event {seq} was read and forgotten again")

    async def items(self) -> list[HistoryItem]:
        """The visible history as items. What was rendered once is the same object the next time."""
        for _ in range(FETCHES_MAX):
            if self.busy:
                await self.settled()  # what an append under way would add is not in the log to be read
            refs = list(self.state.history.items)
            missing = self.memory.missing(refs)
            if not missing:
                return self.memory.rendered(refs)
            await self.insist(lambda missing=missing: self.memory.fetch(missing))  # type: ignore[misc]
        raise NotFound(f"session {self.key.session!r} does not stand still while it is rendered")

    async def erase(self, seq: int, *, by: str, why: str) -> None:
        """Erases the content of an event, what is kept beside it included (a large result, a picture), from the store
        and from memory. Nothing is added meanwhile, so nobody reads it in between. Raises `UsageError` while a run is
        active."""
        await self.settled()
        event = await self.event(seq)
        async with self._lock:
            if self.stale or self.state.active:
                raise UsageError(f"session {self.key.session!r} is at work: wait until it rests, or interrupt it first")
            await self.store.log.erase(self.key, seq, by=by, why=why, at_ms=self.now_ms())
            for ref in refs_in(getattr(event, "body", None)):
                await self.store.blobs.erase(self.key.tenant, ref.digest)
            self.memory.drop(seq)

    # --- writing ---

    @property
    def busy(self) -> bool:
        """Whether an append is under way: the state in memory is then ahead of the log."""
        return self._lock.locked() or self.stale

    @property
    def left_stale(self) -> bool:
        """Whether memory is not what the log says and nobody is about to mend that."""
        return self.stale and not self._lock.locked()

    async def settled(self) -> None:
        """Waits until memory is what the log says. No effect may be read off the state before that."""
        while self.busy:
            async with self._lock:
                if self.stale:
                    await self.insist(self.load)

    async def take(
        self,
        fact: Fact,
        *,
        takes: Sequence[str] = (),
        blobs: Mapping[str, bytes] | None = None,
        waits: bool = True,
        along: Along | None = None,
    ) -> list[Event]:
        """Adds a fact and what follows from it to the log. Raises `Refused` and changes nothing if it does not
        fit, `StaleEpoch` if the session belongs to somebody else now. If the disk is full it `waits` for room, or
        raises `StorageFull`. When nobody heard whether the append was kept, the log is asked.

        What comes `along` with the fact that begins a session is kept by the same append, as far as it fits: what is
        left out, with all behind it, is to be taken by itself."""
        try:
            if waits:
                await self._lock.acquire()
            else:
                await self._turn_or_full()
            try:
                return await self._take(fact, takes, blobs, waits, along)
            finally:
                self._lock.release()
        finally:
            if self.on_taken is not None:
                self.on_taken()

    async def _turn_or_full(self) -> None:
        """Waits for whoever adds to the log, for one who does not wait for room: not if the one before does."""
        while self._lock.locked():
            if self.paused:
                raise StorageFull(self.paused)
            try:
                async with asyncio.timeout(TURN_LOOK_S):
                    await self._lock.acquire()
            except TimeoutError:
                continue
            return
        await self._lock.acquire()

    async def _take(
        self,
        fact: Fact,
        takes: Sequence[str],
        blobs: Mapping[str, bytes] | None,
        waits: bool,
        along: Along | None,
    ) -> list[Event]:
        tries = conflicts = 0
        events: list[Event] = []
        sealed: Sealed | None = None
        while True:
            try:
                if self.stale:
                    await self.load()
                    if sealed is not None and sealed.hash in self._read:
                        log_events(self.key, sealed.first_seq, events)
                        if self.on_kept is not None:
                            self.on_kept(self.key, sealed.first_seq)
                        if self.on_committed is not None:
                            self.on_committed(events)
                        return events
                seq = self.state.seq + 1
                events, sealed = self._sealed(fact, along)
                if holds_secret(sealed) and ((clean := without_secrets(fact)) is not fact or along is not None):
                    fact, along = clean, None  # memory is folded anew: what it holds must be what is kept
                    continue
                to_send = messages(self.state, seq, events)
                sends = await self._outbox.filled(self.state, seq, events, to_send) if to_send else ()
                taken = takes if along is None else [*takes, *_commands(events[1:])]
                await self._append(sealed, events, taken, blobs, sends)
            except FINAL:
                raise
            except StorageFull as error:
                if not waits:
                    raise
                await self._patience.wait_for_room(error)
            except SeqConflict:
                conflicts += 1
                if conflicts >= CONFLICTS_MAX:
                    raise
            except StoreError as error:
                tries += 1
                await self._patience.wait_after(tries, error)
            else:
                self._patience.went_on()
                self._publish(seq, events, len(sealed.data))
                return events

    def _sealed(self, fact: Fact, along: Along | None) -> tuple[list[Event], Sealed]:
        """The fact and its decisions, folded and ready to be kept, with what comes along. Until that is known, memory
        may not be trusted."""
        state, seq = self.state, self.state.seq + 1
        self.stale = True
        try:
            events = step(state, fact, self.now_ms())
        except Refused:
            self.stale = False
            raise
        encoded, salt = codec.encode_event, self.ports.salt
        entries = [encoded(event, salt) for event in events]
        # Types are not checked where values are made, and facts hold what agents, tools, hooks and models gave: one
        # that cannot be read again would make the whole session unreadable.
        codec.require_readable(type(fact), entries[0][0], entries[0][1])
        if along is not None:
            self._add_along(along, events, entries)
        return events, record.seal(self.hash, seq, state.now_ms, self.epoch, entries)

    def _add_along(self, along: Along, events: list[Event], entries: list[tuple[bytes, bytes, str]]) -> None:
        """Adds what comes along and what follows from it, folded, up to the first fact that does not fit."""
        state, encoded, salt = self.state, codec.encode_event, self.ports.salt
        with contextlib.suppress(Refused, CodecError):
            for fact in along(state):
                entry = encoded(fact, salt)
                codec.require_readable(type(fact), entry[0], entry[1])
                decided = step(state, fact, state.now_ms)
                events += decided
                entries += (entry, *(encoded(event, salt) for event in decided[1:]))

    async def _append(
        self,
        sealed: Sealed,
        events: list[Event],
        takes: Sequence[str],
        blobs: Mapping[str, bytes] | None,
        sends: Sequence[Message] = (),
    ) -> None:
        self.ports.point("before_append")
        self._unsure = True
        self.lease.head = None
        state, barrier = self.state, bool(takes) or self._dispatches_once(events)
        row = self._listing.due(state, events, self._clock.read_beside(state.now_ms))
        try:
            if sends and self.store.capabilities.sends:
                await self.store.log.append(
                    self.key, sealed, takes=takes, index=row, blobs=blobs, barrier=barrier, sends=sends
                )
            else:
                await self.store.log.append(self.key, sealed, takes=takes, index=row, blobs=blobs, barrier=barrier)
                if sends:
                    await self._outbox.send_apart(sends)
        except (StaleEpoch, SeqConflict, CommandTaken, StorageFull):
            self._unsure = False
            raise
        self._unsure = False
        self._listing.kept(row)
        self.hash = sealed.hash
        self.stale = False
        self.ports.point("after_append")
        # A child that gets its task is begun by whoever drives this session.
        told = [sent.session for sent in sends if sent.command.command_id != child_task_id(sent.session)]
        if told and self.on_sent is not None:
            self.on_sent(self.key, told)

    def _publish(self, seq: int, events: list[Event], data_bytes: int) -> None:
        log_events(self.key, seq, events)
        if self.on_kept is not None:
            self.on_kept(self.key, seq)
        self.memory.add(seq, events, self.state)
        if self.hub.listening:
            now, seal, seqs = self.state.now_ms, self.hash, causes(seq, events)
            self.hub.committed(
                [
                    Record(seq=seq + offset, at_ms=now, event=event, first=seqs[offset], hash=seal)
                    for offset, event in enumerate(events)
                ],
                data_bytes,
            )
        else:
            self.hub.passed(seq + len(events) - 1, events[-1])
        if self.rest.awaited and not self.state.active:
            self.rest.tell()
        if self.on_committed is not None:
            self.on_committed(events)

    def _dispatches_once(self, events: list[Event]) -> bool:
        for event in events:
            if type(event) is ToolStarted:
                call = self.state.calls.by_id.get(event.call_id)
                if call is None or call.contract == "at_most_once":
                    return True
        return False

    async def snapshot(self, *, force: bool = False) -> None:
        """Takes a snapshot if the tail has outgrown the last one."""
        grown = self.state.seq - self._snapshot_seq
        if self.stale or (grown < self._snapshot_every and not force):
            return
        made = Snapshot(seq=self.state.seq, hash=self.hash, state_version=STATE_VERSION, data=log.dump(self.state))
        self.ports.point("before_snapshot")
        try:
            await self.store.log.put_snapshot(self.key, made)
        except StoreError:
            return  # it is disposable
        self.ports.point("after_snapshot")
        self._snapshot_seq = made.seq


def tell_paused(hub: Hub, message: str) -> None:
    """Tells readers that a session waits for room."""
    if hub.listening:
        hub.live([StorePaused(reason="storage_full", message=message, after_seq=hub.seq)])


def _commands(events: Iterable[Event]) -> list[str]:
    """The ids of the commands among some events."""
    return [event.command_id for event in events if isinstance(event, Command)]
