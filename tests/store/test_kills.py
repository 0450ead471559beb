"""A killed process loses nothing that was acknowledged: SIGKILL at random moments, with the acknowledgements as oracle,
and at every single thing that a store does to its disk."""

from __future__ import annotations

import os
import pathlib
import random
from collections.abc import Callable
from typing import Any

import pytest

from tests.store.kill_oracle import check_after_kill
from tests.store.kill_targets import APPENDING
from windlass.testing.kill_rig import KillRig, Tally

LIVES_PER_PLACE = 10
WINDOW_US = 4_000
WINDOW_US_MAX = 8 * WINDOW_US
"""On a busy machine a life takes longer to begin its work: then it is given more time to do so."""
BATCH = 50
SHARE = 0.6
"""The part of the kills that are to hit between the call of append and its acknowledgement."""


def fresh_seed() -> int:
    """A new one each time; WINDLASS_SEED repeats an old one."""
    return int(os.environ.get("WINDLASS_SEED") or random.SystemRandom().randrange(2**32))


def places(room: pathlib.Path, store: str, lives: int = LIVES_PER_PLACE) -> Callable[[int], dict[str, Any]]:
    """Arguments that let some lives follow each other at one place; one session and four take turns."""

    def arguments(life: int) -> dict[str, Any]:
        place = room / str(life // lives)
        place.mkdir(exist_ok=True)
        return {"store": store, "place": str(place), "sessions": 1 + 3 * (life // lives % 2)}

    return arguments


def campaign(rig: KillRig, kills: int, room: pathlib.Path, store: str) -> Tally:
    """So many kills and more, until enough of them have hit an append: where too few do, they come later."""
    tally, window_us = Tally(), WINDOW_US
    while tally.kills < kills or tally.marks[APPENDING] < SHARE * kills:
        within = room / str(tally.lives)
        within.mkdir()
        batch = rig.campaign(BATCH, window_us, places(within, store), check_after_kill)
        tally.lives, tally.kills = tally.lives + batch.lives, tally.kills + batch.kills
        tally.marks += batch.marks
        if batch.share(APPENDING) < SHARE:
            window_us = min(2 * window_us, WINDOW_US_MAX)
    print(f"seed {rig.seed}: {tally}")
    return tally


@pytest.mark.parametrize(("store", "kills"), [("sqlite", 1000), ("jsonl", 1000), ("sqlite-normal", 250), ("jsonl-normal", 250)])  # fmt: skip
def test_nothing_acknowledged_is_lost_by_a_kill(store: str, kills: int, memory_path: pathlib.Path):
    with KillRig("tests.store.kill_targets:write", seed=fresh_seed()) as rig:
        tally = campaign(rig, kills, memory_path, store)
    assert tally.kills >= kills
    assert tally.marks[APPENDING] >= SHARE * kills


@pytest.mark.long
@pytest.mark.parametrize("store", ["sqlite", "jsonl"])
def test_nothing_acknowledged_is_lost_by_twenty_thousand_kills(store: str, memory_path: pathlib.Path):
    with KillRig("tests.store.kill_targets:write", seed=fresh_seed()) as rig:
        tally = campaign(rig, 20_000, memory_path, store)
    assert tally.marks[APPENDING] >= SHARE * 20_000


@pytest.mark.parametrize("store", ["sqlite", "jsonl"])
def test_a_kill_at_any_write_or_sync_loses_nothing(store: str, memory_path: pathlib.Path):
    def arguments(number: int) -> dict[str, Any]:
        place = memory_path / str(number)
        place.mkdir()
        return {"store": store, "place": str(place), "sessions": 2, "rounds": 7}

    with KillRig("tests.store.kill_targets:write_through_points", seed=0) as rig:
        killed = rig.sweep(arguments, check_after_kill)
    print(f"{killed} crash points")
    assert killed >= 100
