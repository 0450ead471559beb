"""The log of a store behind a server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence

import msgspec

from windlass.events.errors import Damaged
from windlass.events.stored.record import Sealed
from windlass.store.base import Head, IndexRow, Key, Message, Origin, Snapshot, TakenCommand
from windlass.store.rules.ids import check_id, check_key, check_origin

from .asker import Asker
from .questions import (
    Adopt,
    Append,
    Create,
    Delete,
    Detach,
    DropSnapshots,
    Erase,
    Forks,
    GetHead,
    GetSnapshot,
    Line,
    LinePage,
    PutSnapshot,
    Question,
    Read,
)


class RemoteLog:
    """Logs over HTTP."""

    def __init__(self, asker: Asker) -> None:
        self._asker = asker

    async def create(self, key: Key, *, origin: Origin | None = None) -> bool:
        """Makes an empty session, or one that continues an origin."""
        check_key(key)
        if origin is not None:
            check_origin(key, origin)
        made: bool = await self._asker.ask(key.tenant, Create(session=key.session, origin=origin), bool)
        return made

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
        """The one transaction over all five parts. Asked once: a lost answer is a `StoreError`, and the owner looks."""
        for name in takes:
            check_id("command id", name)
        question = Append(
            session=check_key(key).session,
            line=_line(sealed),
            takes=tuple(takes),
            index=index,
            blobs=dict(blobs or {}),
            barrier=barrier,
            sends=tuple(sends),
        )
        await self._asker.ask(key.tenant, question)

    async def adopt(
        self,
        key: Key,
        lines: Sequence[Sealed],
        *,
        origin: Origin | None = None,
        takes: Sequence[TakenCommand] = (),
        index: IndexRow | None = None,
    ) -> None:
        """Makes a session out of lines that were written in another store."""
        if origin is not None:
            check_origin(check_key(key), origin)
        made = tuple(map(_line, lines))
        await self._asker.ask(
            key.tenant,
            Adopt(session=check_key(key).session, lines=made, origin=origin, takes=tuple(takes), index=index),
        )

    async def head(self, key: Key) -> Head | None:
        """Where the log ends."""
        head: Head | None = await self._asker.ask(key.tenant, GetHead(session=check_key(key).session), Head | None)
        return head

    async def read(self, key: Key, *, after: int = 0, until: int | None = None) -> AsyncIterator[Sealed]:
        """The session's own appends, a page at a time."""
        check_key(key)
        more = True
        while more:
            page: LinePage = await self._asker.ask(
                key.tenant, Read(session=key.session, after=after, until=until), LinePage
            )
            for sealed in page.lines:
                yield sealed
                after = sealed.last_seq
            if page.damage:
                raise Damaged(page.damage, seq=page.damaged_seq)
            more = page.more

    async def erase(self, key: Key, seq: int, *, by: str, why: str, at_ms: int) -> None:
        """Replaces the body of one event by a tombstone."""
        await self._do(key, Erase(session=key.session, seq=seq, by=by, why=why, at_ms=at_ms))

    async def forks(self, key: Key) -> list[str]:
        """The sessions that continue this one."""
        forks: list[str] = await self._asker.ask(key.tenant, Forks(session=check_key(key).session), list[str])
        return forks

    async def detach(self, key: Key) -> None:
        """Copies the origin's history into a forked session."""
        await self._do(key, Detach(session=key.session))

    async def delete(self, key: Key) -> None:
        """Removes a session with all that is its own."""
        await self._do(key, Delete(session=key.session))

    async def put_snapshot(self, key: Key, snapshot: Snapshot) -> None:
        """Keeps a snapshot."""
        await self._do(key, PutSnapshot(session=key.session, snapshot=snapshot))

    async def get_snapshot(self, key: Key, *, at_most: int | None = None) -> Snapshot | None:
        """The newest snapshot (at or before `at_most`)."""
        snapshot: Snapshot | None = await self._asker.ask(
            key.tenant, GetSnapshot(session=check_key(key).session, at_most=at_most), Snapshot | None
        )
        return snapshot

    async def drop_snapshots(self, key: Key) -> int:
        """Removes all snapshots of a session and says how many there were."""
        dropped: int = await self._asker.ask(key.tenant, DropSnapshots(session=check_key(key).session), int)
        return dropped

    async def _do(self, key: Key, question: Question) -> None:
        await self._asker.ask(check_key(key).tenant, question)


def _line(sealed: Sealed) -> Line:
    return Line(data=sealed.data, prev_hash=sealed.prev_hash)


def renamed(row: IndexRow, tenant: str) -> IndexRow:
    """A row under the name that its tenant has here."""
    return row if row.tenant == tenant else msgspec.structs.replace(row, tenant=tenant)
