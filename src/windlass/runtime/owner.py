"""One session in memory, owned: its state, the end of its chain, and the one way to add to its log.

`take` is the only writer. A fact is decided, sealed, appended and only then published. When an append fails, what is
in memory is thrown away and folded again from the log.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

from windlass.events import codec
from windlass.events.base import Event, Fact
from windlass.events.calls import ToolStarted
from windlass.events.errors import CodecError, NotFound, SeqConflict, StorageFull
from windlass.events.items import HistoryItem
from windlass.events.specs import ItemRef
from windlass.kernel import log
from windlass.kernel.decide import step
from windlass.kernel.owed import overview
from windlass.kernel.render import item
from windlass.kernel.state import STATE_VERSION, State
from windlass.store.base import IndexRow, Key, Snapshot, Store
from windlass.store.chain import history

from .hub import Hub, Record
from .ports import Ports

SNAPSHOT_EVERY_RECORDS = 1_000
FULL_RETRY_MS = 1_000
CONFLICTS_MAX = 3
APPEND_EVENTS_MAX = 1_024
"""An append is shorter than this in all but name; a longer one is found by reading from the beginning."""


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
        self._lock = asyncio.Lock()
        self._events: dict[int, Event] = {}
        self._snapshot_every = snapshot_every
        self._snapshot_seq = 0
        self._refs: list[ItemRef] = []
        self._items: list[HistoryItem] = []
        self._names: dict[str, tuple[str, str | None]] = {}

    # --- reading ---

    async def load(self) -> None:
        """Folds the log from its newest usable snapshot."""
        head = await self.store.head(self.key)
        if head is None:
            raise NotFound(f"there is no session {self.key.session!r}")
        state, start = await self._from_snapshot()
        self._events.clear()
        tail: dict[int, Event] = {}
        async for sealed in history(self.store, self.key, after=start):
            append = codec.decode(sealed.data)
            log.fold_append(state, append)
            for offset, event in enumerate(append.events):
                if isinstance(event, Event):
                    tail[append.first_seq + offset] = event
        self.state = state
        self.hash = head.hash
        self.hub.seq = state.seq
        self._snapshot_seq = start
        self._events = {seq: tail[seq] for seq in self._wanted() if seq in tail}
        self._refs, self._items, self._names = [], [], {}
        self.stale = False

    async def _from_snapshot(self) -> tuple[State, int]:
        snapshot = await self.store.get_snapshot(self.key)
        if snapshot is None or snapshot.state_version != STATE_VERSION:
            return State(), 0
        try:
            return log.load(snapshot.data), snapshot.seq
        except CodecError:
            return State(), 0

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

    async def event(self, seq: int) -> Event:
        """The event at a seq, content included."""
        found = self._events.get(seq)
        if found is None:
            await self.fetch((seq,))
            found = self._events[seq]
        return found

    async def fetch(self, seqs: Iterable[int]) -> None:
        """Reads events that are not in memory."""
        missing = {seq for seq in seqs if seq and seq not in self._events}
        if not missing:
            return
        await self._read(missing, after=max(0, min(missing) - APPEND_EVENTS_MAX))
        if missing:
            await self._read(missing, after=0)
        if missing:
            raise NotFound(f"session {self.key.session!r} has no event {min(missing)}")

    async def _read(self, missing: set[int], *, after: int) -> None:
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
        history_now = [*self.state.history, *self.state.notes]
        same = 0
        for known, ref in zip(self._refs, history_now, strict=False):
            if known is not ref:
                break
            same += 1
        if same < len(self._refs):
            self._refs, self._items, self._names, same = [], [], {}, 0
            self._forget()
        fresh = history_now[same:]
        await self.fetch(ref.seq for ref in fresh)
        for ref in fresh:
            feedback = getattr(self._events[ref.seq], "feedback_seq", None)
            if feedback is not None:
                await self.fetch((feedback,))
            self._items.append(item(ref, self._events.__getitem__, self._names))
            self._refs.append(ref)
        return self._items

    def _forget(self) -> None:
        wanted = set(self._wanted())
        for seq in [seq for seq in self._events if seq not in wanted]:
            del self._events[seq]

    # --- writing ---

    @property
    def busy(self) -> bool:
        """Whether an append is under way: the state in memory is then ahead of the log."""
        return self._lock.locked() or self.stale

    async def settled(self) -> None:
        """Waits until memory is what the log says. No effect may be read off the state before that."""
        while self.busy:
            async with self._lock:
                if self.stale:
                    await self.load()

    async def take(
        self, fact: Fact, *, takes: Sequence[str] = (), blobs: Mapping[str, bytes] | None = None
    ) -> list[Event]:
        """Adds a fact and what follows from it to the log. Raises `Refused` and changes nothing where it does not
        fit, `StaleEpoch` where the session belongs to somebody else now. Waits while the disk is full."""
        async with self._lock:
            conflicts = 0
            while True:
                if self.stale:
                    await self.load()
                try:
                    return await self._append(fact, takes, blobs)
                except StorageFull as error:
                    await self._wait_for_room(error)
                except SeqConflict:
                    conflicts += 1
                    if conflicts >= CONFLICTS_MAX:
                        raise

    async def _append(self, fact: Fact, takes: Sequence[str], blobs: Mapping[str, bytes] | None) -> list[Event]:
        state = self.state
        seq = state.seq + 1
        # Until the append is known to be kept, memory is ahead of the log and may not be trusted.
        events = step(state, fact, self.ports.now_ms())
        self.stale = True
        self.ports.point("before_append")
        sealed = codec.encode(
            events, prev_hash=self.hash, seq=seq, at_ms=state.now_ms, epoch=self.epoch, salt=self.ports.salt
        )
        barrier = bool(takes) or self._dispatches_once(events)
        await self.store.append(self.key, sealed, takes=takes, index=self.index_row(), blobs=blobs, barrier=barrier)
        self.hash = sealed.hash
        self.stale = False
        self.paused = ""
        self.ports.point("after_append")
        self._remember(seq, events)
        self.hub.committed(
            [
                Record(seq=seq + offset, at_ms=state.now_ms, event=event, first=seq)
                for offset, event in enumerate(events)
            ]
        )
        if self.on_committed is not None:
            self.on_committed(events)
        return events

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

    def index_row(self) -> IndexRow:
        """What an index keeps about the session as it is now."""
        view = overview(self.state)
        return IndexRow(
            session=self.key.session,
            tenant=self.key.tenant,
            state=view.state,
            waiting_for=view.waiting_for,
            owed=view.owed,
            next_wake_ms=view.next_wake_ms,
            agent=view.agent,
            title=view.title,
            root=view.root,
            parent=view.parent,
            scope=view.scope,
            seq=self.state.seq,
            created_ms=view.created_ms,
            updated_ms=view.updated_ms,
            input_tokens=view.input_tokens,
            output_tokens=view.output_tokens,
            cost_nanos=view.cost_nanos,
            metadata=view.metadata,
        )

    async def snapshot(self, *, force: bool = False) -> None:
        """Takes a snapshot where the tail has outgrown the last one."""
        grown = self.state.seq - self._snapshot_seq
        if self.stale or (grown < self._snapshot_every and not force):
            return
        data = log.dump(self.state)
        await self.store.put_snapshot(
            self.key, Snapshot(seq=self.state.seq, hash=self.hash, state_version=STATE_VERSION, data=data)
        )
        self._snapshot_seq = self.state.seq


Taker = Callable[..., Awaitable[list[Event]]]
