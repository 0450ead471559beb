"""Selections under SIGKILL: each is recorded once, and no run is begun by other code than the log says."""

from __future__ import annotations

import pathlib

import pytest

import windlass
from windlass.events.changes import AgentDeselected, AgentSelected
from windlass.testing.kill_rig import KillRig

from . import selected_agent_target
from .support import events_of, only, sound

TARGET = "tests.runtime.selected_agent_target:live"
STEP, STEP_LONG = 7, 1


async def check(place: pathlib.Path) -> None:
    """What must hold of the session once everything was said."""
    agent = selected_agent_target.lead()
    async with windlass.open(place / "work.db", agents=[agent], take_up=False) as runtime:
        session = await runtime.get("s")
        await sound(session)
        events = await events_of(session)
        assert (len(only(events, AgentSelected)), len(only(events, AgentDeselected))) == (1, 1)
        said = [(await session.result(name)).text for name in ("first", "second")]
        assert said == ["critic ['look']", "lead ['spawn', 'tell_child']"]


async def killed(tmp_path: pathlib.Path, rig: KillRig, point: int) -> bool:
    """Kills a fresh session at a point, and lets the next life bring it to its end."""
    place = tmp_path / f"at{point}"
    place.mkdir()
    life = rig.run({"place": str(place)}, at_point=point)
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


async def test_a_selection_survives_a_kill_at_points_all_along_its_way(tmp_path):
    assert await sweep(tmp_path, STEP) >= 3


@pytest.mark.long
async def test_a_selection_survives_a_kill_at_every_point_of_its_way(tmp_path):
    assert await sweep(tmp_path, STEP_LONG) >= 20
