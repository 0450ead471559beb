"""Stores with a bug each. They exist to show that the general rigs, unchanged, find such bugs."""

from __future__ import annotations

import asyncio
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from windlass.events.errors import StaleEpoch
from windlass.events.record import Sealed
from windlass.store.base import InboxCommand, IndexRow, Key, Sent, Store
from windlass.store.jsonl import JsonlStore
from windlass.store.memory import MemoryStore
from windlass.store.sqlite import SqliteStore


class _Eager:
    """Acknowledges an append before it is committed."""

    async def append(self, key: Key, sealed: Sealed, **more: Any) -> None:
        task = asyncio.ensure_future(super().append(key, sealed, **more))  # type: ignore[misc]
        task.add_done_callback(lambda done: done.exception())
        await asyncio.sleep(0)


class EagerSqlite(_Eager, SqliteStore):
    pass


class EagerJsonl(_Eager, JsonlStore):
    pass


class EagerInbox(SqliteStore):
    """Acknowledges a command before it is committed: a crash loses it."""

    async def send(self, key: Key, command: InboxCommand) -> Sent:
        task = asyncio.ensure_future(super().send(key, command))
        task.add_done_callback(lambda done: done.exception())
        await asyncio.sleep(0)
        return Sent(new=True, taken=False)


class Unfenced(MemoryStore):
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
    ) -> None:
        ledger = self.ledger(key)
        real, ledger.epoch = ledger.epoch, sealed.epoch
        try:
            await super().append(key, sealed, takes=takes, index=index, blobs=blobs)
        finally:
            ledger.epoch = real


class Unordered(MemoryStore):
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
    ) -> None:
        ledger = self.ledger(key)
        ledger.seq, ledger.chain = sealed.first_seq - 1, sealed.prev_hash
        await super().append(key, sealed, takes=takes, index=index, blobs=blobs)


class Forgetful(MemoryStore):
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
    ) -> None:
        await super().append(key, sealed, takes=takes, index=index, blobs=blobs)
        ledger = self.ledger(key)
        if takes and ledger.waiting:
            del ledger.waiting[next(iter(ledger.waiting))]


class FencedBefore(SqliteStore):
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
                self._ops.append(cursor, key, sealed, takes, index, blobs)
            finally:
                cursor.execute(change, (real, *where))

        await self._write(unfenced)


async def open_planted(name: str, place: pathlib.Path) -> Store:
    """Opens a store with this bug."""
    if name in ("EagerSqlite", "EagerInbox", "FencedBefore"):
        kind = {"EagerSqlite": EagerSqlite, "EagerInbox": EagerInbox, "FencedBefore": FencedBefore}[name]
        return await kind.open(place / "store.db")
    if name == "EagerJsonl":
        return await EagerJsonl.open(place / "store.jsonl.d")
    return {"Unfenced": Unfenced, "Unordered": Unordered, "Forgetful": Forgetful}[name]()
