"""Promises about the log: appends are whole, in order, and come back byte for byte; snapshots, erasing, deletion."""

from __future__ import annotations

import asyncio
import random

from windlass.events.errors import NotFound, SeqConflict, UsageError
from windlass.events.stored import record
from windlass.events.stored.record import APPEND_BYTES_MAX, GENESIS
from windlass.store.base import (
    SNAPSHOTS_KEPT,
    Head,
    InboxCommand,
    IndexRow,
    Key,
    Query,
    Snapshot,
)
from windlass.store.chain import verify_chain

from .case import NOW_MS, StoreCase, Writer, lines_of, numbered, raises, seal_after

LONE_SURROGATE = b'"lone surrogate \\ud800 escaped"'
"""Bytes like any other to a store, though a strict reader refuses to decode them."""
HARD_PAYLOADS = (
    b'"plain"',
    '"ünïcödé \U0001f40b"'.encode(),
    '"line\u2028and\u2029separators"'.encode(),
    b'"nul \\u0000 and \\r\\n escaped"',
    b'"\x7f\xc2\x85 next line, raw"',
    b'{"a":[1,2.5e300,-0.0,null,true],"":{"":""}}',
    b'",\\"crc\\":\\"00000000\\"}"',
    b'"{\\"seq\\":1,\\"hash\\":\\"x\\"}"',
)


async def appends_come_back_as_written(case: StoreCase) -> None:
    async with case.open() as store:
        writer = await Writer(store).claim()
        for events in (1, 3, 2):
            await writer.append(events=events)
        assert await lines_of(store, writer.key) == writer.lines
        head = await store.log.head(writer.key)
        assert head == Head(seq=6, hash=writer.hash, epoch=1), head
        assert (await verify_chain(store, writer.key)).appends == 3


async def a_session_begins_empty(case: StoreCase) -> None:
    async with case.open() as store:
        key = Key("default", "new")
        assert await store.log.head(key) is None
        assert await store.log.create(key) is True
        assert await store.log.create(key) is False
        assert await store.log.head(key) == Head(seq=0, hash=GENESIS, epoch=0)
        assert await lines_of(store, key) == []
        assert await store.index.get(key) is None


async def reads_keep_to_their_bounds(case: StoreCase) -> None:
    async with case.open() as store:
        writer = await Writer(store).claim()
        for _ in range(4):
            await writer.append(events=3)  # 1..3, 4..6, 7..9, 10..12
        for after, until, wanted in (
            (0, None, [1, 4, 7, 10]),
            (3, None, [4, 7, 10]),
            (4, None, [7, 10]),
            (0, 6, [1, 4]),
            (0, 5, [1]),
            (3, 9, [4, 7]),
            (12, None, []),
            (99, None, []),
            (0, 0, []),
        ):
            lines = await lines_of(store, writer.key, after=after, until=until)
            assert [sealed.first_seq for sealed in lines] == wanted, (after, until)
            assert all(sealed == writer.lines[(sealed.first_seq - 1) // 3] for sealed in lines)


async def long_logs_are_read_whole(case: StoreCase) -> None:
    async with case.open() as store:
        writer = await Writer(store).claim()
        for _ in range(700):
            await writer.append(barrier=False)
        assert await lines_of(store, writer.key) == writer.lines
        assert await lines_of(store, writer.key, after=650) == writer.lines[650:]


async def hard_payloads_come_back_byte_for_byte(case: StoreCase) -> None:
    async with case.open() as store:
        writer = await Writer(store).claim()
        for payload in HARD_PAYLOADS:
            await writer.append(payload, payload)
        assert [sealed.data for sealed in await lines_of(store, writer.key)] == [line.data for line in writer.lines]
        await verify_chain(store, writer.key)
        await writer.append(LONE_SURROGATE)
        assert await lines_of(store, writer.key) == writer.lines
    if case.capabilities.durable:
        async with case.open() as store:
            assert await lines_of(store, writer.key) == writer.lines


async def large_appends_are_kept_and_larger_refused(case: StoreCase) -> None:
    async with case.open() as store:
        writer = await Writer(store).claim()
        noise = random.Random(7)
        await writer.append(b'"%s"' % noise.randbytes(900_000).hex().encode())
        await writer.append(*numbered(1, 2_000))
        await writer.append()
        too_large = writer.seal(b'"%s"' % (b"x" * APPEND_BYTES_MAX))
        await raises(UsageError, store.log.append(writer.key, too_large))
        broken = writer.seal(b'{\n"a":1}')
        await raises(UsageError, store.log.append(writer.key, broken))
        assert await lines_of(store, writer.key) == writer.lines


async def only_the_next_append_is_taken(case: StoreCase) -> None:
    async with case.open() as store:
        writer = await Writer(store).claim()
        await writer.append(events=2)
        gap = seal_after(3, writer.hash, writer.epoch, numbered(3, 1))
        again = seal_after(0, GENESIS, writer.epoch, numbered(0, 2))
        overlap = seal_after(1, writer.hash, writer.epoch, numbered(1, 2))
        foreign = seal_after(2, record.digest_text(b"another history"), writer.epoch, numbered(2, 1))
        for wrong in (gap, again, overlap, foreign):
            await raises(SeqConflict, store.log.append(writer.key, wrong))
        await writer.append()
        assert await lines_of(store, writer.key) == writer.lines
        await raises(NotFound, store.log.append(Key("default", "nobody"), again))


async def of_two_equal_appends_one_is_kept(case: StoreCase) -> None:
    async with case.open() as store:
        writer = await Writer(store).claim()
        for _ in range(20):
            rivals = [writer.seal(b'{"rival":%d}' % i) for i in range(8)]
            results = await asyncio.gather(
                *(store.log.append(writer.key, rival) for rival in rivals), return_exceptions=True
            )
            kept = [rival for rival, result in zip(rivals, results, strict=True) if result is None]
            assert len(kept) == 1, f"{len(kept)} rivals were kept"
            assert all(isinstance(result, SeqConflict) for result in results if result is not None), results
            writer.accept(kept[0])
        assert await lines_of(store, writer.key) == writer.lines


async def appends_of_many_sessions_do_not_mix(case: StoreCase) -> None:
    async with case.open() as store:

        async def work(name: str) -> Writer:
            writer = await Writer(store, name).claim()
            for _ in range(10):
                await writer.append(b'"%s"' % name.encode(), index=writer.row(title=name))
            return writer

        for writer in await asyncio.gather(*(work(f"m{i}") for i in range(20))):
            assert await lines_of(store, writer.key) == writer.lines
            row = await store.index.get(writer.key)
            assert isinstance(row, IndexRow)
            assert row.title == writer.key.session


async def erasing_keeps_the_chain(case: StoreCase) -> None:
    async with case.open() as store:
        writer = await Writer(store).claim()
        await writer.append(b'"public"', b'"secret-7f3a"', b'"public too"')
        await writer.append()
        before = await verify_chain(store, writer.key)
        await store.log.erase(writer.key, 2, by="ana", why="asked", at_ms=NOW_MS)
        await store.log.erase(writer.key, 2, by="bob", why="again", at_ms=NOW_MS + 1)
        assert await verify_chain(store, writer.key) == before
        lines = await lines_of(store, writer.key)
        assert b"secret-7f3a" not in lines[0].data
        stone = record.tombstone_of(record.parse(lines[0].data).events[1])
        assert stone is not None
        assert (stone.by, stone.why, stone.at_ms) == ("ana", "asked", NOW_MS)
        await raises(NotFound, store.log.erase(writer.key, 99, by="ana", why="asked", at_ms=NOW_MS))
        await writer.append()
        await verify_chain(store, writer.key)
    if case.capabilities.durable:
        async with case.open() as store:
            assert b"secret-7f3a" not in b"".join([line.data for line in await lines_of(store, writer.key)])
            await verify_chain(store, writer.key)


async def snapshots_are_disposable(case: StoreCase) -> None:
    async with case.open() as store:
        writer = await Writer(store).claim()
        assert await store.log.get_snapshot(writer.key) is None
        for seq in range(1, SNAPSHOTS_KEPT + 3):
            await writer.append()
            snapshot = Snapshot(seq=seq, hash=writer.hash, state_version=3, data=bytes(range(256)) * seq)
            await store.log.put_snapshot(writer.key, snapshot)
            assert await store.log.get_snapshot(writer.key) == snapshot
        older = await store.log.get_snapshot(writer.key, at_most=writer.seq - 1)
        assert older is not None
        assert older.seq == writer.seq - 1
        assert await store.log.get_snapshot(writer.key, at_most=0) is None
        assert 1 <= await store.log.drop_snapshots(writer.key) <= SNAPSHOTS_KEPT
        assert await store.log.get_snapshot(writer.key) is None
        assert await lines_of(store, writer.key) == writer.lines


async def deleting_leaves_nothing_of_the_session(case: StoreCase) -> None:
    async with case.open() as store:
        writer = await Writer(store).claim()
        await writer.append(takes=["c1"], index=writer.row(title="t"))
        await store.inbox.send(writer.key, InboxCommand(command_id="c2", at_ms=0, data=b"{}"))
        await store.log.put_snapshot(writer.key, Snapshot(seq=1, hash=writer.hash, state_version=1, data=b"x"))
        await store.log.delete(writer.key)
        assert await store.log.head(writer.key) is None
        assert await store.index.find(Query()) == []
        again = await Writer(store).claim()
        assert (again.epoch, again.seq) == (1, 0)
        assert await store.inbox.waiting(again.key) == []
        assert await store.inbox.taken(again.key) == []
        assert await store.log.get_snapshot(again.key) is None
        assert await lines_of(store, again.key) == []
        await again.append(takes=["c1"])


CHECKS = (
    appends_come_back_as_written,
    a_session_begins_empty,
    reads_keep_to_their_bounds,
    long_logs_are_read_whole,
    hard_payloads_come_back_byte_for_byte,
    large_appends_are_kept_and_larger_refused,
    only_the_next_append_is_taken,
    of_two_equal_appends_one_is_kept,
    appends_of_many_sessions_do_not_mix,
    erasing_keeps_the_chain,
    snapshots_are_disposable,
    deleting_leaves_nothing_of_the_session,
)
