"""Stores with a bug each. They exist to show that the general rigs, unchanged, find such bugs."""

from __future__ import annotations

import asyncio
import pathlib
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any

from windlass.events.errors import StaleEpoch
from windlass.events.stored.record import Sealed
from windlass.store.base import InboxCommand, IndexRow, Key, Message, Sent, Store
from windlass.store.jsonl.log import JsonlLog
from windlass.store.jsonl.store import JsonlStore
from windlass.store.memory import MemoryLog, MemoryStore
from windlass.store.sqlite.inbox import SqliteInbox
from windlass.store.sqlite.log import SqliteLog, append
from windlass.store.sqlite.store import SqliteStore


class EagerSqlite(SqliteLog):
    """Acknowledges an append before it is committed."""

    async def append(self, key: Key, sealed: Sealed, **more: Any) -> None:
        await _half(super().append(key, sealed, **more))


class EagerJsonl(JsonlLog):
    """Acknowledges an append before it is written."""

    async def append(self, key: Key, sealed: Sealed, **more: Any) -> None:
        await _half(super().append(key, sealed, **more))


class EagerInbox(SqliteInbox):
    """Acknowledges a command before it is committed: a crash loses it."""

    async def send(self, key: Key, command: InboxCommand) -> Sent:
        await _half(super().send(key, command))
        return Sent(new=True, taken=False)


async def _half(work: Coroutine[Any, Any, Any]) -> None:
    """Begins the work and does not wait for its end."""
    task = asyncio.ensure_future(work)
    task.add_done_callback(lambda done: done.exception())
    await asyncio.sleep(0)


class Unfenced(MemoryLog):
    """Takes appends of any epoch."""

    async def append(
        self,
        key: Key,
        sealed: Sealed,
        *,
        takes: Sequence[str] = (),
        index: IndexRow | None = None,
        blobs: Mapping[str, bytes] | None = None,
        barrier: bool = False,
        sends: Sequence[Message] = (),
    ) -> None:
        ledger = self._memory.session(key).ledger
        real, ledger.epoch = ledger.epoch, sealed.epoch
        try:
            await super().append(key, sealed, takes=takes, index=index, blobs=blobs, sends=sends)
        finally:
            ledger.epoch = real


class Unordered(MemoryLog):
    """Takes appends wherever they begin."""

    async def append(
        self,
        key: Key,
        sealed: Sealed,
        *,
        takes: Sequence[str] = (),
        index: IndexRow | None = None,
        blobs: Mapping[str, bytes] | None = None,
        barrier: bool = False,
        sends: Sequence[Message] = (),
    ) -> None:
        ledger = self._memory.session(key).ledger
        ledger.seq, ledger.chain = sealed.first_seq - 1, sealed.prev_hash
        await super().append(key, sealed, takes=takes, index=index, blobs=blobs, sends=sends)


class Forgetful(MemoryLog):
    """Loses a waiting command now and then: when another one is taken."""

    async def append(
        self,
        key: Key,
        sealed: Sealed,
        *,
        takes: Sequence[str] = (),
        index: IndexRow | None = None,
        blobs: Mapping[str, bytes] | None = None,
        barrier: bool = False,
        sends: Sequence[Message] = (),
    ) -> None:
        await super().append(key, sealed, takes=takes, index=index, blobs=blobs, sends=sends)
        ledger = self._memory.session(key).ledger
        if takes and ledger.waiting:
            del ledger.waiting[next(iter(ledger.waiting))]


class FencedBefore(SqliteLog):
    """Compares the epoch before the transaction, and not in it."""

    async def append(
        self,
        key: Key,
        sealed: Sealed,
        *,
        takes: Sequence[str] = (),
        index: IndexRow | None = None,
        blobs: Mapping[str, bytes] | None = None,
        barrier: bool = False,
        sends: Sequence[Message] = (),
    ) -> None:
        head = await self.head(key)
        if head is not None and head.epoch != sealed.epoch:
            raise StaleEpoch("seen in time")

        def unfenced(cursor: Any) -> None:
            where = (key.tenant, key.session)
            (real,) = cursor.execute("SELECT epoch FROM sessions WHERE tenant = ? AND session = ?", where).fetchone()
            change = "UPDATE sessions SET epoch = ? WHERE tenant = ? AND session = ?"
            cursor.execute(change, (sealed.epoch, *where))
            try:
                append(cursor, key, sealed, takes, index, blobs)
            finally:
                cursor.execute(change, (real, *where))

        await self._database.write(unfenced)


async def open_planted(name: str, place: pathlib.Path) -> Store:
    """Opens a store with this bug."""
    if name == "EagerJsonl":
        jsonl = await JsonlStore.open(place / "store.jsonl.d")
        jsonl.log = EagerJsonl(jsonl.writer)
        return jsonl
    if name in ("EagerSqlite", "EagerInbox", "FencedBefore"):
        sqlite = await SqliteStore.open(place / "store.db")
        match name:
            case "EagerSqlite":
                sqlite.log = EagerSqlite(sqlite.database)
            case "EagerInbox":
                sqlite.inbox = EagerInbox(sqlite.database)
            case _:
                sqlite.log = FencedBefore(sqlite.database)
        return sqlite
    store = MemoryStore()
    store.log = {"Unfenced": Unfenced, "Unordered": Unordered, "Forgetful": Forgetful}[name](store.memory)
    return store
