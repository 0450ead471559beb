"""The store through which each simulated process reaches the disk, with everything that a store may do wrong: be slow,
fail before or after it kept something, be full, lose a snapshot, write late."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from windlass.events.errors import (
    CommandTaken,
    LeaseHeld,
    SeqConflict,
    StaleEpoch,
    StorageFull,
    StoreError,
    StorePoisoned,
)
from windlass.events.stored.record import Sealed
from windlass.store.base import (
    MEDIA_TYPE,
    BlobInfo,
    Capabilities,
    Claim,
    Durability,
    Head,
    Holder,
    InboxCommand,
    IndexRow,
    Key,
    Message,
    Origin,
    Query,
    Sent,
    Snapshot,
    TakenCommand,
)

from .disk import Disk
from .loop import Actor

if TYPE_CHECKING:
    from .world import World

LATE_MS_MAX = 3_000
LATENCY_MS = (1, 5, 20, 100, 800)
FULL_MS = (500, 3_000, 20_000)
STALLS = 20.0
"""How much more often a process stands still right after an append: what it has put on record it is about to begin, and
somebody else may have the session by then."""


class ConnectionLost(StoreError):
    """The store did not answer; whether it kept what it was given is not known."""


class Way:
    """The way of one process to the disk: it takes time, and on it everything goes wrong that may."""

    def __init__(self, world: World, disk: Disk, actor: Actor) -> None:
        self.world = world
        self.disk = disk
        self.actor = actor
        self.poisoned = False
        self._late: list[Callable[[], None]] = []

    async def _pass(self, name: str) -> None:
        """Takes time; the process may die meanwhile."""
        world = self.world
        world.step(self.actor, name)
        await world.pause(self.actor, f"store.{name}")
        if self.poisoned:
            raise StorePoisoned("a sync failed: open the store again")

    async def to_write(self, name: str) -> None:
        await self._pass(name)
        self.land()
        if self.world.is_full:
            self.world.reached("storage_full")
            raise StorageFull("no room on the simulated disk")

    async def to_read(self, name: str) -> None:
        await self._pass(name)
        if self.world.chance.hit(self.world.rates.read_error):
            self.world.reached("read_error")
            raise ConnectionLost("the store did not answer")

    def land(self) -> None:
        """Writes that were handed over before are done before this one, whoever waits for them."""
        late, self._late = self._late, []
        for write in late:
            write()

    def died(self) -> None:
        """The process is gone: what it handed over may or may not have reached the disk."""
        if self.world.chance.hit(0.5):
            self.land()
        self._late = []

    def hand_over(self, write: Callable[[], None]) -> None:
        """A write that nobody waits for any more: it is done a while later, or before the next one."""
        self._late.append(write)
        self.world.after(self.world.chance.below(LATE_MS_MAX), self.actor, self.land)


class SimLog:
    """Appends that may fail before or after they are kept, come twice, or come late."""

    def __init__(self, way: Way) -> None:
        self._way = way

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
        more = {"index": index, "blobs": blobs, "barrier": barrier, "sends": sends}
        appending = self._way.world.appending
        appending[self._way.actor] = False
        try:
            await self._append(key, sealed, takes, more)
        finally:
            if not self._way.actor.dead:
                appending.pop(self._way.actor, None)

    async def _append(self, key: Key, sealed: Sealed, takes: Sequence[str], more: dict[str, Any]) -> None:
        world, chance = self._way.world, self._way.world.chance
        try:
            await self._way.to_write("append")
        except asyncio.CancelledError:
            self._perhaps_late(key, sealed, takes, more)
            raise
        if chance.hit(world.rates.lost_before):
            world.reached("append_failed")
            raise ConnectionLost("the connection was lost before the append")
        if chance.hit(world.rates.poison):
            self._poison(key, sealed, takes, more)
        try:
            self._way.disk.write(self._way.actor, key, sealed, takes, more)
        except StaleEpoch:
            world.reached("stale_append_refused")
            raise
        if chance.hit(world.rates.twice):
            self._again(key, sealed, takes, more)
        if chance.hit(world.rates.lost_after):
            world.reached("lost_acknowledgement")
            raise ConnectionLost("the connection was lost after the append")
        world.appending[self._way.actor] = True
        try:
            await world.pause(self._way.actor, "store.appended", stalls=STALLS)
        except asyncio.CancelledError:
            world.reached("cancelled_after_append")
            raise

    def _again(self, key: Key, sealed: Sealed, takes: Sequence[str], more: dict[str, Any]) -> None:
        """The same append reaches the disk twice, as over a connection that repeats what it did not hear of."""
        try:
            self._way.disk.write(self._way.actor, key, sealed, takes, more)
        except (SeqConflict, CommandTaken):
            self._way.world.reached("second_append_refused")

    def _perhaps_late(self, key: Key, sealed: Sealed, takes: Sequence[str], more: dict[str, Any]) -> None:
        """Nobody waits any more, but what was handed over may still be written."""
        world = self._way.world
        if self._way.poisoned or not world.chance.hit(world.rates.late):
            return

        def write() -> None:
            try:
                self._way.disk.write(self._way.actor, key, sealed, takes, more)
                world.reached("late_append")
            except StoreError:
                world.reached("late_append_refused")

        self._way.hand_over(write)

    def _poison(self, key: Key, sealed: Sealed, takes: Sequence[str], more: dict[str, Any]) -> None:
        world = self._way.world
        self._way.poisoned = True
        world.reached("store_poisoned")
        if world.chance.hit(0.5):
            self._way.disk.write(self._way.actor, key, sealed, takes, more)
        raise StorePoisoned("a sync failed: open the store again")

    async def create(self, key: Key, *, origin: Origin | None = None) -> bool:
        await self._way.to_write("create")
        return await self._way.disk.create(key, origin=origin)

    async def adopt(
        self,
        key: Key,
        lines: Sequence[Sealed],
        *,
        origin: Origin | None = None,
        takes: Sequence[TakenCommand] = (),
        index: IndexRow | None = None,
    ) -> None:
        await self._way.to_write("adopt")
        await self._way.disk.kept.log.adopt(key, lines, origin=origin, takes=takes, index=index)

    async def head(self, key: Key) -> Head | None:
        await self._way.to_read("head")
        return await self._way.disk.kept.log.head(key)

    async def read(self, key: Key, *, after: int = 0, until: int | None = None) -> AsyncIterator[Sealed]:
        await self._way.to_read("read")
        async for sealed in self._way.disk.kept.log.read(key, after=after, until=until):
            yield sealed

    async def erase(self, key: Key, seq: int, *, by: str, why: str, at_ms: int) -> None:
        await self._way.to_write("erase")
        await self._way.disk.kept.log.erase(key, seq, by=by, why=why, at_ms=at_ms)

    async def forks(self, key: Key) -> list[str]:
        await self._way.to_read("forks")
        return await self._way.disk.kept.log.forks(key)

    async def detach(self, key: Key) -> None:
        await self._way.to_write("detach")
        await self._way.disk.kept.log.detach(key)

    async def delete(self, key: Key) -> None:
        await self._way.to_write("delete")
        await self._way.disk.kept.log.delete(key)

    async def put_snapshot(self, key: Key, snapshot: Snapshot) -> None:
        await self._way.to_write("put_snapshot")
        self._way.world.watch.snapshot(key, snapshot)
        await self._way.disk.kept.log.put_snapshot(key, snapshot)

    async def get_snapshot(self, key: Key, *, at_most: int | None = None) -> Snapshot | None:
        await self._way.to_read("get_snapshot")
        loses = self._way.world.chance.hit(self._way.world.rates.snapshot_loss)
        if loses and await self._way.disk.kept.log.drop_snapshots(key):
            self._way.world.reached("snapshot_lost")
        snapshot = await self._way.disk.kept.log.get_snapshot(key, at_most=at_most)
        if snapshot is not None:
            self._way.world.reached("snapshot_used")
        return snapshot

    async def drop_snapshots(self, key: Key) -> int:
        await self._way.to_write("drop_snapshots")
        return await self._way.disk.kept.log.drop_snapshots(key)


class SimInbox:
    """Inboxes that answer late, or not."""

    def __init__(self, way: Way) -> None:
        self._way = way

    async def send(self, key: Key, command: InboxCommand) -> Sent:
        await self._way.to_write("send")
        sent = await self._way.disk.kept.inbox.send(key, command)
        await self._way.world.pause(self._way.actor, "store.sent")
        return sent

    async def waiting(self, key: Key, *, limit: int = 100) -> list[InboxCommand]:
        await self._way.to_read("inbox")
        return await self._way.disk.kept.inbox.waiting(key, limit=limit)

    async def taken(self, key: Key, *, after: str = "", limit: int = 1000) -> list[TakenCommand]:
        await self._way.to_read("taken")
        return await self._way.disk.kept.inbox.taken(key, after=after, limit=limit)


class SimLeases:
    """Leases; what a process believes to hold is noted for the watch."""

    def __init__(self, way: Way) -> None:
        self._way = way

    async def claim(self, key: Key, *, runner: str, ttl_ms: int, now_ms: int, renew: bool = False) -> Claim:
        since = self._way.world.loop.time()
        await self._way.to_write("claim")
        try:
            claim = await self._way.disk.kept.leases.claim(
                key, runner=runner, ttl_ms=ttl_ms, now_ms=now_ms, renew=renew
            )
        except LeaseHeld:
            self._way.world.reached("lease_held")
            raise
        self._way.world.watch.claimed(self._way.actor, key, claim.epoch)
        await self._way.world.pause(self._way.actor, "store.claimed")
        self._way.actor.leases[key] = (claim.epoch, since + ttl_ms / 1000)
        return claim

    async def keep(self, key: Key, *, runner: str, epoch: int, ttl_ms: int, now_ms: int) -> None:
        since = self._way.world.loop.time()
        await self._way.to_write("keep")
        try:
            await self._way.disk.kept.leases.keep(key, runner=runner, epoch=epoch, ttl_ms=ttl_ms, now_ms=now_ms)
        except StaleEpoch:
            self._way.world.reached("stale_keep_refused")
            raise
        self._way.actor.leases[key] = (epoch, since + ttl_ms / 1000)

    async def release(self, key: Key, *, runner: str, epoch: int) -> None:
        await self._way.to_write("release")
        await self._way.disk.kept.leases.release(key, runner=runner, epoch=epoch)

    async def holder(self, key: Key, *, now_ms: int) -> Holder | None:
        await self._way.to_read("holder")
        return await self._way.disk.kept.leases.holder(key, now_ms=now_ms)


class SimIndex:
    """An index that answers late, or not."""

    def __init__(self, way: Way) -> None:
        self._way = way

    async def put(self, row: IndexRow) -> None:
        await self._way.to_write("put_index")
        await self._way.disk.kept.index.put(row)

    async def get(self, key: Key) -> IndexRow | None:
        await self._way.to_read("get_index")
        return await self._way.disk.kept.index.get(key)

    async def find(self, query: Query) -> list[IndexRow]:
        await self._way.to_read("find")
        return await self._way.disk.kept.index.find(query)


class SimBlobs:
    """Blobs that come late, or not."""

    def __init__(self, way: Way) -> None:
        self._way = way

    async def put(self, tenant: str, data: bytes, *, media_type: str = MEDIA_TYPE) -> str:
        await self._way.to_write("put_blob")
        return await self._way.disk.kept.blobs.put(tenant, data, media_type=media_type)

    async def get(self, tenant: str, digest: str, *, start: int = 0, length: int | None = None) -> bytes:
        await self._way.to_read("get_blob")
        return await self._way.disk.kept.blobs.get(tenant, digest, start=start, length=length)

    async def info(self, tenant: str, digest: str) -> BlobInfo | None:
        await self._way.to_read("blob_info")
        return await self._way.disk.kept.blobs.info(tenant, digest)

    async def erase(self, tenant: str, digest: str) -> bool:
        await self._way.to_write("erase_blob")
        return await self._way.disk.kept.blobs.erase(tenant, digest)


class SimStore:
    """The disk as one process sees it."""

    def __init__(self, world: World, disk: Disk, actor: Actor) -> None:
        self.way = Way(world, disk, actor)
        self._seen = -1
        self.log = SimLog(self.way)
        self.inbox = SimInbox(self.way)
        self.leases = SimLeases(self.way)
        self.index = SimIndex(self.way)
        self.blobs = SimBlobs(self.way)

    @property
    def durability(self) -> Durability:
        return "full"

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(durable=True, multi_process=True, transactional=True, sends=True)

    @property
    def poisoned(self) -> bool:
        return self.way.poisoned

    def died(self) -> None:
        """The process is gone: what it handed over may or may not have reached the disk."""
        self.way.died()

    async def changed(self) -> bool:
        if self.poisoned:
            raise StorePoisoned("a sync failed: open the store again")
        seen, self._seen = self._seen, self.way.disk.writes
        return seen != self._seen

    async def close(self) -> None:
        self.way.land()
