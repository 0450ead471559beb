"""The events of one session that are kept in memory: those that a request or an effect may need, and the history
rendered from them. What is missing is read from the log."""

from __future__ import annotations

from collections.abc import Iterable

from windlass.events.base import Event
from windlass.events.values.items import HistoryItem
from windlass.events.values.setup import ItemRef
from windlass.kernel.owed import needs
from windlass.kernel.render import item
from windlass.kernel.state import State
from windlass.runtime.streams.log_reader import LogReader
from windlass.store.base import Key

EVENTS_PER_ITEM = 4
EVENTS_SPARE = 64
"""Memory is swept when it holds more than so many events for each item of the history and for so many more."""


class EventMemory:
    """Events by seq, and the items that were rendered from them."""

    def __init__(self, key: Key, log: LogReader) -> None:
        self._key = key
        self._log = log
        self._events: dict[int, Event] = {}
        self._refs: list[ItemRef] = []
        self._items: list[HistoryItem] = []
        self._names: dict[str, tuple[str, str | None]] = {}

    def known(self, seq: int) -> Event | None:
        """The event at a seq, if it is in memory."""
        return self._events.get(seq)

    def reset(self, events: dict[int, Event]) -> None:
        """Begins anew with these events."""
        self._events = events
        self._forget_items()

    def add(self, seq: int, events: Iterable[Event], state: State) -> None:
        """Keeps the events of an append. When there are too many for the history, only those that are needed stay."""
        self._events.update(enumerate(events, start=seq))
        if len(self._events) > EVENTS_PER_ITEM * (len(state.history.items) + EVENTS_SPARE):
            wanted = set(needs(state))
            self._events = {at: event for at, event in self._events.items() if at in wanted}

    def drop(self, seq: int) -> None:
        """An event's content is gone from the log, so it is from memory."""
        self._events.pop(seq, None)
        self._forget_items()

    async def fetch(self, seqs: Iterable[int]) -> None:
        """Reads events that are not in memory. Raises `NotFound` if the log does not have them."""
        missing = {seq for seq in seqs if seq and seq not in self._events}
        if missing:
            events = await self._log.events_at(self._key, missing)
            self._events.update(events)  # only now: memory may have begun anew meanwhile

    # --- the rendered history ---

    def missing(self, refs: list[ItemRef]) -> list[int]:
        """The seqs that must be fetched before a history can be rendered."""
        missing = []
        for ref in refs[self._same(refs) :]:
            event = self._events.get(ref.seq)
            wanted = ref.seq if event is None else getattr(event, "feedback_seq", None)
            if wanted is not None and wanted not in self._events:
                missing.append(wanted)
        return missing

    def rendered(self, refs: list[ItemRef]) -> list[HistoryItem]:
        """A history as items. What was rendered once is the same object the next time. Every event that it needs must
        be here."""
        same = self._same(refs)
        if same < len(self._refs):
            self._forget_items()
        for ref in refs[same:]:
            self._items.append(item(ref, self._events.__getitem__, self._names))
            self._refs.append(ref)
        return self._items

    def _same(self, refs: list[ItemRef]) -> int:
        """How many items at the beginning are rendered already; 0 if the history is another one."""
        count = len(self._refs)
        return count if refs[:count] == self._refs else 0  # mostly the same objects: nothing is looked into

    def _forget_items(self) -> None:
        self._refs, self._items, self._names = [], [], {}
