"""Promises about leases: one owner at a time, and no clock that is wrong locks anybody out for long."""

from __future__ import annotations

import asyncio

from windlass.events.errors import LeaseHeld, NotFound, StaleEpoch, UsageError
from windlass.store.base import (
    LEASE_MS_MAX,
    Holder,
    Key,
)

from .case import NOW_MS, TTL_MS, StoreCase, Writer, raises

YEARS_MS = 10 * 365 * 86_400_000


async def a_lease_keeps_others_away(case: StoreCase) -> None:
    async with case.open() as store:
        mine = await Writer(store, runner="mine").claim()
        error = await raises(
            LeaseHeld, store.leases.claim(mine.key, runner="other", ttl_ms=TTL_MS, now_ms=NOW_MS + TTL_MS - 1)
        )
        assert (error.owner, error.until_ms) == ("mine", NOW_MS + TTL_MS)
        await store.leases.keep(mine.key, runner="mine", epoch=1, ttl_ms=TTL_MS, now_ms=NOW_MS + 10_000)
        await raises(LeaseHeld, store.leases.claim(mine.key, runner="other", ttl_ms=TTL_MS, now_ms=NOW_MS + TTL_MS))
        other = await store.leases.claim(mine.key, runner="other", ttl_ms=TTL_MS, now_ms=NOW_MS + 10_000 + TTL_MS)
        assert (other.epoch, other.until_ms) == (2, NOW_MS + 10_000 + 2 * TTL_MS)
        await raises(StaleEpoch, store.leases.keep(mine.key, runner="mine", epoch=1, ttl_ms=TTL_MS, now_ms=NOW_MS))
        await store.leases.release(mine.key, runner="mine", epoch=1)  # lost before: nothing happens
        await raises(LeaseHeld, store.leases.claim(mine.key, runner="mine", ttl_ms=TTL_MS, now_ms=NOW_MS + 11_000))
        await raises(NotFound, store.leases.claim(Key("default", "nobody"), runner="r", ttl_ms=1, now_ms=0))


async def a_lease_given_back_is_free_and_renewable(case: StoreCase) -> None:
    async with case.open() as store:
        mine = await Writer(store, runner="mine").claim()
        assert (await mine.claim(renew=True)).epoch == 1
        assert (await mine.claim()).epoch == 2
        await store.leases.release(mine.key, runner="mine", epoch=2)
        assert (await mine.claim(renew=True)).epoch == 2  # nobody took it since
        await mine.append()
        await store.leases.release(mine.key, runner="mine", epoch=2)
        assert (await Writer(store, runner="other").claim(renew=True)).epoch == 3
        await store.leases.release(mine.key, runner="other", epoch=3)
        assert (await mine.claim(renew=True)).epoch == 4  # another had it in between


async def the_holder_is_told(case: StoreCase) -> None:
    async with case.open() as store:
        mine = await Writer(store, runner="mine").claim(now_ms=NOW_MS - 1)
        held = Holder(runner="mine", epoch=1, until_ms=NOW_MS - 1 + TTL_MS)
        assert await store.leases.holder(mine.key, now_ms=NOW_MS) == held
        assert await store.leases.holder(mine.key, now_ms=held.until_ms - 1) == held
        assert await store.leases.holder(mine.key, now_ms=held.until_ms) is None  # when another one may claim it
        await store.leases.keep(mine.key, runner="mine", epoch=1, ttl_ms=TTL_MS, now_ms=NOW_MS)
        await mine.append()
        held = Holder(runner="mine", epoch=1, until_ms=NOW_MS + TTL_MS)
        assert await store.leases.holder(mine.key, now_ms=NOW_MS) == held
        if case.capabilities.multi_process:
            async with case.open() as other:
                assert await other.leases.holder(mine.key, now_ms=NOW_MS) == held
        await store.leases.release(mine.key, runner="mine", epoch=1)
        assert await store.leases.holder(mine.key, now_ms=NOW_MS) is None
        taken = await Writer(store, runner="other").claim()
        assert await store.leases.holder(taken.key, now_ms=NOW_MS) == Holder(
            runner="other", epoch=2, until_ms=NOW_MS + TTL_MS
        )
        await store.log.create(Key("default", "bare"))
        assert await store.leases.holder(Key("default", "bare"), now_ms=NOW_MS) is None
        await raises(NotFound, store.leases.holder(Key("default", "nobody"), now_ms=NOW_MS))
        await raises(UsageError, store.leases.holder(Key("default", ".."), now_ms=NOW_MS))


async def a_lease_has_a_bound(case: StoreCase) -> None:
    async with case.open() as store:
        mine = await Writer(store, runner="mine").claim()
        for bad in (LEASE_MS_MAX + 1, -1):
            await raises(UsageError, store.leases.claim(mine.key, runner="mine", ttl_ms=bad, now_ms=NOW_MS))
            await raises(UsageError, store.leases.keep(mine.key, runner="mine", epoch=1, ttl_ms=bad, now_ms=NOW_MS))
        assert (await store.leases.holder(mine.key, now_ms=NOW_MS)) == Holder(
            runner="mine", epoch=1, until_ms=NOW_MS + TTL_MS
        )
        longest = await store.leases.claim(mine.key, runner="mine", ttl_ms=LEASE_MS_MAX, now_ms=NOW_MS)
        assert (longest.epoch, longest.until_ms) == (2, NOW_MS + LEASE_MS_MAX)


async def a_clock_that_was_ahead_locks_nobody_out_for_long(case: StoreCase) -> None:
    async with case.open() as store:
        ahead = await Writer(store, runner="ahead").claim(now_ms=NOW_MS + YEARS_MS)
        over = NOW_MS + LEASE_MS_MAX
        for now_ms in (NOW_MS, NOW_MS + 1, over - 1):
            error = await raises(LeaseHeld, store.leases.claim(ahead.key, runner="other", ttl_ms=TTL_MS, now_ms=now_ms))
            assert (error.owner, error.until_ms) == ("ahead", over)
            assert await store.leases.holder(ahead.key, now_ms=now_ms) == Holder(runner="ahead", epoch=1, until_ms=over)
        await ahead.append()  # it may write until it is replaced
        assert await store.leases.holder(ahead.key, now_ms=over) is None
        other = await store.leases.claim(ahead.key, runner="other", ttl_ms=TTL_MS, now_ms=over)
        assert (other.epoch, other.until_ms) == (2, over + TTL_MS)
        await raises(StaleEpoch, ahead.append())


async def an_owner_whose_clock_is_ahead_is_not_robbed(case: StoreCase) -> None:
    async with case.open() as store:
        ahead = await Writer(store, runner="ahead").claim(now_ms=NOW_MS + YEARS_MS)
        step = LEASE_MS_MAX // 2
        for now_ms in range(NOW_MS, NOW_MS + 6 * step, step):
            await raises(LeaseHeld, store.leases.claim(ahead.key, runner="other", ttl_ms=TTL_MS, now_ms=now_ms))
            await store.leases.keep(ahead.key, runner="ahead", epoch=1, ttl_ms=TTL_MS, now_ms=now_ms + YEARS_MS)
        await ahead.append()


async def a_clock_that_is_behind_takes_nothing_away(case: StoreCase) -> None:
    """For it every lease reaches far ahead. It may doubt them, but others must not be made to."""
    async with case.open() as store:
        mine = await Writer(store, runner="mine").claim()
        held = Holder(runner="mine", epoch=1, until_ms=NOW_MS + TTL_MS)
        late = NOW_MS - YEARS_MS
        for now_ms in (late, late + 1):
            error = await raises(LeaseHeld, store.leases.claim(mine.key, runner="behind", ttl_ms=TTL_MS, now_ms=now_ms))
            assert error.until_ms == late + LEASE_MS_MAX
        if case.capabilities.multi_process:
            async with case.open() as other:
                assert await other.leases.holder(mine.key, now_ms=NOW_MS) == held
                await raises(LeaseHeld, other.leases.claim(mine.key, runner="other", ttl_ms=TTL_MS, now_ms=NOW_MS))
        assert (await mine.claim(renew=True)).epoch == 1


async def of_many_claims_at_once_one_wins(case: StoreCase) -> None:
    async with case.open() as store:
        await store.log.create(Key("default", "s1"))
        claims = [
            store.leases.claim(Key("default", "s1"), runner=f"r{i}", ttl_ms=TTL_MS, now_ms=NOW_MS) for i in range(50)
        ]  # fmt: skip
        results = await asyncio.gather(*claims, return_exceptions=True)
        assert sum(not isinstance(result, BaseException) for result in results) == 1
        assert sum(isinstance(result, LeaseHeld) for result in results) == 49


CHECKS = (
    a_lease_keeps_others_away,
    a_lease_given_back_is_free_and_renewable,
    the_holder_is_told,
    a_lease_has_a_bound,
    a_clock_that_was_ahead_locks_nobody_out_for_long,
    an_owner_whose_clock_is_ahead_is_not_robbed,
    a_clock_that_is_behind_takes_nothing_away,
    of_many_claims_at_once_one_wins,
)
