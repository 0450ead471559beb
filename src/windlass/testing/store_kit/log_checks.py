"""Promises about the log: appends are whole, in order, fenced, and come back byte for byte."""

from __future__ import annotations

import asyncio
import random

from windlass.events import record
from windlass.events.errors import CommandTaken, NotFound, SeqConflict, StaleEpoch, UsageError
from windlass.events.record import APPEND_BYTES_MAX, GENESIS
from windlass.store.base import Head, InboxCommand, IndexRow, Key, blob_digest
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
        head = await store.head(writer.key)
        assert head == Head(seq=6, hash=writer.hash, epoch=1), head
        assert (await verify_chain(store, writer.key)).appends == 3


async def a_session_begins_empty(case: StoreCase) -> None:
    async with case.open() as store:
        key = Key("default", "new")
        assert await store.head(key) is None
        assert await store.create(key) is True
        assert await store.create(key) is False
        assert await store.head(key) == Head(seq=0, hash=GENESIS, epoch=0)
        assert await lines_of(store, key) == []
        assert await store.get_index(key) is None


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
        await raises(UsageError, store.append(writer.key, too_large))
        broken = writer.seal(b'{\n"a":1}')
        await raises(UsageError, store.append(writer.key, broken))
        assert await lines_of(store, writer.key) == writer.lines


async def a_stale_epoch_is_refused(case: StoreCase) -> None:
    async with case.open() as store:
        old = await Writer(store, runner="old").claim()
        await old.append()
        new = await Writer(store, runner="new").claim(now_ms=NOW_MS + 60_000)
        assert new.epoch == old.epoch + 1
        await raises(StaleEpoch, store.append(old.key, old.seal()))
        future = seal_after(1, old.hash, new.epoch + 1, numbered(1, 1))
        await raises(StaleEpoch, store.append(old.key, future))
        await new.append()
        assert await lines_of(store, old.key) == old.lines + new.lines


async def a_session_that_nobody_claimed_takes_nothing(case: StoreCase) -> None:
    async with case.open() as store:
        await store.create(Key("default", "s1"))
        for epoch in (0, 1):
            unclaimed = seal_after(0, GENESIS, epoch, numbered(0, 1))
            await raises(StaleEpoch, store.append(Key("default", "s1"), unclaimed))


async def a_refused_append_changes_nothing(case: StoreCase) -> None:
    async with case.open() as store:
        old = await Writer(store, runner="old").claim()
        await old.append(takes=["c0"], index=old.row(title="kept"))
        await store.send(old.key, InboxCommand(command_id="c1", at_ms=1, data=b"{}"))
        await Writer(store, runner="new").claim(now_ms=NOW_MS + 60_000)
        blob = b"never kept"
        await raises(
            StaleEpoch,
            store.append(
                old.key, old.seal(), takes=["c1"], index=old.row(title="lost"), blobs={blob_digest(blob): blob}
            ),
        )
        assert await store.blob_info("default", blob_digest(blob)) is None
        row = await store.get_index(old.key)
        assert row is not None
        assert row.title == "kept"
        assert [command.command_id for command in await store.inbox(old.key)] == ["c1"]
        assert await lines_of(store, old.key) == old.lines


async def only_the_next_append_is_taken(case: StoreCase) -> None:
    async with case.open() as store:
        writer = await Writer(store).claim()
        await writer.append(events=2)
        gap = seal_after(3, writer.hash, writer.epoch, numbered(3, 1))
        again = seal_after(0, GENESIS, writer.epoch, numbered(0, 2))
        overlap = seal_after(1, writer.hash, writer.epoch, numbered(1, 2))
        foreign = seal_after(2, record.digest_text(b"another history"), writer.epoch, numbered(2, 1))
        for wrong in (gap, again, overlap, foreign):
            await raises(SeqConflict, store.append(writer.key, wrong))
        await writer.append()
        assert await lines_of(store, writer.key) == writer.lines
        await raises(NotFound, store.append(Key("default", "nobody"), again))


async def of_two_equal_appends_one_is_kept(case: StoreCase) -> None:
    async with case.open() as store:
        writer = await Writer(store).claim()
        for _ in range(20):
            rivals = [writer.seal(b'{"rival":%d}' % i) for i in range(8)]
            results = await asyncio.gather(
                *(store.append(writer.key, rival) for rival in rivals), return_exceptions=True
            )
            kept = [rival for rival, result in zip(rivals, results, strict=True) if result is None]
            assert len(kept) == 1, f"{len(kept)} rivals were kept"
            assert all(isinstance(result, SeqConflict) for result in results if result is not None), results
            writer.accept(kept[0])
        assert await lines_of(store, writer.key) == writer.lines


async def of_two_interleaved_owners_the_newer_writes(case: StoreCase) -> None:
    """Both interleavings of an old owner's append with a new owner's claim, started at once."""
    async with case.open() as store:
        for round_number in range(20):
            key = Key("default", f"race-{round_number}")
            old = await Writer(store, key, runner="old").claim()
            later = NOW_MS + 60_000
            append = store.append(key, old.seal())
            claim = store.claim(key, runner="new", ttl_ms=1_000, now_ms=later)
            pair = (append, claim) if round_number % 2 else (claim, append)
            results = dict(zip(("append", "claim") if round_number % 2 else ("claim", "append"),
                               await asyncio.gather(*pair, return_exceptions=True), strict=True))  # fmt: skip
            assert not isinstance(results["claim"], BaseException), results
            kept = results["append"] is None
            assert kept or isinstance(results["append"], StaleEpoch), results
            seen = results["claim"].head.seq
            head = await store.head(key)
            assert head is not None
            assert head.seq == int(kept)
            # An append that was kept must be in the head that the new owner was shown.
            assert seen == head.seq, "a claim did not show the append that was kept before it"
            await raises(StaleEpoch, store.append(key, old.seal()))


async def a_command_is_taken_once_for_life(case: StoreCase) -> None:
    async with case.open() as store:
        writer = await Writer(store).claim()
        await writer.append(takes=["a", "b"])
        await raises(CommandTaken, store.append(writer.key, writer.seal(), takes=["c", "a"]))
        await raises(CommandTaken, store.append(writer.key, writer.seal(), takes=["d", "d"]))
        await writer.append(takes=["c"])
        assert [(t.command_id, t.seq) for t in await store.taken(writer.key)] == [("a", 1), ("b", 1), ("c", 2)]
        assert [t.command_id for t in await store.taken(writer.key, after="a", limit=1)] == ["b"]
        other = await Writer(store, "s2").claim()
        await other.append(takes=["a"])  # ids are unique within a session only


async def one_refusal_in_a_group_fails_alone(case: StoreCase) -> None:
    async with case.open() as store:
        writers = [await Writer(store, f"g{i}").claim() for i in range(30)]
        for writer in writers[::3]:
            await Writer(store, writer.key, runner="thief").claim(now_ms=NOW_MS + 60_000)
        seals = [writer.seal() for writer in writers]
        results = await asyncio.gather(
            *(store.append(writer.key, sealed) for writer, sealed in zip(writers, seals, strict=True)),
            return_exceptions=True,
        )
        for i, result in enumerate(results):
            assert isinstance(result, StaleEpoch) if i % 3 == 0 else result is None, (i, result)
        for i, writer in enumerate(writers):
            assert len(await lines_of(store, writer.key)) == (0 if i % 3 == 0 else 1)


async def appends_of_many_sessions_do_not_mix(case: StoreCase) -> None:
    async with case.open() as store:

        async def work(name: str) -> Writer:
            writer = await Writer(store, name).claim()
            for _ in range(10):
                await writer.append(b'"%s"' % name.encode(), index=writer.row(title=name))
            return writer

        for writer in await asyncio.gather(*(work(f"m{i}") for i in range(20))):
            assert await lines_of(store, writer.key) == writer.lines
            row = await store.get_index(writer.key)
            assert isinstance(row, IndexRow)
            assert row.title == writer.key.session


async def erasing_keeps_the_chain(case: StoreCase) -> None:
    async with case.open() as store:
        writer = await Writer(store).claim()
        await writer.append(b'"public"', b'"secret-7f3a"', b'"public too"')
        await writer.append()
        before = await verify_chain(store, writer.key)
        await store.erase(writer.key, 2, by="ana", why="asked", at_ms=NOW_MS)
        await store.erase(writer.key, 2, by="bob", why="again", at_ms=NOW_MS + 1)
        assert await verify_chain(store, writer.key) == before
        lines = await lines_of(store, writer.key)
        assert b"secret-7f3a" not in lines[0].data
        stone = record.tombstone_of(record.parse(lines[0].data).events[1])
        assert stone is not None
        assert (stone.by, stone.why, stone.at_ms) == ("ana", "asked", NOW_MS)
        await raises(NotFound, store.erase(writer.key, 99, by="ana", why="asked", at_ms=NOW_MS))
        await writer.append()
        await verify_chain(store, writer.key)
    if case.capabilities.durable:
        async with case.open() as store:
            assert b"secret-7f3a" not in b"".join([line.data for line in await lines_of(store, writer.key)])
            await verify_chain(store, writer.key)


CHECKS = (
    appends_come_back_as_written,
    a_session_begins_empty,
    reads_keep_to_their_bounds,
    long_logs_are_read_whole,
    hard_payloads_come_back_byte_for_byte,
    large_appends_are_kept_and_larger_refused,
    a_stale_epoch_is_refused,
    a_session_that_nobody_claimed_takes_nothing,
    a_refused_append_changes_nothing,
    only_the_next_append_is_taken,
    of_two_equal_appends_one_is_kept,
    of_two_interleaved_owners_the_newer_writes,
    a_command_is_taken_once_for_life,
    one_refusal_in_a_group_fails_alone,
    appends_of_many_sessions_do_not_mix,
    erasing_keeps_the_chain,
)
