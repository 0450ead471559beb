"""Promises about the one transaction over the five parts: an append is kept with all that belongs to it, or not."""

from __future__ import annotations

import asyncio

from windlass.events.errors import CommandTaken, StaleEpoch, UsageError
from windlass.events.stored.record import GENESIS
from windlass.store.base import (
    InboxCommand,
    Key,
    Message,
    Query,
    blob_digest,
)

from .case import NOW_MS, StoreCase, Writer, command, lines_of, numbered, raises, seal_after

PARALLEL = 1_000


async def a_stale_epoch_is_refused(case: StoreCase) -> None:
    async with case.open() as store:
        old = await Writer(store, runner="old").claim()
        await old.append()
        new = await Writer(store, runner="new").claim(now_ms=NOW_MS + 60_000)
        assert new.epoch == old.epoch + 1
        await raises(StaleEpoch, store.log.append(old.key, old.seal()))
        future = seal_after(1, old.hash, new.epoch + 1, numbered(1, 1))
        await raises(StaleEpoch, store.log.append(old.key, future))
        await new.append()
        assert await lines_of(store, old.key) == old.lines + new.lines


async def a_session_that_nobody_claimed_takes_nothing(case: StoreCase) -> None:
    async with case.open() as store:
        await store.log.create(Key("default", "s1"))
        for epoch in (0, 1):
            unclaimed = seal_after(0, GENESIS, epoch, numbered(0, 1))
            await raises(StaleEpoch, store.log.append(Key("default", "s1"), unclaimed))


async def a_refused_append_changes_nothing(case: StoreCase) -> None:
    async with case.open() as store:
        old = await Writer(store, runner="old").claim()
        await old.append(takes=["c0"], index=old.row(title="kept"))
        await store.inbox.send(old.key, InboxCommand(command_id="c1", at_ms=1, data=b"{}"))
        await Writer(store, runner="new").claim(now_ms=NOW_MS + 60_000)
        blob = b"never kept"
        await raises(
            StaleEpoch,
            store.log.append(
                old.key, old.seal(), takes=["c1"], index=old.row(title="lost"), blobs={blob_digest(blob): blob}
            ),
        )
        assert await store.blobs.info("default", blob_digest(blob)) is None
        row = await store.index.get(old.key)
        assert row is not None
        assert row.title == "kept"
        assert [command.command_id for command in await store.inbox.waiting(old.key)] == ["c1"]
        assert await lines_of(store, old.key) == old.lines


async def of_two_interleaved_owners_the_newer_writes(case: StoreCase) -> None:
    """Both interleavings of an old owner's append with a new owner's claim, started at once."""
    async with case.open() as store:
        for round_number in range(20):
            key = Key("default", f"race-{round_number}")
            old = await Writer(store, key, runner="old").claim()
            later = NOW_MS + 60_000
            append = store.log.append(key, old.seal())
            claim = store.leases.claim(key, runner="new", ttl_ms=1_000, now_ms=later)
            pair = (append, claim) if round_number % 2 else (claim, append)
            results = dict(zip(("append", "claim") if round_number % 2 else ("claim", "append"),
                               await asyncio.gather(*pair, return_exceptions=True), strict=True))  # fmt: skip
            assert not isinstance(results["claim"], BaseException), results
            kept = results["append"] is None
            assert kept or isinstance(results["append"], StaleEpoch), results
            seen = results["claim"].head.seq
            head = await store.log.head(key)
            assert head is not None
            assert head.seq == int(kept)
            # An append that was kept must be in the head that the new owner was shown.
            assert seen == head.seq, "a claim did not show the append that was kept before it"
            await raises(StaleEpoch, store.log.append(key, old.seal()))


async def a_command_is_taken_once_for_life(case: StoreCase) -> None:
    async with case.open() as store:
        writer = await Writer(store).claim()
        await writer.append(takes=["a", "b"])
        await raises(CommandTaken, store.log.append(writer.key, writer.seal(), takes=["c", "a"]))
        await raises(CommandTaken, store.log.append(writer.key, writer.seal(), takes=["d", "d"]))
        await writer.append(takes=["c"])
        assert [(t.command_id, t.seq) for t in await store.inbox.taken(writer.key)] == [("a", 1), ("b", 1), ("c", 2)]
        assert [t.command_id for t in await store.inbox.taken(writer.key, after="a", limit=1)] == ["b"]
        other = await Writer(store, "s2").claim()
        await other.append(takes=["a"])  # ids are unique within a session only


async def one_id_taken_a_thousand_times_at_once_is_one(case: StoreCase) -> None:
    """Each rival append would be legal on its own: only the command id stands between them."""
    async with case.open() as store:
        writer = await Writer(store).claim()
        await writer.append(takes=["once"])
        results = await asyncio.gather(
            *(store.log.append(writer.key, writer.seal(), takes=["once"]) for _ in range(PARALLEL)),
            return_exceptions=True,
        )
        assert all(isinstance(result, CommandTaken) for result in results)
        taken = [t for t in await store.inbox.taken(writer.key) if t.command_id == "once"]
        assert len(taken) == 1


async def one_refusal_in_a_group_fails_alone(case: StoreCase) -> None:
    async with case.open() as store:
        writers = [await Writer(store, f"g{i}").claim() for i in range(30)]
        for writer in writers[::3]:
            await Writer(store, writer.key, runner="thief").claim(now_ms=NOW_MS + 60_000)
        seals = [writer.seal() for writer in writers]
        results = await asyncio.gather(
            *(store.log.append(writer.key, sealed) for writer, sealed in zip(writers, seals, strict=True)),
            return_exceptions=True,
        )
        for i, result in enumerate(results):
            assert isinstance(result, StaleEpoch) if i % 3 == 0 else result is None, (i, result)
        for i, writer in enumerate(writers):
            assert len(await lines_of(store, writer.key)) == (0 if i % 3 == 0 else 1)


async def append_without_a_row_keeps_the_one_there_is(case: StoreCase) -> None:
    async with case.open() as store:
        writer = await Writer(store).claim()
        row = writer.row(state="running", owed=True, title="Sums", updated_ms=7)
        await writer.append(index=row)
        await writer.append()
        assert await store.index.get(writer.key) == row
        assert await store.index.find(Query(owed=True)) == [row]
        newer = writer.row(state="idle", updated_ms=9)
        await writer.append(index=newer)
        await writer.append()
    if not case.capabilities.durable:
        return
    async with case.open() as store:
        assert await store.index.find(Query()) == [newer]
        assert await store.index.find(Query(owed=True)) == []


async def an_append_keeps_its_blobs(case: StoreCase) -> None:
    async with case.open() as store:
        data = bytes(range(256)) * 5_000
        digest = await store.blobs.put("default", data)
        await store.blobs.erase("default", digest)
        writer = await Writer(store).claim()
        await writer.append(blobs={digest: data})
        assert await store.blobs.get("default", digest) == data
        await raises(UsageError, store.log.append(writer.key, writer.seal(), blobs={digest: b"other bytes"}))
        assert await lines_of(store, writer.key) == writer.lines


def told(session: str, command_id: str, data: bytes = b"{}", *, creates: bool = False) -> Message:
    """A message to another session."""
    return Message(session=session, command=command(command_id, data), creates=creates)


async def what_an_append_sends_is_in_the_other_inbox(case: StoreCase) -> None:
    if not case.capabilities.sends:
        return
    async with case.open() as store:
        writer = await Writer(store).claim()
        other = await Writer(store, "s2").claim()
        await store.inbox.send(other.key, command("before"))
        await writer.append(sends=[told("s2", "m1", b"1"), told("s3", "m2", creates=True), told("nobody", "m3")])
        assert [inbox_command.command_id for inbox_command in await store.inbox.waiting(other.key)] == ["before", "m1"]
        assert await store.log.head(Key("default", "nobody")) is None
        made = await store.log.head(Key("default", "s3"))
        assert made is not None
        assert made.seq == 0
        assert [inbox_command.command_id for inbox_command in await store.inbox.waiting(Key("default", "s3"))] == ["m2"]
    if not case.capabilities.durable:
        return
    async with case.open() as store:
        waiting = await store.inbox.waiting(Key("default", "s2"))
        assert [(inbox_command.command_id, inbox_command.data) for inbox_command in waiting] == [
            ("before", b"{}"),
            ("m1", b"1"),
        ]


async def a_message_is_sent_once_for_life(case: StoreCase) -> None:
    if not case.capabilities.sends:
        return
    async with case.open() as store:
        writer = await Writer(store).claim()
        other = await Writer(store, "s2").claim()
        await writer.append(sends=[told("s2", "m1", b"1")])
        await writer.append(sends=[told("s2", "m1", b"2")])
        assert [inbox_command.data for inbox_command in await store.inbox.waiting(other.key)] == [b"1"]
        await other.append(takes=["m1"])
        await writer.append(sends=[told("s2", "m1", b"3")])
        assert await store.inbox.waiting(other.key) == []


async def a_refused_append_sends_nothing(case: StoreCase) -> None:
    if not case.capabilities.sends:
        return
    async with case.open() as store:
        old = await Writer(store, runner="old").claim()
        await Writer(store, "s2").claim()
        await Writer(store, runner="new").claim(now_ms=NOW_MS + 60_000)
        await raises(StaleEpoch, store.log.append(old.key, old.seal(), sends=[told("s2", "m1")]))
        await raises(StaleEpoch, store.log.append(old.key, old.seal(), sends=[told("s9", "m1", creates=True)]))
        await raises(UsageError, store.log.append(old.key, old.seal(), sends=[told(old.key.session, "m1")]))
        assert await store.inbox.waiting(Key("default", "s2")) == []
        assert await store.log.head(Key("default", "s9")) is None


CHECKS = (
    a_stale_epoch_is_refused,
    a_session_that_nobody_claimed_takes_nothing,
    a_refused_append_changes_nothing,
    of_two_interleaved_owners_the_newer_writes,
    a_command_is_taken_once_for_life,
    one_id_taken_a_thousand_times_at_once_is_one,
    one_refusal_in_a_group_fails_alone,
    append_without_a_row_keeps_the_one_there_is,
    an_append_keeps_its_blobs,
    what_an_append_sends_is_in_the_other_inbox,
    a_message_is_sent_once_for_life,
    a_refused_append_sends_nothing,
)
