"""A point of a session: what its log adds up to behind one of its records. Reads the log and changes nothing."""

from __future__ import annotations

import msgspec

from windlass.events.base import Event
from windlass.events.errors import NotFound
from windlass.events.stored import codec
from windlass.events.values.items import HistoryItem
from windlass.events.values.setup import ItemRef
from windlass.kernel import log
from windlass.kernel.fold import evolve, tick
from windlass.kernel.owed import Overview, overview, waiting_words
from windlass.kernel.parts.trees import child_side
from windlass.kernel.phases import Left
from windlass.kernel.render import render
from windlass.kernel.state import State
from windlass.runtime.streams.log_reader import LogReader
from windlass.store.base import Key, Store


class Point(msgspec.Struct, kw_only=True):
    """A session behind one of its records: its state then, and its events until then with their content."""

    key: Key
    state: State = msgspec.field(default_factory=State)
    events: dict[int, Event] = {}

    @property
    def seq(self) -> int:
        """The record that it stands behind."""
        return self.state.seq

    @property
    def overview(self) -> Overview:
        """The session in few words: what it does, what it waits for, what it has used."""
        return overview(self.state)

    @property
    def waiting_words(self) -> tuple[str, ...]:
        """What it waits for from people, in words."""
        return waiting_words(self.state)

    @property
    def gone_to(self) -> tuple[str, str] | None:
        """The place that it was handed over to and its id there, if it was."""
        phase = self.state.phase
        return (phase.to, phase.session) if isinstance(phase, Left) else None

    @property
    def has_ended(self) -> bool:
        """Whether it is a child session that has told its end: it can only be forked."""
        return child_side.has_ended(self.state)

    def event(self, seq: int) -> Event:
        """The event of one record. Raises `NotFound` if there is none."""
        event = self.events.get(seq)
        if event is None:
            raise NotFound(f"session {self.key.session!r} has no event {seq}")
        return event

    def items(self) -> list[HistoryItem]:
        """The history as a request would carry it."""
        return render(self.state, self.event)

    def restorable(self) -> tuple[ItemRef, ...]:
        """The history as a rewind could bring it back."""
        return log.visible(self.state)

    def take(self, append: codec.Appended, *, until: int | None = None) -> None:
        """Moves behind an append, or behind the record `until` within it. Raises `NeedsNewer` at an event that may not
        be skipped."""
        wanted = append.events if until is None else append.events[: until - append.first_seq + 1]
        tick(self.state, append.at_ms, type(append.events[0]))
        for event in wanted:
            known = codec.require_known(event, self.state.seq + 1)
            if known is None:
                self.state.seq += 1
                continue
            evolve(self.state, known)
            self.events[self.state.seq] = known


async def read_point(store: Store, key: Key, *, until: int | None = None) -> Point:
    """The session behind the record `until`, also in the middle of an append; at its end if none is given."""
    point = Point(key=key)
    async for sealed in LogReader(store).appends(key):
        append = codec.decode(sealed.data)
        if until is not None and append.first_seq > until:
            break
        point.take(append, until=until)
    return point
