"""The logs of a tree of sessions, merged into one order that depends on the logs alone.

- Each session's records come in their own order, and a session begins behind the `child.started` that names it.
- Causes come first: the records of a child up to the one that a `child.moved` or `child.finished` of its parent speaks
  of, and the parent's decision before the child's record of being told or stopped.
- Of what is free then, the record with the smallest (time, place in the tree) is next.

What comes next depends on how far each session was read, and on nothing else: so a reader may stop anywhere, keep one
cursor, and read exactly the rest.
"""

from __future__ import annotations

import heapq
from collections.abc import AsyncIterator

import msgspec

from windlass.events.base import Command, Event
from windlass.events.live import Live
from windlass.events.trees.accounts import ChildSettled
from windlass.events.trees.children import ChildFinished, ChildMoved, ChildStarted
from windlass.runtime.trees.tree_rows import key_at, place_of, scope_of
from windlass.store.base import Key

from . import tree_cursors
from .cursors import Cursors
from .log_reader import LogReader
from .record import Record
from .tree_cursors import Place, TreePlaces


class ScopeFrame(msgspec.Struct, frozen=True, kw_only=True):
    """One step down a tree: the call that started a session, the session, and who runs it."""

    call_id: str
    session: str
    agent: str


class Scoped(msgspec.Struct, frozen=True, kw_only=True):
    """What is told of one session of a tree: `frames` lead to it from the session that is read."""

    session: str
    frames: tuple[ScopeFrame, ...]
    told: Record | Live

    @property
    def scope(self) -> str:
        """Its place below the session that is read, such as `c6.0~c9.0`; empty for that one."""
        return "~".join(frame.call_id for frame in self.frames)

    @property
    def depth(self) -> int:
        return len(self.frames)


class Branch:
    """One session of a tree, as far as it was read."""

    def __init__(self, key: Key, scope: str, frames: tuple[ScopeFrame, ...], seq: int, chain_hash: str) -> None:
        self.key = key
        self.scope = scope
        self.frames = frames
        self.order = place_of(scope)
        self.seq = seq
        self.hash = chain_hash
        self.head: Record | None = None
        """What was read and not handed out yet."""
        self.records: AsyncIterator[Record] | None = None

    def scoped(self, told: Record | Live) -> Scoped:
        return Scoped(session=self.key.session, frames=self.frames, told=told)


class TreeMerge:
    """Reads the tree below one session: `next` what is stored, `look` for more; `heard` takes what was told live."""

    def __init__(self, log: LogReader, key: Key, *, depth: int | None = None) -> None:
        self._log = log
        self._key = key
        self.depth = depth
        self.branches: dict[str, Branch] = {"": Branch(key, "", (), 0, "")}
        self._free: list[tuple[int, tuple[tuple[str, int, int, str], ...], str]] = []
        """The heads that may come next, the smallest first."""
        self._idle: set[str] = {""}
        """The sessions that have no head and may have more records."""
        self.begun: list[Branch] = []
        """The sessions that were met since somebody looked."""

    async def resume(self, places: TreePlaces, cursors: Cursors, agents: dict[str, str]) -> None:
        """Goes to where another reader stopped. Raises `CursorMismatch` if the logs are not those."""
        self.depth = places.depth
        for place in sorted(places.places, key=lambda one: place_of(one.scope)):
            await cursors.seq_of(key_at(self._key, place.scope), place.cursor)
            branch = self._branch(place.scope, agents.get(place.scope, ""))
            branch.seq, branch.hash = place.seq, place.hash

    @property
    def cursor(self) -> str:
        """The place behind all that was handed out."""
        return tree_cursors.made(self.depth, (Place(b.scope, b.seq, b.hash) for b in self.branches.values()))

    # --- what is stored ---

    def look(self) -> None:
        """Logs may have grown: those that were read to their ends are read on."""
        self._idle = {scope for scope, branch in self.branches.items() if branch.head is None}

    async def next(self) -> Scoped | None:
        """The next record; None if there is none now."""
        for scope in sorted(self._idle, key=place_of):
            await self._fetch(self.branches[scope])
        self._idle.clear()
        held = []
        while self._free:
            entry = heapq.heappop(self._free)
            branch = self.branches[entry[2]]
            if not await self._is_held(branch):
                break
            held.append(entry)
        else:
            if not held:
                return None
            entry = held.pop(0)  # nothing is free: no log of ours says so, but one that was tampered with may
        for other in held:
            heapq.heappush(self._free, other)
        branch = self.branches[entry[2]]
        record, branch.head = branch.head, None
        assert record is not None
        self._idle.add(branch.scope)
        return self._handed_out(branch, record)

    async def _is_held(self, branch: Branch) -> bool:
        """Whether the next record of a session comes behind one of another that is there."""
        if branch.head is None or (cause := self._cause(branch, branch.head.event)) is None:
            return False
        other, seq = cause
        if other.head is None and other.seq < seq:
            await self._fetch(other)  # it was read to its end before this one was written
        return other.head is not None and other.head.seq <= seq

    async def _fetch(self, branch: Branch) -> None:
        """Reads one record on."""
        if branch.head is not None:
            return
        if branch.records is None:
            branch.records = self._log.records(branch.key, after=branch.seq)
        branch.head = await anext(branch.records, None)
        if branch.head is None:
            branch.records = None
        else:
            heapq.heappush(self._free, (branch.head.at_ms, branch.order, branch.scope))

    # --- what is heard ---

    async def heard(self, branch: Branch, record: Record, busy: frozenset[str] = frozenset()) -> AsyncIterator[Scoped]:
        """A record that was told live, behind what must come before it. One that was handed out before is passed
        over."""
        cause = self._cause(branch, record.event)
        if cause is not None and cause[0].scope not in busy:
            async for scoped in self._up_to(*cause, busy | {branch.scope}):
                yield scoped
        if record.seq > branch.seq:
            yield self._handed_out(branch, record)

    async def _up_to(self, branch: Branch, seq: int, busy: frozenset[str]) -> AsyncIterator[Scoped]:
        if branch.seq >= seq:
            return
        async for record in self._log.records(branch.key, after=branch.seq):
            if record.seq > seq:
                return
            async for scoped in self.heard(branch, record, busy):
                yield scoped

    # --- both ---

    def _cause(self, branch: Branch, event: Event) -> tuple[Branch, int] | None:
        """The record of another session that comes before this one."""
        if isinstance(event, ChildFinished | ChildMoved | ChildSettled):
            below = self.branches.get(scope_of(self._key.session, event.child_id))
            return (below, event.child_seq) if below is not None and below.seq < event.child_seq else None
        if isinstance(event, Command) and branch.scope and event.command_id.startswith(("stop:", "told:", "granted:")):
            above, number = self.branches[branch.scope.rpartition("~")[0]], event.command_id.rpartition(":")[2]
            seq = int(number) if number.isascii() and number.isdecimal() else 0
            return (above, seq) if above.seq < seq else None
        return None

    def _handed_out(self, branch: Branch, record: Record) -> Scoped:
        branch.seq, branch.hash = record.seq, record.hash
        event = record.event
        if isinstance(event, ChildStarted) and event.child_id.startswith(f"{branch.key.session}~"):
            scope = scope_of(self._key.session, event.child_id)
            if scope not in self.branches and (self.depth is None or len(branch.frames) < self.depth):
                self.begun.append(self._branch(scope, event.agent))
                self._idle.add(scope)
        return branch.scoped(record)

    def _branch(self, scope: str, agent: str) -> Branch:
        """A session below, from now on read too."""
        if scope in self.branches:
            return self.branches[scope]
        above, _, call_id = scope.rpartition("~")
        key = key_at(self._key, scope)
        frame = ScopeFrame(call_id=call_id, session=key.session, agent=agent)
        branch = Branch(key, scope, (*self._branch(above, "").frames, frame), 0, "")
        self.branches[scope] = branch
        return branch
