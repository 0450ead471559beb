"""A tree three deep under SIGKILL, with children, a timer and an approval open: nothing is begun twice, nothing is lost,
and what the tree used is what its root has booked."""

from __future__ import annotations

import pathlib

import pytest

import windlass
from windlass.events.commands import PromptReceived
from windlass.events.tools.permissions import PermissionApproved, PermissionRequested
from windlass.events.trees.children import ChildFinished, ChildStarted
from windlass.events.turns import TurnStarted
from windlass.testing.kill_rig import KillRig

from . import deep_tree_target
from .support import events_of, only, sound

TARGET = "tests.runtime.deep_tree_target:live"
STEP, STEP_LONG = 43, 1
CHILDREN = 7


async def check(place: pathlib.Path) -> None:
    """What must hold of a tree that has come to its end."""
    lead = deep_tree_target.tree(place)
    async with windlass.open(place / "work.db", agents=[lead], take_up=False) as runtime:
        rows = await runtime.sessions(root="root")
        assert sorted(row.session.count("~") for row in rows) == [0, 1, 1, 2, 2, 3, 3, 3]
        turns = started = ended = 0
        for row in rows:
            session = await runtime.get(row.session)
            events = await events_of(session)
            ends, tasks = only(events, ChildFinished), [e.command_id for e in only(events, PromptReceived)]
            assert len({end.child_id for end in ends}) == len(ends)
            assert {end.status for end in ends} <= {"completed"}
            assert row.parent is None or tasks.count(f"task:{row.session}") == 1
            assert (await sound(session)).children.open == {}
            assert await runtime.store.inbox.waiting(session.key) == []
            turns += len(only(events, TurnStarted))
            started, ended = started + len(only(events, ChildStarted)), ended + len(ends)
            if row.agent == "payer":
                (asked,) = only(events, PermissionRequested)
                assert [yes.request_id for yes in only(events, PermissionApproved)] == [asked.request_id]
        root = await (await runtime.get("root")).state()
        assert (started, ended) == (CHILDREN, CHILDREN)
        assert root.budget.spent.turns == turns <= 200
        assert root.budget.spent.children == CHILDREN
    assert set((place / "paid").read_text().splitlines()) == {row.session for row in rows if row.agent == "payer"}


async def sweep(tmp_path: pathlib.Path, step: int) -> int:
    """Kills at every so many points of the way, each time a fresh tree; the next life must bring it to its end."""
    with KillRig(TARGET, seed=1) as rig:
        point, kills = 1 + step // 2, 0
        while True:
            place = tmp_path / f"at{point}"
            place.mkdir()
            life = rig.run({"place": str(place)}, at_point=point)
            if life.killed:
                kills += 1
                rig.run({"place": str(place)})
            try:
                await check(place)
            except AssertionError as error:
                raise AssertionError(f"killed at point {point}: {error}") from error
            if not life.killed:
                return kills
            point += step


async def test_a_deep_tree_survives_a_kill_at_points_all_along_its_way(tmp_path):
    assert await sweep(tmp_path, STEP) >= 2


@pytest.mark.long
async def test_a_deep_tree_survives_a_kill_at_every_point_of_its_way(tmp_path):
    assert await sweep(tmp_path, STEP_LONG) >= 100
