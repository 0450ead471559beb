"""Promises about moving sessions: what is exported and imported again is the same, byte for byte, or is refused."""

from __future__ import annotations

from collections.abc import AsyncIterator

from windlass.events.errors import Damaged, SeqConflict, UsageError
from windlass.store.base import InboxCommand, IndexRow, Key, Origin, Query, Sent, Store, TakenCommand
from windlass.store.chain import verify_chain
from windlass.store.memory import MemoryStore
from windlass.store.transfer import adopt_export, export_session, read_export, spool

from .case import NOW_MS, StoreCase, Writer, lines_of, raises

CHUNK_BYTES = 997


async def exported(store: Store, key: Key, *, whole: bool = False) -> bytes:
    return b"".join([line async for line in export_session(store, key, whole=whole)])


async def chunks(data: bytes, size: int = CHUNK_BYTES) -> AsyncIterator[bytes]:
    for start in range(0, len(data), size):
        yield data[start : start + size]


async def brought(store: Store, data: bytes, key: Key, size: int = CHUNK_BYTES) -> None:
    """Reads an export and makes a session of it."""
    with spool() as room:
        await adopt_export(store, await read_export(chunks(data, size), room), key)


def kept(data: bytes) -> list[bytes]:
    """The lines of an export that an import takes: all but what waited in the inbox, and what the index said."""
    return [line for line in data.splitlines()[:-1] if not line.startswith((b'{"waiting":', b'{"index":'))]


async def full_session(store: Store) -> Writer:
    """A session with everything that an export must carry."""
    writer = await Writer(store).claim()
    blob = bytes(range(256)) * 3_000
    digest = await store.blobs.put("default", blob, media_type="image/png")
    await writer.append(b'{"blob":"%s"}' % digest.encode(), takes=["first", "also"])
    await store.inbox.send(writer.key, InboxCommand(command_id="waits", at_ms=3, data=b"\x00\xff"))
    await writer.claim(now_ms=NOW_MS + 60_000)
    await writer.append(b'"secret"', b'"x"', index=writer.row(title="exported", metadata={"a": "b"}))
    await writer.append(takes=["third"])
    await store.log.erase(writer.key, 2, by="ana", why="asked", at_ms=NOW_MS)
    return writer


async def an_export_comes_back_byte_for_byte(case: StoreCase) -> None:
    async with case.open() as store:
        writer = await full_session(store)
        data = await exported(store, writer.key)
        elsewhere = MemoryStore()
        await brought(elsewhere, data, writer.key)
        assert kept(await exported(elsewhere, writer.key)) == kept(data)
        await store.log.delete(writer.key)
        await brought(store, data, writer.key, 100_000)
        assert kept(await exported(store, writer.key)) == kept(data)
        await verify_chain(store, writer.key)
        again = InboxCommand(command_id="first", at_ms=0, data=b"")
        assert await store.inbox.send(writer.key, again) == Sent(new=False, taken=True)
        assert await store.inbox.waiting(writer.key) == [], "what waited in an inbox is not taken along"
        new = await Writer(store, runner="next").claim()
        assert new.epoch > 2, "the epochs of the log must never come again"
        await new.append()
        await verify_chain(store, writer.key)


async def a_session_may_get_another_name(case: StoreCase) -> None:
    async with case.open() as store:
        writer = await full_session(store)
        copy = Key("other", "copy")
        await brought(store, await exported(store, writer.key), copy)
        assert [line.data for line in await lines_of(store, copy)] == [
            line.data for line in await lines_of(store, writer.key)
        ]
        assert await store.log.head(Key("other", writer.key.session)) is None


async def forks_are_exported_alone_or_whole(case: StoreCase) -> None:
    async with case.open() as store:
        root = await Writer(store, "root").claim()
        await root.append(events=2)
        await root.append()
        fork = Writer(store, "fork")
        await store.log.create(fork.key, origin=Origin(session="root", seq=2, hash=root.lines[0].hash))
        await fork.claim(create=False)
        await fork.append(takes=["c"])
        alone, whole = await exported(store, fork.key), await exported(store, fork.key, whole=True)
        elsewhere = MemoryStore()
        await brought(elsewhere, whole, fork.key)
        assert await lines_of(elsewhere, fork.key) == [root.lines[0], *fork.lines]
        await store.log.delete(fork.key)
        await brought(store, alone, fork.key)
        assert await exported(store, fork.key) == alone
        assert await store.log.forks(root.key) == ["fork"]


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
            await raises(Damaged, brought(store, broken, writer.key, 5_000))
            assert await store.log.head(writer.key) is None


async def a_session_that_is_there_is_left_alone(case: StoreCase) -> None:
    async with case.open() as store:
        writer = await full_session(store)
        data = await exported(store, writer.key)
        await raises(UsageError, brought(store, data, writer.key))
        await raises(UsageError, store.log.adopt(writer.key, writer.lines))
        assert await exported(store, writer.key) == data


async def lines_are_adopted_together_or_not_at_all(case: StoreCase) -> None:
    key = Key("default", "copy")
    source = MemoryStore()
    writer = await Writer(source).claim()
    for _ in range(3):
        await writer.append()
    row = IndexRow(session="copy", seq=3, title="adopted")
    async with case.open() as store:
        await raises(SeqConflict, store.log.adopt(key, [writer.lines[0], writer.lines[2]], index=row))
        await raises(UsageError, store.log.adopt(key, writer.lines, takes=[TakenCommand("c", 99)], index=row))
        assert await store.log.head(key) is None
        assert await store.index.find(Query()) == []
        await store.log.adopt(key, writer.lines, takes=[TakenCommand("c", 2)], index=row)
        assert await lines_of(store, key) == writer.lines
        assert await store.inbox.taken(key) == [TakenCommand("c", 2)]
        assert await store.index.find(Query()) == [row]
    if case.capabilities.durable:
        async with case.open() as store:
            assert await lines_of(store, key) == writer.lines
            assert await store.index.get(key) == row


CHECKS = (
    an_export_comes_back_byte_for_byte,
    a_session_may_get_another_name,
    forks_are_exported_alone_or_whole,
    a_broken_export_is_refused_and_leaves_nothing,
    a_session_that_is_there_is_left_alone,
    lines_are_adopted_together_or_not_at_all,
)
