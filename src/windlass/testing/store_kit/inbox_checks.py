"""Promises about the inbox and the leases: every command once, in order, never lost; one owner at a time."""

from __future__ import annotations

import asyncio
from typing import Any

from windlass.events.errors import CommandTaken, LeaseHeld, NotFound, StaleEpoch, UsageError
from windlass.store.base import COMMAND_BYTES_MAX, LEASE_MS_MAX, Holder, InboxCommand, Key, Query, Sent, Store

from .case import NOW_MS, TTL_MS, StoreCase, Writer, raises

PARALLEL = 1_000
YEARS_MS = 10 * 365 * 86_400_000


def command(command_id: str, data: bytes = b"{}", at_ms: int = NOW_MS) -> InboxCommand:
    return InboxCommand(command_id=command_id, at_ms=at_ms, data=data)


async def commands_wait_in_order(case: StoreCase) -> None:
    async with case.open() as store:
        writer = await Writer(store).claim()
        # Neither the ids nor the clock give the order.
        for i, command_id in enumerate(("z", "a", "m")):
            sent = await store.send(writer.key, command(command_id, b'{"i":%d}' % i, at_ms=NOW_MS - i))
            assert sent == Sent(new=True, taken=False)
        waiting = await store.inbox(writer.key)
        assert [(c.command_id, c.data, c.at_ms) for c in waiting] == [
            ("z", b'{"i":0}', NOW_MS), ("a", b'{"i":1}', NOW_MS - 1), ("m", b'{"i":2}', NOW_MS - 2),
        ]  # fmt: skip
        assert [c.position for c in waiting] == sorted({c.position for c in waiting})
        assert [c.command_id for c in await store.inbox(writer.key, limit=2)] == ["z", "a"]
        await writer.append(takes=["a"])
        assert [c.command_id for c in await store.inbox(writer.key)] == ["z", "m"]
        await writer.append(takes=["z", "m"])
        assert await store.inbox(writer.key) == []


async def sending_again_changes_nothing(case: StoreCase) -> None:
    async with case.open() as store:
        writer = await Writer(store).claim()
        await store.send(writer.key, command("a", b'"first"'))
        assert await store.send(writer.key, command("a", b'"second"')) == Sent(new=False, taken=False)
        assert [c.data for c in await store.inbox(writer.key)] == [b'"first"']
        await writer.append(takes=["a"])
        assert await store.send(writer.key, command("a")) == Sent(new=False, taken=True)
        assert await store.inbox(writer.key) == []
        await writer.append(takes=["direct"])  # taken without ever having been in the inbox
        assert await store.send(writer.key, command("direct")) == Sent(new=False, taken=True)
        assert await store.inbox(writer.key) == []


async def one_id_sent_a_thousand_times_at_once_is_one(case: StoreCase) -> None:
    async with case.open() as store:
        writer = await Writer(store).claim()
        results = await asyncio.gather(*(store.send(writer.key, command("once")) for _ in range(PARALLEL)))
        assert sum(sent.new for sent in results) == 1
        assert len(await store.inbox(writer.key, limit=PARALLEL)) == 1


async def one_id_taken_a_thousand_times_at_once_is_one(case: StoreCase) -> None:
    """Each rival append would be legal on its own: only the command id stands between them."""
    async with case.open() as store:
        writer = await Writer(store).claim()
        await writer.append(takes=["once"])
        results = await asyncio.gather(
            *(store.append(writer.key, writer.seal(), takes=["once"]) for _ in range(PARALLEL)),
            return_exceptions=True,
        )
        assert all(isinstance(result, CommandTaken) for result in results)
        taken = [t for t in await store.taken(writer.key) if t.command_id == "once"]
        assert len(taken) == 1


async def many_senders_lose_nothing(case: StoreCase) -> None:
    async with case.open() as store:
        writers = [await Writer(store, f"s{i}").claim() for i in range(10)]
        ids = [f"c{i}" for i in range(30)]
        await asyncio.gather(*(store.send(w.key, command(i, i.encode())) for i in ids for w in writers))
        for writer in writers:
            assert sorted(c.command_id for c in await store.inbox(writer.key)) == sorted(ids)
            await asyncio.gather(
                writer.append(takes=ids[:10]), *(store.send(writer.key, command(f"late{i}")) for i in range(5))
            )
            left = {c.command_id for c in await store.inbox(writer.key)}
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
            await store.send(writer.key, command(f"c{i}", payload))
        assert [c.data for c in await store.inbox(writer.key)] == payloads
        await raises(UsageError, store.send(writer.key, command("large", b"x" * (COMMAND_BYTES_MAX + 1))))
        await raises(UsageError, store.send(writer.key, command("")))
        await raises(NotFound, store.send(Key("default", "nobody"), command("c")))
    if case.capabilities.durable:
        async with case.open() as store:
            assert [c.data for c in await store.inbox(writer.key)] == payloads


async def a_lease_keeps_others_away(case: StoreCase) -> None:
    async with case.open() as store:
        mine = await Writer(store, runner="mine").claim()
        error = await raises(
            LeaseHeld, store.claim(mine.key, runner="other", ttl_ms=TTL_MS, now_ms=NOW_MS + TTL_MS - 1)
        )
        assert (error.owner, error.until_ms) == ("mine", NOW_MS + TTL_MS)
        await store.keep(mine.key, runner="mine", epoch=1, ttl_ms=TTL_MS, now_ms=NOW_MS + 10_000)
        await raises(LeaseHeld, store.claim(mine.key, runner="other", ttl_ms=TTL_MS, now_ms=NOW_MS + TTL_MS))
        other = await store.claim(mine.key, runner="other", ttl_ms=TTL_MS, now_ms=NOW_MS + 10_000 + TTL_MS)
        assert (other.epoch, other.until_ms) == (2, NOW_MS + 10_000 + 2 * TTL_MS)
        await raises(StaleEpoch, store.keep(mine.key, runner="mine", epoch=1, ttl_ms=TTL_MS, now_ms=NOW_MS))
        await store.release(mine.key, runner="mine", epoch=1)  # lost before: nothing happens
        await raises(LeaseHeld, store.claim(mine.key, runner="mine", ttl_ms=TTL_MS, now_ms=NOW_MS + 11_000))
        await raises(NotFound, store.claim(Key("default", "nobody"), runner="r", ttl_ms=1, now_ms=0))


async def a_lease_given_back_is_free_and_renewable(case: StoreCase) -> None:
    async with case.open() as store:
        mine = await Writer(store, runner="mine").claim()
        assert (await mine.claim(renew=True)).epoch == 1
        assert (await mine.claim()).epoch == 2
        await store.release(mine.key, runner="mine", epoch=2)
        assert (await mine.claim(renew=True)).epoch == 2  # nobody took it since
        await mine.append()
        await store.release(mine.key, runner="mine", epoch=2)
        assert (await Writer(store, runner="other").claim(renew=True)).epoch == 3
        await store.release(mine.key, runner="other", epoch=3)
        assert (await mine.claim(renew=True)).epoch == 4  # another had it in between


async def the_holder_is_told(case: StoreCase) -> None:
    async with case.open() as store:
        mine = await Writer(store, runner="mine").claim(now_ms=NOW_MS - 1)
        held = Holder(runner="mine", epoch=1, until_ms=NOW_MS - 1 + TTL_MS)
        assert await store.holder(mine.key, now_ms=NOW_MS) == held
        assert await store.holder(mine.key, now_ms=held.until_ms - 1) == held
        assert await store.holder(mine.key, now_ms=held.until_ms) is None  # when another one may claim it
        await store.keep(mine.key, runner="mine", epoch=1, ttl_ms=TTL_MS, now_ms=NOW_MS)
        await mine.append()
        held = Holder(runner="mine", epoch=1, until_ms=NOW_MS + TTL_MS)
        assert await store.holder(mine.key, now_ms=NOW_MS) == held
        if case.capabilities.multi_process:
            async with case.open() as other:
                assert await other.holder(mine.key, now_ms=NOW_MS) == held
        await store.release(mine.key, runner="mine", epoch=1)
        assert await store.holder(mine.key, now_ms=NOW_MS) is None
        taken = await Writer(store, runner="other").claim()
        assert await store.holder(taken.key, now_ms=NOW_MS) == Holder(runner="other", epoch=2, until_ms=NOW_MS + TTL_MS)
        await store.create(Key("default", "bare"))
        assert await store.holder(Key("default", "bare"), now_ms=NOW_MS) is None
        await raises(NotFound, store.holder(Key("default", "nobody"), now_ms=NOW_MS))
        await raises(UsageError, store.holder(Key("default", ".."), now_ms=NOW_MS))


async def a_lease_has_a_bound(case: StoreCase) -> None:
    async with case.open() as store:
        mine = await Writer(store, runner="mine").claim()
        for bad in (LEASE_MS_MAX + 1, -1):
            await raises(UsageError, store.claim(mine.key, runner="mine", ttl_ms=bad, now_ms=NOW_MS))
            await raises(UsageError, store.keep(mine.key, runner="mine", epoch=1, ttl_ms=bad, now_ms=NOW_MS))
        assert (await store.holder(mine.key, now_ms=NOW_MS)) == Holder(runner="mine", epoch=1, until_ms=NOW_MS + TTL_MS)
        longest = await store.claim(mine.key, runner="mine", ttl_ms=LEASE_MS_MAX, now_ms=NOW_MS)
        assert (longest.epoch, longest.until_ms) == (2, NOW_MS + LEASE_MS_MAX)


async def a_clock_that_was_ahead_locks_nobody_out_for_long(case: StoreCase) -> None:
    async with case.open() as store:
        ahead = await Writer(store, runner="ahead").claim(now_ms=NOW_MS + YEARS_MS)
        over = NOW_MS + LEASE_MS_MAX
        for now_ms in (NOW_MS, NOW_MS + 1, over - 1):
            error = await raises(LeaseHeld, store.claim(ahead.key, runner="other", ttl_ms=TTL_MS, now_ms=now_ms))
            assert (error.owner, error.until_ms) == ("ahead", over)
            assert await store.holder(ahead.key, now_ms=now_ms) == Holder(runner="ahead", epoch=1, until_ms=over)
        await ahead.append()  # it may write until it is replaced
        assert await store.holder(ahead.key, now_ms=over) is None
        other = await store.claim(ahead.key, runner="other", ttl_ms=TTL_MS, now_ms=over)
        assert (other.epoch, other.until_ms) == (2, over + TTL_MS)
        await raises(StaleEpoch, ahead.append())


async def an_owner_whose_clock_is_ahead_is_not_robbed(case: StoreCase) -> None:
    async with case.open() as store:
        ahead = await Writer(store, runner="ahead").claim(now_ms=NOW_MS + YEARS_MS)
        step = LEASE_MS_MAX // 2
        for now_ms in range(NOW_MS, NOW_MS + 6 * step, step):
            await raises(LeaseHeld, store.claim(ahead.key, runner="other", ttl_ms=TTL_MS, now_ms=now_ms))
            await store.keep(ahead.key, runner="ahead", epoch=1, ttl_ms=TTL_MS, now_ms=now_ms + YEARS_MS)
        await ahead.append()


async def a_clock_that_is_behind_takes_nothing_away(case: StoreCase) -> None:
    """For it every lease reaches far ahead. It may doubt them, but others must not be made to."""
    async with case.open() as store:
        mine = await Writer(store, runner="mine").claim()
        held = Holder(runner="mine", epoch=1, until_ms=NOW_MS + TTL_MS)
        late = NOW_MS - YEARS_MS
        for now_ms in (late, late + 1):
            error = await raises(LeaseHeld, store.claim(mine.key, runner="behind", ttl_ms=TTL_MS, now_ms=now_ms))
            assert error.until_ms == late + LEASE_MS_MAX
        if case.capabilities.multi_process:
            async with case.open() as other:
                assert await other.holder(mine.key, now_ms=NOW_MS) == held
                await raises(LeaseHeld, other.claim(mine.key, runner="other", ttl_ms=TTL_MS, now_ms=NOW_MS))
        assert (await mine.claim(renew=True)).epoch == 1


async def sessions_with_unread_commands_are_found(case: StoreCase) -> None:
    async with case.open() as store:
        for name in ("a", "b", "c"):
            writer = await Writer(store, name).claim()
            await writer.append(index=writer.row(agent="w" if name != "c" else "other"))
            await store.send(writer.key, command(f"to-{name}"))
            if name == "a":
                await writer.append(takes=["to-a"])
        await store.create(Key("default", "bare"))  # it has no row yet, so no query finds it
        await store.send(Key("default", "bare"), command("to-bare"))
        foreign = await Writer(store, Key("elsewhere", "b")).claim()
        await foreign.append(index=foreign.row(agent="w"))
        assert await found(store, unread=True) == {"b", "c"}
        assert await found(store, unread=True, agent="w") == {"b"}
        assert await found(store, unread=False) == {"a"}
        assert await found(store) == {"a", "b", "c"}
        assert await found(store, unread=True, tenant="elsewhere") == set()


async def sessions_that_nobody_holds_are_found(case: StoreCase) -> None:
    async with case.open() as store:
        for name in ("held", "given-back", "run-out"):
            writer = await Writer(store, name).claim(now_ms=NOW_MS - (TTL_MS if name == "run-out" else 0))
            await writer.append(index=writer.row(owed=True))
            if name == "given-back":
                await store.release(writer.key, runner=writer.runner, epoch=writer.epoch)
        assert await found(store, free_at_ms=NOW_MS) == {"given-back", "run-out"}
        assert await found(store, free_at_ms=NOW_MS, owed=True, unread=True) == set()
        assert await found(store, free_at_ms=NOW_MS + TTL_MS - 1, owed=True) == {"given-back", "run-out"}
        assert await found(store, free_at_ms=NOW_MS + TTL_MS) == {"held", "given-back", "run-out"}


async def found(store: Store, **which: Any) -> set[str]:
    """The ids of the sessions that a query finds."""
    return {row.session for row in await store.find(Query(**which))}


async def of_many_claims_at_once_one_wins(case: StoreCase) -> None:
    async with case.open() as store:
        await store.create(Key("default", "s1"))
        claims = [
            store.claim(Key("default", "s1"), runner=f"r{i}", ttl_ms=TTL_MS, now_ms=NOW_MS) for i in range(50)
        ]  # fmt: skip
        results = await asyncio.gather(*claims, return_exceptions=True)
        assert sum(not isinstance(result, BaseException) for result in results) == 1
        assert sum(isinstance(result, LeaseHeld) for result in results) == 49


CHECKS = (
    commands_wait_in_order,
    sending_again_changes_nothing,
    one_id_sent_a_thousand_times_at_once_is_one,
    one_id_taken_a_thousand_times_at_once_is_one,
    many_senders_lose_nothing,
    any_bytes_may_be_sent,
    a_lease_keeps_others_away,
    a_lease_given_back_is_free_and_renewable,
    the_holder_is_told,
    a_lease_has_a_bound,
    a_clock_that_was_ahead_locks_nobody_out_for_long,
    an_owner_whose_clock_is_ahead_is_not_robbed,
    a_clock_that_is_behind_takes_nothing_away,
    sessions_with_unread_commands_are_found,
    sessions_that_nobody_holds_are_found,
    of_many_claims_at_once_one_wins,
)
