"""What a check of the store kit works with: a way to open the store under test, and a writer of plausible logs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import msgspec

from windlass.events.errors import NotFound, UsageError
from windlass.events.stored import record
from windlass.events.stored.record import Sealed
from windlass.store.base import Capabilities, InboxCommand, IndexRow, Key, Origin, Store

OpenStore = Callable[[], Awaitable[Store]]
CheckFunction = Callable[["StoreCase"], Awaitable[None]]
ErrorT = TypeVar("ErrorT", bound=BaseException)

NOW_MS = 1_700_000_000_000
TTL_MS = 15_000
TENANT = "default"


class StoreCase:
    """One empty store to be checked. `open` must return the same data each time, if the store is durable."""

    def __init__(self, open_store: OpenStore, capabilities: Capabilities) -> None:
        self._open_store = open_store
        self.capabilities = capabilities

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Store]:
        """The store, closed again at the end."""
        store = await self._open_store()
        try:
            yield store
        finally:
            await store.close()


class Check(msgspec.Struct, frozen=True):
    """A promise of one part of a store, and which capabilities it takes to make it."""

    part: str
    promise: str
    run: CheckFunction
    needs: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.part}.{self.promise}"

    def applies(self, capabilities: Capabilities) -> bool:
        return all(getattr(capabilities, need) for need in self.needs)


class Writer:
    """Owns a session and writes numbered events to it."""

    def __init__(self, store: Store, key: Key | str = "s1", runner: str = "runner-1") -> None:
        self.store = store
        self.key = Key(TENANT, key) if isinstance(key, str) else key
        self.runner = runner
        self.seq = 0
        self.hash = record.GENESIS
        self.epoch = 0
        self.lines: list[Sealed] = []

    async def claim(self, *, now_ms: int = NOW_MS, renew: bool = False, create: bool = True) -> Writer:
        """Makes the session if need be, and takes it."""
        if create:
            await self.store.log.create(self.key)
        claim = await self.store.leases.claim(self.key, runner=self.runner, ttl_ms=TTL_MS, now_ms=now_ms, renew=renew)
        self.epoch, self.seq, self.hash = claim.epoch, claim.head.seq, claim.head.hash
        return self

    def seal(self, *bodies: bytes, events: int = 1) -> Sealed:
        """An append that would come next: one event for each body, or `events` numbered ones."""
        return seal_after(self.seq, self.hash, self.epoch, bodies or numbered(self.seq, events))

    def accept(self, sealed: Sealed) -> None:
        """The store has kept this append."""
        self.lines.append(sealed)
        self.seq, self.hash = sealed.last_seq, sealed.hash

    async def append(self, *bodies: bytes, events: int = 1, **more: Any) -> Sealed:
        """Seals and appends."""
        sealed = self.seal(*bodies, events=events)
        await self.store.log.append(self.key, sealed, **more)
        self.accept(sealed)
        return sealed

    def row(self, **fields: Any) -> IndexRow:
        """An index row of this session."""
        return IndexRow(session=self.key.session, tenant=self.key.tenant, seq=self.seq, **fields)


def seal_after(seq: int, chain: str, epoch: int, bodies: Iterable[bytes]) -> Sealed:
    """An append behind (seq, chain) with one event for each body."""
    entries = [
        (b'{"type":"kit.said"}', body, record.stored_text(b"salt%08d" % (seq + i))) for i, body in enumerate(bodies)
    ]
    return record.seal(chain, seq + 1, NOW_MS + seq, epoch, entries)


def numbered(seq: int, events: int) -> tuple[bytes, ...]:
    """Bodies that say which event they belong to, so that a lost or doubled one shows."""
    return tuple(b'{"n":%d}' % (seq + i + 1) for i in range(events))


def command(command_id: str, data: bytes = b"{}", at_ms: int = NOW_MS) -> InboxCommand:
    """A command for an inbox."""
    return InboxCommand(command_id=command_id, at_ms=at_ms, data=data)


async def raises(expected: type[ErrorT], awaitable: Awaitable[object]) -> ErrorT:
    """The error that the awaitable raises; fails if it raises none or another one."""
    try:
        result = await awaitable
    except expected as error:
        return error
    raise AssertionError(f"expected {expected.__name__}, got {result!r}")


async def lines_of(store: Store, key: Key, *, after: int = 0, until: int | None = None) -> list[Sealed]:
    """All that `read` yields."""
    return [sealed async for sealed in store.log.read(key, after=after, until=until)]


async def make_fork(store: Store, key: Key, origin: Origin) -> bool:
    """Makes a fork; a store may say either error of an origin that is not there."""
    try:
        return await store.log.create(key, origin=origin)
    except NotFound as error:
        raise UsageError(str(error)) from error
