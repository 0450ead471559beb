"""Messages within a tree under SIGKILL: each is read once, by whom it was meant, and whoever said it hears that it was."""

from __future__ import annotations

import pathlib

import pytest

import windlass
from windlass.events.signals import SignalReceived
from windlass.events.tools.calls import ToolFinished
from windlass.testing.kill_rig import KillRig

from . import tree_message_target
from .support import events_of, only, sound

TARGET = "tests.runtime.tree_message_target:live"
STEP, STEP_LONG = 37, 1
MESSAGES = 2


async def check(place: pathlib.Path) -> None:
    """What must hold of the tree once it has come to its end."""
    lead = tree_message_target.tree(place)
    async with windlass.open(place / "work.db", agents=[lead], take_up=False) as runtime:
        said, read = [], {}
        for row in await runtime.sessions(root="root"):
            session = await runtime.get(row.session)
            events = await events_of(session)
            await sound(session)
            assert await runtime.store.inbox.waiting(session.key) == []
            read[row.agent] = [told.body.text for told in only(events, SignalReceived) if told.body is not None]
            if row.agent == "writer":
                said = [end.ok for end in only(events, ToolFinished)]
        assert read == {"lead": ["for root"], "reader": ["for reader"], "writer": []}
        assert said == [True] * 4


async def killed(tmp_path: pathlib.Path, rig: KillRig, point: int, only: str = "") -> bool:
    """Kills a fresh tree at a point, and lets the next life bring it to its end."""
    place = tmp_path / f"at{point}"
    place.mkdir()
    life = rig.run({"place": str(place), "only": only}, at_point=point)
    if life.killed:
        rig.run({"place": str(place)})
    try:
        await check(place)
    except AssertionError as error:
        raise AssertionError(f"killed at point {point}: {error}") from error
    return life.killed


async def sweep(tmp_path: pathlib.Path, step: int) -> int:
    with KillRig(TARGET, seed=1) as rig:
        point, kills = 1 + step // 2, 0
        while await killed(tmp_path, rig, point):
            kills, point = kills + 1, point + step
        return kills


async def test_a_message_is_read_once_if_its_sender_dies_when_it_is_in_the_inbox(tmp_path):
    with KillRig(TARGET, seed=1) as rig:
        for point in range(1, MESSAGES + 1):
            assert await killed(tmp_path, rig, point, "message_posted")
        assert not await killed(tmp_path, rig, MESSAGES + 1, "message_posted")


async def test_messages_survive_a_kill_at_points_all_along_their_way(tmp_path):
    assert await sweep(tmp_path, STEP) >= 2


@pytest.mark.long
async def test_messages_survive_a_kill_at_every_point_of_their_way(tmp_path):
    assert await sweep(tmp_path, STEP_LONG) >= 50
