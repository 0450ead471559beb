"""Promises about moving sessions: what is exported and imported again is the same, byte for byte, or is refused."""

from __future__ import annotations

from collections.abc import AsyncIterator

from windlass.events.errors import Damaged, UsageError
from windlass.store.base import InboxCommand, Key, Origin, Sent, Store
from windlass.store.chain import verify_chain
from windlass.store.memory import MemoryStore
from windlass.store.transfer import export_session, import_session

from .case import NOW_MS, StoreCase, Writer, lines_of, raises

CHUNK_BYTES = 997


async def exported(store: Store, key: Key, *, whole: bool = False) -> bytes:
    return b"".join([line async for line in export_session(store, key, whole=whole)])


async def chunks(data: bytes, size: int = CHUNK_BYTES) -> AsyncIterator[bytes]:
    for start in range(0, len(data), size):
        yield data[start : start + size]


async def full_session(store: Store) -> Writer:
    """A session with everything that an export must carry."""
    writer = await Writer(store).claim()
    blob = bytes(range(256)) * 3_000
    digest = await store.put_blob("default", blob, media_type="image/png")
    await writer.append(b'{"blob":"%s"}' % digest.encode(), takes=["first", "also"])
    await store.send(writer.key, InboxCommand(command_id="waits", at_ms=3, data=b"\x00\xff"))
    await writer.claim(now_ms=NOW_MS + 60_000)
    await writer.append(b'"secret"', b'"x"', index=writer.row(title="exported", metadata={"a": "b"}))
    await writer.append(takes=["third"])
    await store.erase(writer.key, 2, by="ana", why="asked", at_ms=NOW_MS)
    return writer


async def an_export_comes_back_byte_for_byte(case: StoreCase) -> None:
    async with case.open() as store:
        writer = await full_session(store)
        data = await exported(store, writer.key)
        elsewhere = MemoryStore()
        assert await import_session(elsewhere, chunks(data)) == writer.key
        assert await exported(elsewhere, writer.key) == data
        await store.delete(writer.key)
        assert await import_session(store, chunks(data, 100_000)) == writer.key
        assert await exported(store, writer.key) == data
        await verify_chain(store, writer.key)
        again = InboxCommand(command_id="first", at_ms=0, data=b"")
        assert await store.send(writer.key, again) == Sent(new=False, taken=True)
        new = await Writer(store, runner="next").claim()
        assert new.epoch > 2, "the epochs of the log must never come again"
        await new.append()
        await verify_chain(store, writer.key)


async def a_session_may_get_another_name(case: StoreCase) -> None:
    async with case.open() as store:
        writer = await full_session(store)
        data = await exported(store, writer.key)
        copy = await import_session(store, chunks(data), key=Key("other", "copy"))
        assert [line.data for line in await lines_of(store, copy)] == [
            line.data for line in await lines_of(store, writer.key)
        ]
        row = await store.get_index(copy)
        assert row is not None
        assert (row.tenant, row.session, row.title) == ("other", "copy", "exported")


async def forks_are_exported_alone_or_whole(case: StoreCase) -> None:
    async with case.open() as store:
        root = await Writer(store, "root").claim()
        await root.append(events=2)
        await root.append()
        fork = Writer(store, "fork")
        await store.create(fork.key, origin=Origin(session="root", seq=2, hash=root.lines[0].hash))
        await fork.claim(create=False)
        await fork.append(takes=["c"])
        alone, whole = await exported(store, fork.key), await exported(store, fork.key, whole=True)
        elsewhere = MemoryStore()
        await import_session(elsewhere, chunks(whole))
        assert await lines_of(elsewhere, fork.key) == [root.lines[0], *fork.lines]
        await store.delete(fork.key)
        await import_session(store, chunks(alone))
        assert await exported(store, fork.key) == alone
        assert await store.forks(root.key) == ["fork"]


async def a_broken_export_is_refused_and_leaves_nothing(case: StoreCase) -> None:
    async with case.open() as store:
        source = MemoryStore()
        writer = await full_session(source)
        data = await exported(source, writer.key)
        lines = data.splitlines(keepends=True)
        flipped = bytearray(data)
        flipped[data.index(b'"n":4')] ^= 1
        for broken in (
            data[: len(data) // 2],
            data[:-1],
            b"".join(lines[:-1]),
            b"".join(lines[1:]),
            b"".join([*lines[:2], *lines[3:]]),
            b"".join([*lines[:-1], lines[1], lines[-1]]),
            bytes(flipped),
            data + b"{}\n",
        ):
            await raises(Damaged, import_session(store, chunks(broken, 5_000)))
            assert await store.head(writer.key) is None


async def an_import_goes_on_where_it_was_cut_off(case: StoreCase) -> None:
    async with case.open() as store:
        source = MemoryStore()
        writer = await Writer(source).claim()
        for _ in range(5):
            await writer.append()
        data = await exported(source, writer.key)
        await store.create(writer.key)
        claim = await store.claim(writer.key, runner="import", ttl_ms=0, now_ms=0)
        await store.adopt(writer.key, writer.lines[:2], epoch=claim.epoch)
        await import_session(store, chunks(data))
        assert await exported(store, writer.key) == data
        other = await Writer(source, "other").claim()
        await other.append(b'"another history"')
        await raises(UsageError, import_session(store, chunks(await exported(source, other.key)), key=writer.key))
        assert await exported(store, writer.key) == data, "a refused import must leave an existing session alone"


CHECKS = (
    an_export_comes_back_byte_for_byte,
    a_session_may_get_another_name,
    forks_are_exported_alone_or_whole,
    a_broken_export_is_refused_and_leaves_nothing,
    an_import_goes_on_where_it_was_cut_off,
)
