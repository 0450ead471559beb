"""Patience with a store: how often it is asked again, how long is waited in between, and what is not tried twice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from windlass.events.errors import NotFound, StaleEpoch, StorageFull, StoreError, StorePoisoned
from windlass.runtime.host.ports import SystemPorts
from windlass.runtime.owner.store_retries import FULL_RETRY_MS, STORE_RETRIES_MAX, STORE_RETRY_MS, StorePatience


class NoWait(SystemPorts):
    """The real world, in which no time passes while somebody waits."""

    def __init__(self) -> None:
        super().__init__()
        self.waited: list[int] = []

    async def sleep_ms(self, ms: int) -> None:
        self.waited.append(ms)


class Shaky:
    """A store's answer that comes after so many errors."""

    def __init__(self, error: Exception, times: int) -> None:
        self.error = error
        self.times = times
        self.asked = 0

    async def __call__(self) -> str:
        self.asked += 1
        if self.asked <= self.times:
            raise self.error
        return "kept"


def patience(told: Callable[[str], Any] = lambda message: None) -> tuple[StorePatience, NoWait]:
    ports = NoWait()
    return StorePatience(ports, "s", told), ports


async def test_a_store_that_does_not_answer_is_asked_again_ever_later_and_then_given_up():
    waits, ports = patience()
    always = Shaky(StoreError("no answer"), 1_000)
    with pytest.raises(StoreError, match="no answer"):
        await waits.insist(always)
    assert always.asked == STORE_RETRIES_MAX + 1
    assert ports.waited == [STORE_RETRY_MS * 2**n for n in range(1, STORE_RETRIES_MAX + 1)]


async def test_a_store_that_answers_at_the_last_try_has_answered():
    waits, _ = patience()
    assert await waits.insist(Shaky(StoreError("no answer"), STORE_RETRIES_MAX)) == "kept"


@pytest.mark.parametrize("error", [StaleEpoch("another has it"), NotFound("gone"), StorePoisoned("broken")])
async def test_what_trying_again_does_not_change_is_not_tried_again(error: Exception):
    waits, ports = patience()
    final = Shaky(error, 1)
    with pytest.raises(type(error)):
        await waits.insist(final)
    assert (final.asked, ports.waited) == (1, [])


async def test_a_full_disk_is_told_at_once_to_whoever_has_nothing_under_way():
    waits, ports = patience()
    with pytest.raises(StorageFull):
        await waits.insist(Shaky(StorageFull("no room"), 1))
    assert (ports.waited, waits.paused) == ([], "")


async def test_a_full_disk_is_waited_for_while_work_is_under_way_and_told_once():
    told: list[str] = []
    waits, ports = patience(told.append)
    waits.for_ever = True
    assert await waits.insist(Shaky(StorageFull("no room"), 50)) == "kept"
    assert (told, ports.waited, waits.paused) == (["no room"], [FULL_RETRY_MS] * 50, "")
    assert await waits.insist(Shaky(StorageFull("no room again"), 1)) == "kept"
    assert told == ["no room", "no room again"]
