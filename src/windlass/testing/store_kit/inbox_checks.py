"""Promises about the inbox: every command once, in order, never lost."""

from __future__ import annotations

import asyncio

from windlass.events.errors import NotFound, UsageError
from windlass.store.base import (
    COMMAND_BYTES_MAX,
    Key,
    Sent,
)

from .case import NOW_MS, StoreCase, Writer, command, raises

PARALLEL = 1_000


async def commands_wait_in_order(case: StoreCase) -> None:
    async with case.open() as store:
        writer = await Writer(store).claim()
        # Neither the ids nor the clock give the order.
        for i, command_id in enumerate(("z", "a", "m")):
            sent = await store.inbox.send(writer.key, command(command_id, b'{"i":%d}' % i, at_ms=NOW_MS - i))
            assert sent == Sent(new=True, taken=False)
        waiting = await store.inbox.waiting(writer.key)
        assert [(c.command_id, c.data, c.at_ms) for c in waiting] == [
            ("z", b'{"i":0}', NOW_MS), ("a", b'{"i":1}', NOW_MS - 1), ("m", b'{"i":2}', NOW_MS - 2),
        ]  # fmt: skip
        assert [c.position for c in waiting] == sorted({c.position for c in waiting})
        assert [c.command_id for c in await store.inbox.waiting(writer.key, limit=2)] == ["z", "a"]
        await writer.append(takes=["a"])
        assert [c.command_id for c in await store.inbox.waiting(writer.key)] == ["z", "m"]
        await writer.append(takes=["z", "m"])
        assert await store.inbox.waiting(writer.key) == []


async def sending_again_changes_nothing(case: StoreCase) -> None:
    async with case.open() as store:
        writer = await Writer(store).claim()
        await store.inbox.send(writer.key, command("a", b'"first"'))
        assert await store.inbox.send(writer.key, command("a", b'"second"')) == Sent(new=False, taken=False)
        assert [c.data for c in await store.inbox.waiting(writer.key)] == [b'"first"']
        await writer.append(takes=["a"])
        assert await store.inbox.send(writer.key, command("a")) == Sent(new=False, taken=True)
        assert await store.inbox.waiting(writer.key) == []
        await writer.append(takes=["direct"])  # taken without ever having been in the inbox
        assert await store.inbox.send(writer.key, command("direct")) == Sent(new=False, taken=True)
        assert await store.inbox.waiting(writer.key) == []


async def one_id_sent_a_thousand_times_at_once_is_one(case: StoreCase) -> None:
    async with case.open() as store:
        writer = await Writer(store).claim()
        results = await asyncio.gather(*(store.inbox.send(writer.key, command("once")) for _ in range(PARALLEL)))
        assert sum(sent.new for sent in results) == 1
        assert len(await store.inbox.waiting(writer.key, limit=PARALLEL)) == 1


async def many_senders_lose_nothing(case: StoreCase) -> None:
    async with case.open() as store:
        writers = [await Writer(store, f"s{i}").claim() for i in range(10)]
        ids = [f"c{i}" for i in range(30)]
        await asyncio.gather(*(store.inbox.send(w.key, command(i, i.encode())) for i in ids for w in writers))
        for writer in writers:
            assert sorted(c.command_id for c in await store.inbox.waiting(writer.key)) == sorted(ids)
            await asyncio.gather(
                writer.append(takes=ids[:10]), *(store.inbox.send(writer.key, command(f"late{i}")) for i in range(5))
            )
            left = {c.command_id for c in await store.inbox.waiting(writer.key)}
            assert left == set(ids[10:]) | {f"late{i}" for i in range(5)}, left


async def any_bytes_may_be_sent(case: StoreCase) -> None:
    payloads = [
        bytes(range(256)),
        b"",
        b"\n\r\x00",
        '"\u2028"'.encode(),
        b"\xff\xfe",
        b'{"a":"\\ud800"}',
        b"x" * 300_000,
    ]
    async with case.open() as store:
        writer = await Writer(store).claim()
        for i, payload in enumerate(payloads):
            await store.inbox.send(writer.key, command(f"c{i}", payload))
        assert [c.data for c in await store.inbox.waiting(writer.key)] == payloads
        await raises(UsageError, store.inbox.send(writer.key, command("large", b"x" * (COMMAND_BYTES_MAX + 1))))
        await raises(UsageError, store.inbox.send(writer.key, command("")))
        await raises(NotFound, store.inbox.send(Key("default", "nobody"), command("c")))
    if case.capabilities.durable:
        async with case.open() as store:
            assert [c.data for c in await store.inbox.waiting(writer.key)] == payloads


CHECKS = (
    commands_wait_in_order,
    sending_again_changes_nothing,
    one_id_sent_a_thousand_times_at_once_is_one,
    many_senders_lose_nothing,
    any_bytes_may_be_sent,
)
