"""A slot exists as long as something would be lost with it, and no longer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from windlass.runtime.host import slot_table as slots_module
from windlass.runtime.host.slot_table import Slots
from windlass.runtime.workspace.folder import folder_of
from windlass.store.base import Key
from windlass.tools.tool import as_tool

KEY = Key("default", "s")
OTHER = Key("default", "other")


def add(x: int, y: int) -> int:
    """Adds."""
    return x + y


def parked(slots: Slots) -> Callable[[], None]:
    slots.park(KEY, "broken")

    def release() -> None:
        slots.at(KEY).parked = ""

    return release


def posted(slots: Slots) -> Callable[[], None]:
    slots.post(KEY, "c1")
    return lambda: slots.was_taken(KEY, "c1")


def woken(slots: Slots) -> Callable[[], None]:
    slots.wake(slots.at(KEY), 5)
    return lambda: slots.wake(slots.at(KEY), None)


def listened_to(slots: Slots) -> Callable[[], None]:
    listener = slots.subscribe(KEY)
    return lambda: slots.leave(KEY, listener)


def asked_for(slots: Slots) -> Callable[[], None]:
    slots.at(KEY).asked_for = True

    def release() -> None:
        slots.at(KEY).asked_for = False

    return release


def given_code(slots: Slots) -> Callable[[], None]:
    slots.at(KEY).local_code.bring([as_tool(add)])
    return slots.at(KEY).local_code.code.clear


@pytest.mark.parametrize("keep", [parked, posted, woken, listened_to, asked_for, given_code])
async def test_a_slot_is_kept_for_one_reason_and_forgotten_without(keep):
    slots = Slots()
    release = keep(slots)
    slots.forget(slots.at(KEY))
    assert len(slots) == 1
    release()
    slots.forget(slots.at(KEY))
    assert len(slots) == 0


async def test_a_slot_that_somebody_holds_is_the_same_for_the_next_one():
    slots = Slots()
    seen = []

    async def hold() -> None:
        async with slots.locked(KEY) as slot:
            seen.append(slot)
            await asyncio.sleep(0)
            assert slots.get(KEY) is slot

    await asyncio.gather(hold(), hold(), hold())
    assert len(set(map(id, seen))) == 1
    assert len(slots) == 0


async def test_forgetting_an_old_slot_leaves_the_new_one_of_its_session():
    slots = Slots()
    old = slots.at(KEY)
    slots.forget(old)
    slots.post(KEY, "c1")
    slots.forget(old)
    assert slots.get(KEY) is not None


@pytest.mark.parametrize(
    ("bound", "note"),
    [
        ("PARKED_MAX", lambda slots, key: slots.park(key, "broken")),
        ("POSTED_MAX", lambda slots, key: slots.post(key, "c1")),
        ("FOLDERS_KEPT_MAX", lambda slots, key: slots.place(key, folder_of("/", trusted=False, names=None))),
    ],
)
async def test_what_is_bounded_leaves_oldest_first_and_takes_its_slot_along(bound, note, monkeypatch):
    monkeypatch.setattr(slots_module, bound, 3)
    slots = Slots()
    keys = [Key("default", f"s{number}") for number in range(5)]
    for key in keys:
        note(slots, key)
    assert [key for key in keys if slots.get(key) is not None] == keys[2:]


async def test_nothing_is_parked_by_a_runtime_that_is_closed():
    slots = Slots()
    slots.closed = True
    slots.park(KEY, "broken")
    assert (len(slots), len(slots.parked)) == (0, 0)


async def test_a_listener_that_comes_after_the_end_is_at_its_end():
    slots = Slots()
    slots.closed = True
    heard = [told async for told in slots.subscribe(OTHER)]
    assert heard == []
