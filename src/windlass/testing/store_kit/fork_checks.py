"""Promises about forks: they share the history of their origin, which stays as long as they need it."""

from __future__ import annotations

from windlass.events.errors import NotFound, StaleEpoch, UsageError
from windlass.store.base import (
    Head,
    Key,
    Origin,
    Snapshot,
)
from windlass.store.chain import history, verify_chain

from .case import NOW_MS, StoreCase, Writer, lines_of, make_fork, numbered, raises, seal_after


async def forks_share_history(case: StoreCase) -> None:
    async with case.open() as store:
        root = await Writer(store, "root").claim()
        for _ in range(3):
            await root.append(events=2)
        origin = Origin(session="root", seq=4, hash=root.lines[1].hash)
        fork = Writer(store, "fork")
        assert await store.log.create(fork.key, origin=origin) is True
        assert await store.log.create(fork.key, origin=origin) is False
        await raises(UsageError, store.log.create(fork.key))
        # Epochs never fall along a history: the fork's continue from those that it shares.
        assert await store.log.head(fork.key) == Head(seq=4, hash=origin.hash, epoch=1, origin=origin)
        await raises(StaleEpoch, store.log.append(fork.key, seal_after(4, origin.hash, 1, numbered(4, 1))))
        await fork.claim(create=False)
        await fork.append(b'"mine"')
        assert await lines_of(store, fork.key) == fork.lines
        whole = [*root.lines[:2], *fork.lines]
        assert [line async for line in history(store, fork.key)] == whole
        assert [line async for line in history(store, fork.key, after=2, until=4)] == whole[1:2]
        assert (await verify_chain(store, fork.key)).seq == 5
        nested = Writer(store, "nested")  # leaves its origin before that one's own beginning
        await store.log.create(nested.key, origin=Origin(session="fork", seq=2, hash=root.lines[0].hash))
        await nested.claim(create=False)
        await nested.append()
        assert [line async for line in history(store, nested.key)] == [root.lines[0], *nested.lines]
        await verify_chain(store, nested.key)
        assert await store.log.forks(root.key) == ["fork"]
        assert await store.log.forks(fork.key) == ["nested"]
        for wrong in (
            Origin(session="root", seq=3, hash=root.lines[1].hash),
            Origin(session="root", seq=4, hash=root.lines[0].hash),
            Origin(session="root", seq=99, hash=root.hash),
            Origin(session="root", seq=0, hash=""),
            Origin(session="bad", seq=4, hash=origin.hash),
        ):
            await raises(UsageError, make_fork(store, Key("default", "bad"), wrong))
        assert await store.log.head(Key("default", "bad")) is None


async def an_origin_outlives_its_forks(case: StoreCase) -> None:
    async with case.open() as store:
        root = await Writer(store, "root").claim()
        await root.append(events=3)
        await root.append()
        fork = Writer(store, "fork")
        await store.log.create(fork.key, origin=Origin(session="root", seq=3, hash=root.lines[0].hash))
        await fork.claim(create=False)
        await fork.append(takes=["c"])
        error = await raises(UsageError, store.log.delete(root.key))
        assert "fork" in str(error)
        await store.log.detach(fork.key)
        await store.log.detach(fork.key)  # a second time there is nothing to do
        head = await store.log.head(fork.key)
        assert head == Head(seq=4, hash=fork.hash, epoch=2), head
        assert await lines_of(store, fork.key) == [root.lines[0], *fork.lines]
        await store.log.delete(root.key)
        assert await store.log.head(root.key) is None
        await verify_chain(store, fork.key)
        await fork.append()
        assert await lines_of(store, fork.key) == [root.lines[0], *fork.lines]
        await raises(NotFound, store.log.delete(root.key))


async def erasing_drops_snapshots_of_forks_too(case: StoreCase) -> None:
    async with case.open() as store:
        root = await Writer(store, "root").claim()
        await root.append(events=2)
        fork = Key("default", "fork")
        await store.log.create(fork, origin=Origin(session="root", seq=2, hash=root.hash))
        for key in (root.key, fork):
            await store.log.put_snapshot(key, Snapshot(seq=2, hash=root.hash, state_version=1, data=b"x"))
        await store.log.erase(root.key, 1, by="ana", why="asked", at_ms=NOW_MS)
        assert await store.log.get_snapshot(root.key) is None
        assert await store.log.get_snapshot(fork) is None
        await raises(NotFound, store.log.erase(fork, 1, by="ana", why="asked", at_ms=NOW_MS))


CHECKS = (
    forks_share_history,
    an_origin_outlives_its_forks,
    erasing_drops_snapshots_of_forks_too,
)
