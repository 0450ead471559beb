"""One session in memory, owned: its state, the end of its chain, and the one way to add to its log.

`take` is the only writer. A fact is decided, sealed, appended and only then published. When an append fails, what is
in memory is thrown away and folded again from the log, which alone says whether the append was kept.
"""

from __future__ import annotations

import asyncio
import operator
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from windlass.events import codec, record
from windlass.events.base import Event, Fact
from windlass.events.calls import ToolStarted
from windlass.events.errors import (
    CodecError,
    CommandTaken,
    LeaseHeld,
    NotFound,
    Refused,
    SeqConflict,
    StaleEpoch,
    StorageFull,
    StoreError,
    StorePoisoned,
    UsageError,
)
from windlass.events.items import HistoryItem
from windlass.events.record import Sealed
from windlass.events.specs import ItemRef
from windlass.kernel import log
from windlass.kernel.decide import step
from windlass.kernel.render import item
from windlass.kernel.state import STATE_VERSION, State
from windlass.store.base import Head, Key, Snapshot, Store
from windlass.store.chain import history

from .hub import Hub, Record
from .listing import Listing
from .ports import Ports

SNAPSHOT_EVERY_RECORDS = 1_000
FULL_RETRY_MS = 1_000
CONFLICTS_MAX = 3
STORE_RETRIES_MAX = 4
STORE_RETRY_MS = 100
"""How often, and after how long at first, something is tried again with a store that does not answer."""
FETCHES_MAX = 100
APPEND_EVENTS_MAX = 1_024
"""An append is shorter than this in all but name; a longer one is found by reading from the beginning."""


FINAL = (StaleEpoch, CommandTaken, LeaseHeld, NotFound, StorePoisoned)
"""What trying again does not change."""

T = TypeVar("T")


class Owner:
    """The writer of one session under one epoch."""

    def __init__(
        self, store: Store, key: Key, ports: Ports, hub: Hub, *, snapshot_every: int = SNAPSHOT_EVERY_RECORDS
    ) -> None:
        self.store = store
        self.key = key
        self.ports = ports
        self.hub = hub
        self.epoch = 0
        self.state = State()
        self.hash = ""
        self.stale = True
        self.paused = ""
        self.on_pause: Callable[[str], None] | None = None
        self.on_committed: Callable[[list[Event]], None] | None = None
        self.on_taken: Callable[[], None] | None = None
        """Told whenever a fact was taken, refused or given up: what is owed may be something else now."""
        self._runner = ""
        self._ttl_ms = 0
        self._lease_until_ms = 0
        self._clock_ms = 0
        self._clock_at_ms = 0
        self._head: Head | None = None
        """Where the log ended when it was claimed, until it is read."""
        self._unsure = False
        """Whether an append was handed over whose end nobody heard: it may still be written."""
        self._read: set[str] = set()
        """The hashes of the appends that the last `load` read."""
        self._lock = asyncio.Lock()
        self._listing = Listing(key)
        self._waiters: list[asyncio.Future[None]] = []
        self._events: dict[int, Event] = {}
        self._snapshot_every = snapshot_every
        self._snapshot_seq = 0
        self._refs: list[ItemRef] = []
        self._items: list[HistoryItem] = []
        self._names: dict[str, tuple[str, str | None]] = {}

    # --- the right to write ---

    async def claim(self, runner: str, ttl_ms: int) -> None:
        """Takes the session for a runner under a new epoch. Raises `LeaseHeld` while another one lives on it."""
        since, now = self.ports.monotonic_ms(), self.ports.now_ms()
        try:
            claim = await self.store.claim(self.key, runner=runner, ttl_ms=ttl_ms, now_ms=now, renew=False)
        except LeaseHeld as held:
            if not self.ports.gone(held.owner):
                raise
            # Its process is gone for certain, so its lease is waited for by nobody.
            over = max(now, held.until_ms) + 1
            claim = await self.store.claim(self.key, runner=runner, ttl_ms=ttl_ms, now_ms=over, renew=False)
        self.epoch = claim.epoch
        self._head = claim.head
        self._runner, self._ttl_ms = runner, ttl_ms
        self._lease_until_ms = since + ttl_ms

    async def keep(self) -> None:
        """Prolongs the lease. Raises `StaleEpoch` where the session belongs to somebody else now."""
        since = self.ports.monotonic_ms()
        await self.store.keep(
            self.key, runner=self._runner, epoch=self.epoch, ttl_ms=self._ttl_ms, now_ms=self.ports.now_ms()
        )
        self._lease_until_ms = since + self._ttl_ms

    @property
    def in_lease(self) -> bool:
        """Whether nobody else can have taken the session yet. Looked at right before an effect begins."""
        return self.ports.monotonic_ms() < self._lease_until_ms

    async def release(self) -> None:
        """Gives the lease back; a store that does not answer will see it run out."""
        self.tell_waiters()
        try:
            await self.store.release(self.key, runner=self._runner, epoch=self.epoch)
        except StoreError:
            return

    def now_ms(self) -> int:
        """The session's own clock: the wall clock, but it never goes back, and never slower than time itself. So a
        clock that was set back makes no timer wait longer."""
        mono = self.ports.monotonic_ms()
        self._clock_ms = max(self.ports.now_ms(), self._clock_ms + mono - self._clock_at_ms)
        self._clock_at_ms = mono
        return self._clock_ms

    async def insist(self, work: Callable[[], Awaitable[T]]) -> T:
        """Does what may be done twice, again where the store is full or does not answer."""
        tries = 0
        while True:
            try:
                return await work()
            except FINAL:
                raise
            except StorageFull as error:
                await self._wait_for_room(error)
            except StoreError:
                tries += 1
                if tries > STORE_RETRIES_MAX:
                    raise
                await self.ports.sleep_ms(STORE_RETRY_MS * 2**tries)

    # --- reading ---

    async def load(self) -> None:
        """Folds the log from its newest usable snapshot."""
        if self._unsure:
            # Behind this write, whatever was handed over before has been written or never will be.
            await self.keep()
            self._unsure = False
        # Nobody else can have written since the claim, and we have not yet.
        head, self._head = self._head or await self.store.head(self.key), None
        if head is None:
            raise NotFound(f"there is no session {self.key.session!r}")
        if head.seq == 0:
            snapshot, lines = None, []  # a new session: there is nothing to ask for
        else:
            snapshot = await self._snapshot()
            lines = [sealed async for sealed in history(self.store, self.key, after=snapshot.seq if snapshot else 0)]
        if snapshot is not None and snapshot.hash != (lines[0].prev_hash if lines else head.hash):
            snapshot = None
            lines = [sealed async for sealed in history(self.store, self.key)]
        state = log.load(snapshot.data) if snapshot is not None else State()
        tail: dict[int, Event] = {}
        news: list[Record] = []
        for sealed in lines:
            append = codec.decode(sealed.data)
            log.fold_append(state, append)
            for offset, event in enumerate(append.events):
                if isinstance(event, Event):
                    seq = append.first_seq + offset
                    tail[seq] = event
                    if seq > self.hub.seq:
                        news.append(
                            Record(seq=seq, at_ms=append.at_ms, event=event, first=append.first_seq, hash=append.hash)
                        )
        if 0 < self.epoch < state.epoch:
            # What is owed under another epoch is owed by its owner alone.
            raise StaleEpoch(f"session {self.key.session!r} is at epoch {state.epoch}, this owner has {self.epoch}")
        self.state = state
        self._listing.forget()
        self.hash = lines[-1].hash if lines else snapshot.hash if snapshot is not None else head.hash
        self._read = {sealed.hash for sealed in lines}
        self._snapshot_seq = snapshot.seq if snapshot is not None else 0
        self._events = {seq: tail[seq] for seq in self._wanted() if seq in tail}
        self._refs, self._items, self._names = [], [], {}
        self._clock_ms, self._clock_at_ms = max(self._clock_ms, state.now_ms), self.ports.monotonic_ms()
        self.stale = False
        if news and self.hub.listening:
            self.hub.committed(news)
        self.hub.seq = max(self.hub.seq, state.seq)
        self.tell_waiters()

    async def _snapshot(self) -> Snapshot | None:
        snapshot = await self.store.get_snapshot(self.key)
        if snapshot is None or snapshot.state_version != STATE_VERSION:
            return None
        try:
            log.load(snapshot.data)
        except CodecError:
            return None
        return snapshot

    def _wanted(self) -> Iterable[int]:
        """The seqs whose content a request or an effect may need."""
        state = self.state
        for ref in (*state.history, *state.notes):
            yield ref.seq
        for call in state.calls.values():
            yield call.source_seq
            for seq in (call.closed_seq, call.changed_seq):
                if seq is not None:
                    yield seq
        yield from state.inputs
        for ask in state.asks.values():
            yield ask.seq
        if state.run is not None and state.run.last_reply_seq is not None:
            yield state.run.last_reply_seq
        yield state.setup_seq
        yield state.instructions_seq

    def known(self, seq: int) -> Event | None:
        """The event at a seq, where it is in memory."""
        return self._events.get(seq)

    async def event(self, seq: int) -> Event:
        """The event at a seq, content included."""
        for _ in range(FETCHES_MAX):
            found = self._events.get(seq)
            if found is not None:
                return found
            await self.insist(lambda: self.fetch((seq,)))
        raise NotFound(f"session {self.key.session!r} does not stand still: event {seq} was read and forgotten again")

    async def fetch(self, seqs: Iterable[int]) -> None:
        """Reads events that are not in memory."""
        missing = {seq for seq in seqs if seq and seq not in self._events}
        if not missing:
            return
        await self._look_up(missing, after=max(0, min(missing) - APPEND_EVENTS_MAX))
        if missing:
            await self._look_up(missing, after=0)
        if missing:
            raise NotFound(f"session {self.key.session!r} has no event {min(missing)}")

    async def _look_up(self, missing: set[int], *, after: int) -> None:
        """Takes what is missing out of the log from a place on, until nothing is."""
        async for sealed in history(self.store, self.key, after=after):
            if not any(sealed.first_seq <= seq <= sealed.last_seq for seq in missing):
                continue
            append = codec.decode(sealed.data)
            for offset, event in enumerate(append.events):
                seq = append.first_seq + offset
                if seq in missing and isinstance(event, Event):
                    self._events[seq] = event
                    missing.discard(seq)
            if not missing:
                return

    async def items(self) -> list[HistoryItem]:
        """The visible history as items. What was rendered once is the same object the next time."""
        for _ in range(FETCHES_MAX):
            await self.settled()  # what an append under way would add is not in the log to be read
            refs = list(self.state.history)
            missing = self._missing(refs[self._same(refs) :])
            if not missing:
                return self._rendered(refs)
            await self.insist(lambda missing=missing: self.fetch(missing))  # type: ignore[misc]
        raise NotFound(f"session {self.key.session!r} does not stand still while it is rendered")

    def _same(self, refs: list[ItemRef]) -> int:
        """How many items at the beginning are rendered already; 0 where the history is another one."""
        if len(refs) < len(self._refs) or any(map(operator.is_not, self._refs, refs)):
            return 0
        return len(self._refs)

    def _missing(self, refs: list[ItemRef]) -> list[int]:
        missing = []
        for ref in refs:
            event = self._events.get(ref.seq)
            wanted = ref.seq if event is None else getattr(event, "feedback_seq", None)
            if wanted is not None and wanted not in self._events:
                missing.append(wanted)
        return missing

    def _rendered(self, refs: list[ItemRef]) -> list[HistoryItem]:
        """Renders what is not yet; every event that it needs is here, so nothing can come between."""
        same = self._same(refs)
        if same < len(self._refs):
            self._refs, self._items, self._names = [], [], {}
        for ref in refs[same:]:
            self._items.append(item(ref, self._events.__getitem__, self._names))
            self._refs.append(ref)
        return self._items

    async def erase(self, seq: int, *, by: str, why: str) -> None:
        """Erases the content of an event, a large result beside it included, from the store and from memory. Nothing is
        added meanwhile, so nobody reads it in between. Raises `UsageError` while a run is active."""
        await self.settled()
        event = await self.event(seq)
        async with self._lock:
            if self.stale or self.state.active:
                raise UsageError(f"session {self.key.session!r} is at work: wait until it rests, or interrupt it first")
            whole = getattr(getattr(event, "body", None), "whole", None)
            await self.store.erase(self.key, seq, by=by, why=why, at_ms=self.now_ms())
            if whole is not None:
                await self.store.erase_blob(self.key.tenant, whole.digest)
            self._events.pop(seq, None)
            self._refs, self._items, self._names = [], [], {}

    def _forget(self) -> None:
        wanted = set(self._wanted())
        for seq in [seq for seq in self._events if seq not in wanted]:
            del self._events[seq]

    # --- writing ---

    @property
    def busy(self) -> bool:
        """Whether an append is under way: the state in memory is then ahead of the log."""
        return self._lock.locked() or self.stale

    @property
    def left_stale(self) -> bool:
        """Whether memory is not what the log says and nobody is about to mend that."""
        return self.stale and not self._lock.locked()

    async def at_rest(self) -> None:
        """Waits until no run is active any more, or nobody can tell from here: the log was read again, or the session
        was let go. Cheaper than to hear of every record, for whoever waits for the end alone."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            await waiter
        finally:
            if waiter in self._waiters:
                self._waiters.remove(waiter)

    def tell_waiters(self) -> None:
        """Has whoever waits for the end look again."""
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def settled(self) -> None:
        """Waits until memory is what the log says. No effect may be read off the state before that."""
        while self.busy:
            async with self._lock:
                if self.stale:
                    await self.insist(self.load)

    async def take(
        self, fact: Fact, *, takes: Sequence[str] = (), blobs: Mapping[str, bytes] | None = None
    ) -> list[Event]:
        """Adds a fact and what follows from it to the log. Raises `Refused` and changes nothing where it does not
        fit, `StaleEpoch` where the session belongs to somebody else now. Waits while the disk is full. When nobody
        heard whether the append was kept, the log is asked."""
        try:
            await self._lock.acquire()
            try:
                return await self._take(fact, takes, blobs)
            finally:
                self._lock.release()
        finally:
            if self.on_taken is not None:
                self.on_taken()

    async def _take(self, fact: Fact, takes: Sequence[str], blobs: Mapping[str, bytes] | None) -> list[Event]:
        tries = conflicts = 0
        events: list[Event] = []
        sealed: Sealed | None = None
        while True:
            try:
                if self.stale:
                    await self.load()
                    if sealed is not None and sealed.hash in self._read:
                        if self.on_committed is not None:
                            self.on_committed(events)
                        return events
                seq = self.state.seq + 1
                events, sealed = self._sealed(fact)
                await self._append(sealed, takes, blobs, self._dispatches_once(events))
            except FINAL:
                raise
            except StorageFull as error:
                await self._wait_for_room(error)
            except SeqConflict:
                conflicts += 1
                if conflicts >= CONFLICTS_MAX:
                    raise
            except StoreError:
                tries += 1
                if tries > STORE_RETRIES_MAX:
                    raise
                await self.ports.sleep_ms(STORE_RETRY_MS * 2**tries)
            else:
                self._publish(seq, events)
                return events

    def _sealed(self, fact: Fact) -> tuple[list[Event], Sealed]:
        """The fact and its decisions, folded and ready to be kept. Until that is known, memory may not be trusted."""
        state, seq = self.state, self.state.seq + 1
        self.stale = True
        try:
            events = step(state, fact, self.now_ms())
        except Refused:
            self.stale = False
            raise
        entries = [codec.encode_entry(event, self.ports.salt) for event in events]
        # Types are not checked where values are made, and facts hold what agents, tools, hooks and models gave: one
        # that cannot be read again would make the whole session unreadable.
        codec.require_readable(type(fact), entries[0][0], entries[0][1])
        return events, record.seal(self.hash, seq, state.now_ms, self.epoch, entries)

    async def _append(
        self, sealed: Sealed, takes: Sequence[str], blobs: Mapping[str, bytes] | None, once: bool
    ) -> None:
        self.ports.point("before_append")
        self._unsure = True
        self._head = None
        row = self._listing.due(self.state)
        try:
            await self.store.append(self.key, sealed, takes=takes, index=row, blobs=blobs, barrier=bool(takes) or once)
        except (StaleEpoch, SeqConflict, CommandTaken, StorageFull):
            self._unsure = False
            raise
        self._unsure = False
        self._listing.kept(row)
        self.hash = sealed.hash
        self.stale = False
        self.paused = ""
        self.ports.point("after_append")

    def _publish(self, seq: int, events: list[Event]) -> None:
        self._remember(seq, events)
        if self.hub.listening:
            now, seal = self.state.now_ms, self.hash
            self.hub.committed(
                [
                    Record(seq=seq + offset, at_ms=now, event=event, first=seq, hash=seal)
                    for offset, event in enumerate(events)
                ]
            )
        else:
            self.hub.passed(seq + len(events) - 1, events[-1])
        if self._waiters and not self.state.active:
            self.tell_waiters()
        if self.on_committed is not None:
            self.on_committed(events)

    def _dispatches_once(self, events: list[Event]) -> bool:
        tools = self.state.tools
        for event in events:
            if type(event) is ToolStarted:
                call = self.state.calls.get(event.call_id)
                spec = tools.get(call.tool) if call is not None else None
                if spec is None or spec.contract == "at_most_once":
                    return True
        return False

    def _remember(self, seq: int, events: list[Event]) -> None:
        for offset, event in enumerate(events):
            self._events[seq + offset] = event
        if len(self._events) > 4 * (len(self.state.history) + 64):
            self._forget()

    async def _wait_for_room(self, error: StorageFull) -> None:
        if not self.paused:
            self.paused = f"storage_full: {error}"
            if self.on_pause is not None:
                self.on_pause(self.paused)
        await self.ports.sleep_ms(FULL_RETRY_MS)

    async def snapshot(self, *, force: bool = False) -> None:
        """Takes a snapshot where the tail has outgrown the last one."""
        grown = self.state.seq - self._snapshot_seq
        if self.stale or (grown < self._snapshot_every and not force):
            return
        made = Snapshot(seq=self.state.seq, hash=self.hash, state_version=STATE_VERSION, data=log.dump(self.state))
        self.ports.point("before_snapshot")
        try:
            await self.store.put_snapshot(self.key, made)
        except StoreError:
            return  # it is disposable
        self.ports.point("after_snapshot")
        self._snapshot_seq = made.seq
