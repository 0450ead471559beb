"""The archive: where what left a history is kept and found again, and the one that every session has, its own log.

An archive is never the only place: the log keeps everything, so an archive may fail, forget or be replaced.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Protocol

from windlass.events.base import Event
from windlass.events.context import CompactionFinished, CompactionUndone, ContextTruncated
from windlass.events.sessions import ContentErased, SessionRewound
from windlass.events.stored import codec
from windlass.events.stored.record import GENESIS
from windlass.events.values.setup import ItemRef
from windlass.kernel.fold import evolve
from windlass.kernel.state import State
from windlass.runtime.streams.log_reader import APPEND_EVENTS_MAX, LogReader
from windlass.store.base import Key

from .archive_page import Leaf, Page, leaves, page

SESSIONS_MAX = 32
"""How many sessions' logs are kept indexed; the one that was searched longest ago is indexed again when needed."""
PAGES_MAX = 10_000
CHARS_MAX = 32 * 1024 * 1024
"""How many pages of a session, and how much text, can be found; the oldest are left to the log."""
PAGES_AT_ONCE = 64
"""How many pages are read and indexed before others get their turn."""


class Archive(Protocol):
    """Keeps the pages of sessions and finds them. All three may be called again after a crash, with the same pages
    under the same ids; what they raise, or being slow, costs a run nothing but the help."""

    async def put(self, session: Key, pages: Sequence[Page]) -> None:
        """Keeps pages. One that is there already under its id is replaced."""

    async def search(self, session: Key, query: str, limit: int) -> Sequence[Page]:
        """The pages of this session that fit the query best, best first, at most so many."""

    async def get(self, session: Key, page_ids: Sequence[str]) -> Sequence[Page]:
        """Pages of this session by id; those that are not there are left out."""


class LogArchive:
    """The archive of whoever names none: a full-text index over what left a session's history, made from its log when
    something is first looked for and extended from there. Writes nothing, so there is nothing to lose.

    What a session went back behind (`rewind`, `clear`) is not found, nor what an undo made visible again."""

    def __init__(self, log: LogReader) -> None:
        self._log = log
        self._shelves: dict[Key, Shelf] = {}

    async def put(self, session: Key, pages: Sequence[Page]) -> None:
        """Nothing to do: the log has them."""

    async def search(self, session: Key, query: str, limit: int) -> list[Page]:
        shelf = await self._shelf(session)
        return await shelf.read(shelf.find(query, limit))

    async def get(self, session: Key, page_ids: Sequence[str]) -> list[Page]:
        shelf = await self._shelf(session)
        named_leaves = [shelf.leaves.get(page_id) for page_id in page_ids]
        return await shelf.read([leaf for leaf in named_leaves if leaf is not None])

    async def result(self, session: Key, call_id: str) -> ItemRef | None:
        """Where the result of a call stands that is no longer in the history."""
        shelf = await self._shelf(session)
        refs = (ref for leaf in shelf.leaves.values() for ref in leaf.refs)
        return next((ref for ref in refs if ref.kind == "result" and ref.part == call_id), None)

    async def _shelf(self, session: Key) -> Shelf:
        shelf = self._shelves.pop(session, None) or Shelf(self._log, session)
        self._shelves[session] = shelf
        while len(self._shelves) > SESSIONS_MAX:
            del self._shelves[next(iter(self._shelves))]
        await shelf.extend()
        return shelf


class Shelf:
    """The pages of one session, as far as its log was read."""

    def __init__(self, log: LogReader, key: Key) -> None:
        self._log = log
        self._key = key
        self._lock = asyncio.Lock()
        self._clear()

    def _clear(self) -> None:
        from .word_index import Words  # an archive is read by few, and what words are takes long to say

        self.leaves: dict[str, Leaf] = {}
        """By page id, in the order in which they left the history."""
        self._state = State()
        self._hash = GENESIS
        self._left_at: dict[str, int] = {}
        self._words = Words()
        self._numbers: dict[str, int] = {}
        self._by_number: dict[int, str] = {}
        self._chars: dict[str, int] = {}
        self._last_number = 0

    async def extend(self) -> None:
        """Reads what the log has got since the last time, and indexes what left the history there."""
        async with self._lock:
            if not await self._fold():
                # The log is another one than before: a session that was deleted and made again.
                self._clear()
                await self._fold()
            await self._index()
            self._bound()

    async def _fold(self) -> bool:
        """Folds the log onwards; False if it does not go on from what was read."""
        state = self._state
        head = await self._log.head(self._key)
        if state.seq and (head is None or head.seq < state.seq):
            return False
        if state.seq and head is not None and head.seq == state.seq:
            return head.hash == self._hash
        async for sealed in self._log.appends(self._key, after=state.seq):
            if state.seq and sealed.prev_hash != self._hash:
                return False
            for event in codec.decode(sealed.data, bodies=False).events:
                known = codec.require_known(event, state.seq + 1)
                if known is None:
                    state.seq += 1
                else:
                    self._take(known)
            self._hash = sealed.hash
        return True

    def _take(self, event: Event) -> None:
        state = self._state
        before = state.history.items[:] if isinstance(event, CompactionFinished | ContextTruncated) else []
        evolve(state, event)
        if before:
            stays = {(ref.seq, ref.part) for ref in state.history.items}
            self._add(ref for ref in before if (ref.seq, ref.part) not in stays)
        elif isinstance(event, CompactionUndone):
            seen = {(ref.seq, ref.part) for ref in state.history.items}
            self._drop([leaf for leaf in self.leaves.values() if all((r.seq, r.part) in seen for r in leaf.refs)])
        elif isinstance(event, SessionRewound):
            behind = [leaf for leaf in self.leaves.values() if self._left_at[leaf.page_id] > event.to_seq]
            self._drop(behind)
        elif isinstance(event, ContentErased):
            for leaf in [leaf for leaf in self.leaves.values() if any(ref.seq == event.seq for ref in leaf.refs)]:
                self._unindex(leaf.page_id)

    # --- what is there ---

    def _add(self, refs: Iterable[ItemRef]) -> None:
        for leaf in leaves(refs):
            self._drop([leaf])  # one page under one id, the newest
            self.leaves[leaf.page_id] = leaf
            self._left_at[leaf.page_id] = self._state.seq

    def _drop(self, gone: Iterable[Leaf]) -> None:
        for leaf in gone:
            self.leaves.pop(leaf.page_id, None)
            self._left_at.pop(leaf.page_id, None)
            self._unindex(leaf.page_id)

    def _unindex(self, page_id: str) -> None:
        number = self._numbers.pop(page_id, None)
        if number is not None:
            del self._by_number[number], self._chars[page_id]
            self._words.remove([number])

    async def _index(self) -> None:
        """Indexes what is not yet, the newest first: if there is too much, it is the oldest that is left out."""
        new = [leaf for leaf in self.leaves.values() if leaf.page_id not in self._numbers]
        first = self._last_number + 1
        self._last_number += len(new)
        chars = 0
        for end in range(len(new), 0, -PAGES_AT_ONCE):
            start = max(0, end - PAGES_AT_ONCE)
            if len(new) - end >= PAGES_MAX or chars > CHARS_MAX:
                self._drop(new[:end])
                return
            pages = await self.read(new[start:end])
            for number, new_page in enumerate(pages, start=first + start):
                self._numbers[new_page.page_id] = number
                self._by_number[number] = new_page.page_id
                self._chars[new_page.page_id] = len(new_page.text)
                chars += len(new_page.text)
            self._words.add({self._numbers[new_page.page_id]: new_page.text for new_page in pages})

    def _bound(self) -> None:
        chars = sum(self._chars.values())
        for leaf in list(self.leaves.values()):
            if len(self.leaves) <= PAGES_MAX and chars <= CHARS_MAX:
                return
            chars -= self._chars.get(leaf.page_id, 0)
            self._drop([leaf])

    # --- looking ---

    def find(self, query: str, limit: int) -> list[Leaf]:
        """The pages that fit a query best."""
        return [self.leaves[self._by_number[number]] for number in self._words.find(query, limit)]

    async def read(self, wanted: Sequence[Leaf]) -> list[Page]:
        """Pages with their texts, from the log as it is now: what was erased is not in them."""
        labels = {name: spec.labels for name, spec in self._state.toolset.tools.items() if spec.labels}
        pages = []
        for run in _neighbours(wanted):
            events = await events_of(self._log, self._key, [ref for leaf in run for ref in leaf.refs])
            pages += [page(leaf, events.__getitem__, labels) for leaf in run]
        return pages


def _neighbours(wanted: Sequence[Leaf]) -> list[list[Leaf]]:
    """Pages in runs that stand close to each other in the log, so that each run is read in one go."""
    runs: list[list[Leaf]] = []
    for leaf in wanted:
        if runs and 0 <= leaf.refs[0].seq - runs[-1][-1].refs[0].seq <= APPEND_EVENTS_MAX:
            runs[-1].append(leaf)
        else:
            runs.append([leaf])
    return runs


async def events_of(log: LogReader, key: Key, refs: Iterable[ItemRef]) -> dict[int, Event]:
    """The events that some items are rendered from, content included. Raises `NotFound` if the log has them not."""
    events = await log.events_at(key, {ref.seq for ref in refs})
    said = {seq for event in events.values() if (seq := getattr(event, "feedback_seq", None)) is not None}
    return {**events, **await log.events_at(key, said - events.keys())}


__all__ = ["Archive", "LogArchive", "Page", "events_of"]
