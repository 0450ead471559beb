"""Promises of stores that outlive their process, or serve several: reopening, and a second handle on the same data."""

from __future__ import annotations

import asyncio

from windlass.events.errors import StaleEpoch
from windlass.store.base import InboxCommand, Query, Sent, Snapshot
from windlass.store.chain import verify_chain

from .case import NOW_MS, StoreCase, Writer, lines_of, raises


async def everything_is_there_after_reopening(case: StoreCase) -> None:
    async with case.open() as store:
        writer = await Writer(store).claim()
        await writer.append(events=3, takes=["c1"], index=writer.row(title="kept", metadata={"k": "v"}))
        await writer.append()
        await store.inbox.send(writer.key, InboxCommand(command_id="c2", at_ms=5, data=b'{"x":1}'))
        blob = await store.blobs.put("default", b"bytes", media_type="text/plain")
        await store.log.put_snapshot(writer.key, Snapshot(seq=3, hash=writer.lines[0].hash, state_version=1, data=b"s"))
        row = await store.index.get(writer.key)
        await store.close()
        await store.close()  # closing twice does no harm
    async with case.open() as store:
        assert await lines_of(store, writer.key) == writer.lines
        head = await store.log.head(writer.key)
        assert head is not None
        assert (head.seq, head.hash, head.epoch) == (4, writer.hash, 1)
        assert await store.index.get(writer.key) == row
        assert await store.index.find(Query(metadata={"k": "v"})) == [row]
        assert [c.command_id for c in await store.inbox.waiting(writer.key)] == ["c2"]
        assert await store.inbox.send(writer.key, InboxCommand(command_id="c1", at_ms=5, data=b"")) == Sent(
            new=False, taken=True
        )
        assert await store.blobs.get("default", blob) == b"bytes"
        again = await Writer(store, runner="second").claim(now_ms=NOW_MS + 60_000)
        assert again.epoch == 2
        await again.append()
        await verify_chain(store, writer.key)


async def two_handles_fence_each_other(case: StoreCase) -> None:
    async with case.open() as one, case.open() as two:
        old = await Writer(one, runner="one").claim()
        await old.append()
        new = await Writer(two, runner="two").claim(now_ms=NOW_MS + 60_000)
        assert (new.epoch, new.seq, new.hash) == (2, 1, old.hash)
        await raises(StaleEpoch, one.log.append(old.key, old.seal()))
        await new.append()
        assert await lines_of(one, old.key) == old.lines + new.lines


async def two_handles_share_an_inbox(case: StoreCase) -> None:
    async with case.open() as owner, case.open() as client:
        writer = await Writer(owner).claim()
        await owner.changed()
        await client.inbox.send(writer.key, InboxCommand(command_id="hello", at_ms=1, data=b'"hi"'))
        assert await owner.changed() is True
        assert [c.data for c in await owner.inbox.waiting(writer.key)] == [b'"hi"']
        await writer.append(takes=["hello"])
        sent = await client.inbox.send(writer.key, InboxCommand(command_id="hello", at_ms=2, data=b'"hi"'))
        assert sent == Sent(new=False, taken=True)
        await client.changed()
        assert await client.changed() is False
        await writer.append(index=writer.row(title="seen by others"))
        assert await client.changed() is True
        assert [row.title for row in await client.index.find(Query())] == ["seen by others"]


async def two_handles_write_at_once(case: StoreCase) -> None:
    async with case.open() as one, case.open() as two:

        async def work(store_number: int, name: str) -> Writer:
            writer = await Writer((one, two)[store_number], name).claim()
            for i in range(15):
                await writer.append(index=writer.row(title=str(i)))
                await (two, one)[store_number].inbox.send(
                    writer.key, InboxCommand(command_id=f"c{i}", at_ms=1, data=b"{}")
                )
            return writer

        writers = await asyncio.gather(*(work(i % 2, f"s{i}") for i in range(8)))
        for writer in writers:
            assert await lines_of(one, writer.key) == writer.lines == await lines_of(two, writer.key)
            assert [c.command_id for c in await one.inbox.waiting(writer.key)] == [f"c{i}" for i in range(15)]


async def one_id_sent_over_two_handles_is_one(case: StoreCase) -> None:
    async with case.open() as one, case.open() as two:
        writer = await Writer(one).claim()
        command = InboxCommand(command_id="once", at_ms=1, data=b"{}")
        results = await asyncio.gather(*((one, two)[i % 2].inbox.send(writer.key, command) for i in range(100)))
        assert sum(sent.new for sent in results) == 1
        assert len(await two.inbox.waiting(writer.key)) == 1


DURABLE_CHECKS = (everything_is_there_after_reopening,)
MULTI_PROCESS_CHECKS = (
    two_handles_fence_each_other,
    two_handles_share_an_inbox,
    two_handles_write_at_once,
    one_id_sent_over_two_handles_is_one,
)
