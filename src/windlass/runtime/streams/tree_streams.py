"""Streams over a tree of sessions: what is stored, merged; then what happens, live, causes before effects.

One reader listens to each session that is at work, or owes something behind its end. A reader that is too slow loses
what is being written, and reads what is committed from the logs.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from windlass.events.errors import UsageError
from windlass.events.live import Live, StreamTruncated
from windlass.events.trees.children import ChildFinished
from windlass.runtime.trees.tree_rows import rows_below, scope_of
from windlass.store.base import IndexRow, Key, Store
from windlass.tools.planes.task_stops import ended

from . import tree_cursors
from .cursors import Cursors
from .event_streams import EventStreams
from .log_reader import LogReader
from .record import Record
from .tree_merge import Branch, Scoped, TreeMerge

WAITING_MAX = 256
"""How much may wait for a slow reader before those who listen for it stop listening."""

Heard = tuple[Branch, Record | Live | None]
"""What was told of a session; None if no more will be."""


class TreeTail:
    """One reading of a tree: iterate it. `cursor` is the place behind all that was handed out; give it to another
    reading as `after`, and that one gets the rest, each record once."""

    def __init__(self, streams: TreeStreams, key: Key, *, depth: int | None, after: str | None, live: bool) -> None:
        if depth is not None and depth < 0:
            raise UsageError(f"depth={depth}: 0 is the session alone, 1 its children too, None the whole tree")
        self._streams = streams
        self._key = key
        self._after = tree_cursors.read(after) if after is not None else None
        if self._after is not None and depth is not None and depth != self._after.depth:
            raise UsageError(f"the cursor was made by a reading with depth={self._after.depth}, and goes on with that")
        self._merge = TreeMerge(streams.log, key, depth=depth)
        self._live = live
        self._heard: asyncio.Queue[Heard] = asyncio.Queue(WAITING_MAX)
        self._listeners: dict[str, asyncio.Task[None]] = {}
        self._over: set[str] = set()
        """The sessions that have ended and are listened to, as long as they owe something."""
        self._started = self._after is None

    @property
    def cursor(self) -> str:
        """The place behind all that was handed out."""
        if not self._started and self._after is not None:
            return tree_cursors.made(self._after.depth, self._after.places)
        return self._merge.cursor

    def __aiter__(self) -> AsyncIterator[Scoped]:
        return self._read()

    async def _read(self) -> AsyncIterator[Scoped]:
        if not self._started and self._after is not None:
            rows = await rows_below(self._streams.store, self._key)
            agents = {scope_of(self._key.session, row.session): row.agent for row in rows}
            await self._merge.resume(self._after, self._streams.cursors, agents)
            self._started = True
        self._merge.look()
        while (scoped := await self._merge.next()) is not None:
            yield scoped
        if not self._live:
            return
        try:
            async for scoped in self._follow():
                yield scoped
        finally:
            for listener in self._listeners.values():
                listener.cancel()
            await ended(self._listeners.values())
            self._listeners.clear()

    async def _follow(self) -> AsyncIterator[Scoped]:
        self._merge.begun.clear()
        for branch in tuple(self._merge.branches.values()):
            if not await self._streams.is_read_out(branch):
                self._listen(branch)
                if await self._streams.has_ended(branch):
                    self._over.add(branch.scope)
        while True:
            branch, told = await self._heard.get()
            if told is None:
                return
            if isinstance(told, Live):
                yield branch.scoped(told)
                continue
            async for scoped in self._merge.heard(branch, told):
                yield scoped
                await self._follows(scoped)

    async def _follows(self, scoped: Scoped) -> None:
        """Listens to sessions that have begun, and no more to those that have ended and owe nothing: what is appended
        to one then, such as a command that it refuses, is read by the next reading."""
        event = scoped.told.event if isinstance(scoped.told, Record) else None
        while self._merge.begun:
            self._listen(self._merge.begun.pop())
        scope = scoped.scope
        if isinstance(event, ChildFinished):
            scope = scope_of(self._key.session, event.child_id)
            self._over.add(scope)
        listened_to = scope in self._over and scope in self._listeners
        if listened_to and await self._streams.is_read_out(self._merge.branches[scope]):
            self._over.discard(scope)
            self._listeners.pop(scope).cancel()

    def _listen(self, branch: Branch) -> None:
        self._listeners[branch.scope] = asyncio.create_task(self._pump(branch), name=f"windlass:tree:{branch.scope}")

    async def _pump(self, branch: Branch) -> None:
        """Hands over what is told of one session, for as long as it is told."""
        again = True
        while again:
            again = False
            async for told in self._streams.events.tail(branch.key, after=branch.seq):
                again = isinstance(told, StreamTruncated) and told.reason == "disconnected"
                if not again:
                    await self._heard.put((branch, told))
        if not branch.scope:
            await self._heard.put((branch, None))


class TreeStreams:
    """Hands the events of trees to readers."""

    def __init__(self, store: Store, log: LogReader, cursors: Cursors, events: EventStreams) -> None:
        self.store = store
        self.log = log
        self.cursors = cursors
        self.events = events

    def tail(self, key: Key, *, depth: int | None = None, after: str | None = None, live: bool = True) -> TreeTail:
        """A reading of the tree below a session. Raises `UsageError` for a cursor that is none."""
        return TreeTail(self, key, depth=depth, after=after, live=live)

    async def has_ended(self, branch: Branch) -> bool:
        """Whether a child has come to its end; it may owe something behind it."""
        row = await self.store.index.get(branch.key) if branch.scope else None
        return _is_over(row)

    async def is_read_out(self, branch: Branch) -> bool:
        """Whether a child has come to its end, owes nothing behind it and was read: nobody need listen to it."""
        row = await self.store.index.get(branch.key) if branch.scope else None
        return row is not None and _is_over(row) and not row.owed and row.seq <= branch.seq


def _is_over(row: IndexRow | None) -> bool:
    return row is not None and row.parent is not None and row.state == "idle"
