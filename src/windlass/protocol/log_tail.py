"""The log of a session as it is stored: its appends, those that come, and the records in them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from windlass.events.base import Event
from windlass.events.stored import codec
from windlass.events.stored.record import Sealed
from windlass.runtime.streams.log_reader import LogReader
from windlass.runtime.streams.record import Record, causes
from windlass.runtime.streams.tree_merge import Scoped, TreeMerge
from windlass.store.base import Key, Store

from .view import UnknownRecord

FOLLOW_S = 0.1


async def appends(store: Store, key: Key, *, follow: bool = False) -> AsyncIterator[Sealed]:
    """The appends of a log; if it is followed, also those that come, without end."""
    reader, after = LogReader(store), 0
    while True:
        async for sealed in reader.appends(key, after=after):
            yield sealed
            after = sealed.last_seq
        if not follow:
            return
        while not await store.changed():
            await asyncio.sleep(FOLLOW_S)


async def records(store: Store, key: Key, *, follow: bool = False) -> AsyncIterator[Record | UnknownRecord]:
    """The same, record by record, those included that this version does not know."""
    async for sealed in appends(store, key, follow=follow):
        for record in records_in(sealed):
            yield record


async def tree(store: Store, key: Key, *, depth: int | None = None, follow: bool = False) -> AsyncIterator[Scoped]:
    """The records of a session and of those below it, merged into one order; if they are followed, also those that
    come, without end."""
    merge = TreeMerge(LogReader(store), key, depth=depth)
    while True:
        merge.look()
        while (scoped := await merge.next()) is not None:
            yield scoped
        if not follow:
            return
        while not await store.changed():
            await asyncio.sleep(FOLLOW_S)


def records_in(sealed: Sealed) -> list[Record | UnknownRecord]:
    """The records of one append."""
    append = codec.decode(sealed.data)
    seqs = causes(append.first_seq, append.events)
    return [_record(append, seqs[at], append.first_seq + at, event) for at, event in enumerate(append.events)]


def _record(append: codec.Appended, first: int, seq: int, event: Event | codec.Unknown) -> Record | UnknownRecord:
    at_ms = append.at_ms
    if isinstance(event, Event):
        return Record(seq=seq, at_ms=at_ms, event=event, first=first, hash=append.hash)
    return UnknownRecord(seq=seq, at_ms=at_ms, first=first, tag=event.tag, skeleton=bytes(event.skeleton))
