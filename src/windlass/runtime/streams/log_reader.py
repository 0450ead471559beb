"""The one way to read a session's log: by place, by kind, as records, or folded into a state. Writes nothing.

A log runs through the origins of a fork as if it were one. What an append is too long for, or what stands further back
than expected, is found all the same, by reading from the beginning.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import AsyncIterator, Collection
from typing import TypeVar

import msgspec

from windlass.events.base import Event
from windlass.events.errors import CodecError, Damaged, NotFound
from windlass.events.stored import codec
from windlass.events.stored.codec import Appended
from windlass.events.stored.record import Sealed
from windlass.kernel import log
from windlass.kernel.state import STATE_VERSION, State
from windlass.store.base import Head, Key, Snapshot, Store
from windlass.store.chain import history

from .record import Record, records_of

APPEND_EVENTS_MAX = 1_024
"""An append is shorter than this in all but name; a longer one is found by reading from the beginning."""
NEWEST_AMONG = 64
"""Among how many records at a log's end the newest of a kind is looked for first."""


E = TypeVar("E", bound=Event)


class Folded(msgspec.Struct, frozen=True, kw_only=True):
    """A log folded into its state, and what was read for that: everything behind the newest usable snapshot."""

    state: State
    hash: str
    """The chain hash at the end."""
    snapshot_seq: int
    appends: list[Appended]
    """The appends that were read, content included."""


class LogReader:
    """Reads the logs of a store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def head(self, key: Key) -> Head | None:
        """Where a log ends; None if there is no such session."""
        return await self._store.log.head(key)

    async def born(self, key: Key) -> str:
        """What tells a log from any other, also from one that had its name before: the chain hash of the first append
        of its own. Empty if there is none."""
        async for sealed in self._store.log.read(key):
            return sealed.hash
        return ""

    # --- in order ---

    def appends(self, key: Key, *, after: int = 0, until: int | None = None) -> AsyncIterator[Sealed]:
        """The appends that begin after a seq and end at or before another. Raises `NotFound` for no such session."""
        return history(self._store, key, after=after, until=until)

    async def appends_from(self, key: Key, seq: int, *, until: int | None = None) -> AsyncIterator[Sealed]:
        """The appends from the one that holds a record on."""
        for after in (max(0, seq - 1 - APPEND_EVENTS_MAX), 0):
            begun = False
            async for sealed in history(self._store, key, after=after, until=until):
                if sealed.last_seq < seq:
                    continue
                if after and not begun and sealed.first_seq > seq:
                    break  # the append that holds it began earlier still
                begun = True
                yield sealed
            if begun or not after:
                return

    async def records(
        self, key: Key, *, after: int = 0, until: int | None = None, bodies: bool = True
    ) -> AsyncIterator[Record]:
        """The records behind a seq, of the appends that end at or before `until`; none of a session that is not there.
        Without `bodies`, events come without their content."""
        head = await self._store.log.head(key)
        if head is None or head.seq <= after:
            return
        async for sealed in self.appends_from(key, after + 1, until=until):
            for record in records_of(codec.decode(sealed.data, bodies=bodies), after=after):
                yield record

    # --- by place ---

    async def append_at(self, key: Key, seq: int) -> Sealed | None:
        """The append that holds a record; None if the log ends before it."""
        head = await self._store.log.head(key)
        if head is None or head.seq < seq:
            return None
        async for sealed in self.appends_from(key, seq):
            return sealed
        return None

    async def event_at(self, key: Key, seq: int) -> Event | None:
        """The event at a seq, or the next one that can be read; None if there is none."""
        if seq > 0:
            async for record in self.records(key, after=seq - 1):
                return record.event
        return None

    async def events_at(self, key: Key, seqs: Collection[int]) -> dict[int, Event]:
        """The events at some seqs, content included. Raises `NotFound` if the log does not have them all."""
        events: dict[int, Event] = {}
        for after in (max(0, min(seqs, default=0) - APPEND_EVENTS_MAX), 0):
            missing = sorted(set(seqs) - events.keys())
            if not missing:
                return events
            async for sealed in history(self._store, key, after=after):
                here = missing[bisect_left(missing, sealed.first_seq) : bisect_right(missing, sealed.last_seq)]
                if here:
                    decoded = codec.decode(sealed.data).events
                    for seq in here:
                        event = decoded[seq - sealed.first_seq]
                        if isinstance(event, Event):
                            events[seq] = event
                if sealed.last_seq >= missing[-1]:
                    break
        missing = sorted(set(seqs) - events.keys())
        if missing:
            raise NotFound(f"session {key.session!r} has no event {missing[0]}")
        return events

    async def last_event(self, key: Key) -> Event | None:
        """What the log ends with."""
        head = await self._store.log.head(key)
        return await self.event_at(key, head.seq) if head is not None else None

    async def boundary(self, key: Key, at_seq: int | None) -> Sealed | None:
        """The last append that ends at or before a seq, or the last one of all; None if there is none."""
        end = at_seq
        if end is None:
            head = await self._store.log.head(key)
            end = head.seq if head is not None else 0
        for after in (max(0, end - APPEND_EVENTS_MAX), 0):
            last: Sealed | None = None
            async for sealed in history(self._store, key, after=after, until=end):
                last = sealed
            if last is not None or not after:
                return last
        return None

    async def append_with(self, key: Key, seq: int) -> Sealed | None:
        """The append that holds a record; None if there is no such record."""
        for after in (max(0, seq - APPEND_EVENTS_MAX), 0):
            async for sealed in history(self._store, key, after=after):
                if sealed.first_seq <= seq <= sealed.last_seq:
                    return sealed
                if sealed.first_seq > seq:
                    break
        return None

    # --- by kind ---

    async def newest(self, key: Key, kind: type[E], *, until: int, bodies: bool = True) -> E | None:
        """The newest event of a kind at or before a seq."""
        for record in await self.last(key, (kind,), 1, until=until, bodies=bodies):
            assert isinstance(record.event, kind)
            return record.event
        return None

    async def last(
        self, key: Key, kinds: tuple[type[Event], ...], count: int, *, until: int, bodies: bool = True
    ) -> list[Record]:
        """The last records of some kinds at or before a seq, in their order: looked for near the end first."""
        records: list[Record] = []
        for back in (NEWEST_AMONG, NEWEST_AMONG * 16, until):
            records = [
                record
                async for record in self.records(key, after=max(0, until - back), until=until, bodies=bodies)
                if isinstance(record.event, kinds)
            ]
            if len(records) >= count or back >= until:
                break
        return records[-count:]

    async def taken_at(self, key: Key, command_id: str) -> int | None:
        """Where the log took a command; None if it has not."""
        for taken in await self._store.inbox.taken(key, after=_just_before(command_id), limit=1):
            if taken.command_id == command_id:
                return taken.seq
        return None

    # --- folded ---

    async def state_at(self, key: Key, seq: int) -> State:
        """The state at the last append that ends at or before a seq, without contents."""
        state = State()
        async for sealed in history(self._store, key, until=seq):
            log.fold_append(state, codec.decode(sealed.data, bodies=False))
        return state

    async def fold(self, key: Key, head: Head | None = None) -> Folded:
        """The state of a session, from its newest usable snapshot. `head` saves the question where the log ends.
        Raises `NotFound` for no such session."""
        head = head or await self._store.log.head(key)
        if head is None:
            raise NotFound(f"there is no session {key.session!r}")
        snapshot: Snapshot | None = None
        state = State()
        lines: list[Sealed] = []
        if head.seq > 0:  # of a new session there is nothing to ask for
            snapshot, state = await self._snapshot(key)
            lines = [sealed async for sealed in history(self._store, key, after=snapshot.seq if snapshot else 0)]
        if snapshot is not None and snapshot.hash != (lines[0].prev_hash if lines else head.hash):
            snapshot, state = None, State()
            lines = [sealed async for sealed in history(self._store, key)]
        appends = [codec.decode(sealed.data) for sealed in lines]
        for append in appends:
            log.fold_append(state, append)
        if state.seq < head.seq:
            raise Damaged(f"session {key.session!r} ends at event {state.seq}, and had {head.seq}", seq=state.seq + 1)
        return Folded(
            state=state,
            hash=lines[-1].hash if lines else snapshot.hash if snapshot is not None else head.hash,
            snapshot_seq=snapshot.seq if snapshot is not None else 0,
            appends=appends,
        )

    async def _snapshot(self, key: Key) -> tuple[Snapshot | None, State]:
        """The newest snapshot and its state; none and an empty one if it is of another version, or damaged."""
        snapshot = await self._store.log.get_snapshot(key)
        if snapshot is not None and snapshot.state_version == STATE_VERSION:
            try:
                return snapshot, log.load(snapshot.data)
            except CodecError:
                pass  # it is disposable: the log itself says the same
        return None, State()


def _just_before(command_id: str) -> str:
    """A text that sorts before an id and behind all that come before it."""
    last = ord(command_id[-1:] or "\1") - 1
    return command_id[:-1] + (chr(last) + "\U0010ffff" if 0 <= last < 0xD800 else "")
