"""A disk that survives its processes, and the store through which each process reaches it, with everything that a
store may do wrong: be slow, fail before or after it kept something, be full, lose a snapshot, write late.

What is on the disk is judged by the rules of `MemoryStore`; faults never bend those.
"""

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
from windlass.events.record import Sealed
from windlass.store.base import (
    BlobInfo,
    Capabilities,
    Claim,
    Durability,
    Head,
    Holder,
    InboxCommand,
    IndexRow,
    Key,
    Origin,
    Query,
    Sent,
    Snapshot,
    TakenCommand,
)
from windlass.store.memory import MemoryStore

from .loop import Actor

if TYPE_CHECKING:
    from .world import World

LATE_MS_MAX = 3_000
LATENCY_MS = (1, 5, 20, 100, 800)
FULL_MS = (500, 3_000, 20_000)


class ConnectionLost(StoreError):
    """The store did not answer; whether it kept what it was given is not known."""


class Disk(MemoryStore):
    """What is kept. It tells the watch of everything that changes a log."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    @property
    def writes(self) -> int:
        return self._writes

    async def create(self, key: Key, *, origin: Origin | None = None) -> bool:
        made = await super().create(key, origin=origin)
        if made:
            self._world.watch.created(key, origin)
        return made

    def write(self, actor: Actor, key: Key, sealed: Sealed, takes: Sequence[str], more: dict[str, Any]) -> None:
        """One append, at this very moment. Raises as a store does."""
        epoch = self.ledger(key).epoch
        at_once(super().append(key, sealed, takes=takes, **more))
        self._world.watch.committed(actor, key, sealed, takes, more.get("index"), epoch)

    async def erase_at(self, key: Key, seq: int) -> None:
        """An operator erases the content of an event."""
        await self.erase(key, seq, by="operator", why="asked to", at_ms=0)
        async for sealed in self.read(key):
            if sealed.first_seq <= seq <= sealed.last_seq:
                self._world.watch.erased(key, sealed.data)
        self._world.reached("erased")


class SimStore:
    """The disk as one process sees it."""

    def __init__(self, world: World, disk: Disk, actor: Actor) -> None:
        self._world = world
        self._disk = disk
        self._actor = actor
        self._seen = -1
        self._late: list[Callable[[], None]] = []
        self.poisoned = False

    @property
    def durability(self) -> Durability:
        return "full"

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(durable=True, multi_process=True, transactional=True)

    # --- what may go wrong ---

    async def _reach(self, name: str) -> None:
        """The way to the disk: it takes time, and the process may die on it."""
        world = self._world
        world.step(self._actor, name)
        await world.pause(self._actor, f"store.{name}")
        if self.poisoned:
            raise StorePoisoned("a sync failed: open the store again")

    async def _reach_to_write(self, name: str) -> None:
        await self._reach(name)
        self._land()
        if self._world.is_full:
            self._world.reached("storage_full")
            raise StorageFull("no room on the simulated disk")

    async def _reach_to_read(self, name: str) -> None:
        await self._reach(name)
        if self._world.chance.hit(self._world.rates.read_error):
            self._world.reached("read_error")
            raise ConnectionLost("the store did not answer")

    def _land(self) -> None:
        """Writes that were handed over before are done before this one, whoever waits for them."""
        late, self._late = self._late, []
        for write in late:
            write()

    def died(self) -> None:
        """The process is gone: what it handed over may or may not have reached the disk."""
        if self._world.chance.hit(0.5):
            self._land()
        self._late = []

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
        more = {"index": index, "blobs": blobs, "barrier": barrier}
        appending = self._world.appending
        appending[self._actor] = False
        try:
            await self._append(key, sealed, takes, more)
        finally:
            if not self._actor.dead:
                appending.pop(self._actor, None)

    async def _append(self, key: Key, sealed: Sealed, takes: Sequence[str], more: dict[str, Any]) -> None:
        world, chance = self._world, self._world.chance
        try:
            await self._reach_to_write("append")
        except asyncio.CancelledError:
            self._perhaps_late(key, sealed, takes, more)
            raise
        if chance.hit(world.rates.lost_before):
            world.reached("append_failed")
            raise ConnectionLost("the connection was lost before the append")
        if chance.hit(world.rates.poison):
            self._poison(key, sealed, takes, more)
        try:
            self._disk.write(self._actor, key, sealed, takes, more)
        except StaleEpoch:
            world.reached("stale_append_refused")
            raise
        if chance.hit(world.rates.twice):
            self._again(key, sealed, takes, more)
        if chance.hit(world.rates.lost_after):
            world.reached("lost_acknowledgement")
            raise ConnectionLost("the connection was lost after the append")
        world.appending[self._actor] = True
        try:
            await world.pause(self._actor, "store.appended")
        except asyncio.CancelledError:
            world.reached("cancelled_after_append")
            raise

    def _again(self, key: Key, sealed: Sealed, takes: Sequence[str], more: dict[str, Any]) -> None:
        """The same append reaches the disk twice, as over a connection that repeats what it did not hear of."""
        try:
            self._disk.write(self._actor, key, sealed, takes, more)
        except (SeqConflict, CommandTaken):
            self._world.reached("second_append_refused")

    def _perhaps_late(self, key: Key, sealed: Sealed, takes: Sequence[str], more: dict[str, Any]) -> None:
        """Nobody waits any more, but what was handed over may still be written."""
        world = self._world
        if self.poisoned or not world.chance.hit(world.rates.late):
            return

        def write() -> None:
            try:
                self._disk.write(self._actor, key, sealed, takes, more)
                world.reached("late_append")
            except StoreError:
                world.reached("late_append_refused")

        self._late.append(write)
        world.after(world.chance.below(LATE_MS_MAX), self._actor, self._land)

    def _poison(self, key: Key, sealed: Sealed, takes: Sequence[str], more: dict[str, Any]) -> None:
        world = self._world
        self.poisoned = True
        world.reached("store_poisoned")
        if world.chance.hit(0.5):
            self._disk.write(self._actor, key, sealed, takes, more)
        raise StorePoisoned("a sync failed: open the store again")

    # --- sessions and leases ---

    async def create(self, key: Key, *, origin: Origin | None = None) -> bool:
        await self._reach_to_write("create")
        return await self._disk.create(key, origin=origin)

    async def claim(self, key: Key, *, runner: str, ttl_ms: int, now_ms: int, renew: bool = False) -> Claim:
        since = self._world.loop.time()
        await self._reach_to_write("claim")
        try:
            claim = await self._disk.claim(key, runner=runner, ttl_ms=ttl_ms, now_ms=now_ms, renew=renew)
        except LeaseHeld:
            self._world.reached("lease_held")
            raise
        self._world.watch.claimed(self._actor, key, claim.epoch)
        await self._world.pause(self._actor, "store.claimed")
        self._actor.leases[key] = (claim.epoch, since + ttl_ms / 1000)
        return claim

    async def keep(self, key: Key, *, runner: str, epoch: int, ttl_ms: int, now_ms: int) -> None:
        since = self._world.loop.time()
        await self._reach_to_write("keep")
        try:
            await self._disk.keep(key, runner=runner, epoch=epoch, ttl_ms=ttl_ms, now_ms=now_ms)
        except StaleEpoch:
            self._world.reached("stale_keep_refused")
            raise
        self._actor.leases[key] = (epoch, since + ttl_ms / 1000)

    async def release(self, key: Key, *, runner: str, epoch: int) -> None:
        await self._reach_to_write("release")
        await self._disk.release(key, runner=runner, epoch=epoch)

    async def adopt(self, key: Key, lines: Sequence[Sealed], *, epoch: int, takes: Sequence[TakenCommand] = ()) -> None:
        await self._reach_to_write("adopt")
        await self._disk.adopt(key, lines, epoch=epoch, takes=takes)

    # --- reading ---

    async def holder(self, key: Key, *, now_ms: int) -> Holder | None:
        await self._reach_to_read("holder")
        return await self._disk.holder(key, now_ms=now_ms)

    async def head(self, key: Key) -> Head | None:
        await self._reach_to_read("head")
        return await self._disk.head(key)

    async def read(self, key: Key, *, after: int = 0, until: int | None = None) -> AsyncIterator[Sealed]:
        await self._reach_to_read("read")
        async for sealed in self._disk.read(key, after=after, until=until):
            yield sealed

    async def send(self, key: Key, command: InboxCommand) -> Sent:
        await self._reach_to_write("send")
        sent = await self._disk.send(key, command)
        await self._world.pause(self._actor, "store.sent")
        return sent

    async def inbox(self, key: Key, *, limit: int = 100) -> list[InboxCommand]:
        await self._reach_to_read("inbox")
        return await self._disk.inbox(key, limit=limit)

    async def taken(self, key: Key, *, after: str = "", limit: int = 1000) -> list[TakenCommand]:
        await self._reach_to_read("taken")
        return await self._disk.taken(key, after=after, limit=limit)

    async def put_snapshot(self, key: Key, snapshot: Snapshot) -> None:
        await self._reach_to_write("put_snapshot")
        self._world.watch.snapshot(key, snapshot)
        await self._disk.put_snapshot(key, snapshot)

    async def get_snapshot(self, key: Key, *, at_most: int | None = None) -> Snapshot | None:
        await self._reach_to_read("get_snapshot")
        loses = self._world.chance.hit(self._world.rates.snapshot_loss)
        if loses and await self._disk.drop_snapshots(key):
            self._world.reached("snapshot_lost")
        found = await self._disk.get_snapshot(key, at_most=at_most)
        if found is not None:
            self._world.reached("snapshot_used")
        return found

    async def drop_snapshots(self, key: Key) -> int:
        await self._reach_to_write("drop_snapshots")
        return await self._disk.drop_snapshots(key)

    async def put_index(self, row: IndexRow) -> None:
        await self._reach_to_write("put_index")
        await self._disk.put_index(row)

    async def get_index(self, key: Key) -> IndexRow | None:
        await self._reach_to_read("get_index")
        return await self._disk.get_index(key)

    async def find(self, query: Query) -> list[IndexRow]:
        await self._reach_to_read("find")
        return await self._disk.find(query)

    async def put_blob(self, tenant: str, data: bytes, *, media_type: str = "application/octet-stream") -> str:
        await self._reach_to_write("put_blob")
        return await self._disk.put_blob(tenant, data, media_type=media_type)

    async def get_blob(self, tenant: str, digest: str, *, start: int = 0, length: int | None = None) -> bytes:
        await self._reach_to_read("get_blob")
        return await self._disk.get_blob(tenant, digest, start=start, length=length)

    async def blob_info(self, tenant: str, digest: str) -> BlobInfo | None:
        await self._reach_to_read("blob_info")
        return await self._disk.blob_info(tenant, digest)

    async def erase_blob(self, tenant: str, digest: str) -> bool:
        await self._reach_to_write("erase_blob")
        return await self._disk.erase_blob(tenant, digest)

    async def erase(self, key: Key, seq: int, *, by: str, why: str, at_ms: int) -> None:
        await self._reach_to_write("erase")
        await self._disk.erase(key, seq, by=by, why=why, at_ms=at_ms)

    async def forks(self, key: Key) -> list[str]:
        await self._reach_to_read("forks")
        return await self._disk.forks(key)

    async def delete(self, key: Key) -> None:
        await self._reach_to_write("delete")
        await self._disk.delete(key)

    async def detach(self, key: Key) -> None:
        await self._reach_to_write("detach")
        await self._disk.detach(key)

    async def changed(self) -> bool:
        if self.poisoned:
            raise StorePoisoned("a sync failed: open the store again")
        seen, self._seen = self._seen, self._disk.writes
        return seen != self._seen

    async def close(self) -> None:
        self._land()


def at_once(work: Any) -> Any:
    """The result of a coroutine that never waits."""
    try:
        work.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("the disk waited for something")
