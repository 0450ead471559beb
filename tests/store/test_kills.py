"""A killed process loses nothing that was acknowledged: SIGKILL at random moments, with the acknowledgements as oracle."""

from __future__ import annotations

import os
import pathlib
import random
import tempfile
from collections.abc import Iterator
from typing import Any

import pytest

from tests.store.kill_oracle import check_after_kill
from tests.store.kill_targets import APPENDING
from windlass.testing.kill_rig import KillRig

KILLS = 1_000
LIVES_PER_PLACE = 10
WINDOW_US = 4_000
SHARE_MIN = 0.6


@pytest.fixture
def room() -> Iterator[pathlib.Path]:
    """A directory in memory where there is one: process death looks the same there, and it is quicker."""
    memory = pathlib.Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as path:
        yield pathlib.Path(path)


def fresh_seed() -> int:
    return int(os.environ.get("WINDLASS_SEED") or random.SystemRandom().randrange(2**32))


@pytest.mark.parametrize("store", ["sqlite", "sqlite-normal", "jsonl", "jsonl-normal"])
def test_nothing_acknowledged_is_lost_by_a_kill(store: str, room: pathlib.Path):
    def arguments(life: int) -> dict[str, Any]:
        place = room / str(life // LIVES_PER_PLACE)
        place.mkdir(exist_ok=True)
        return {"store": store, "place": str(place), "sessions": 1 + 3 * (life // LIVES_PER_PLACE % 2)}

    with KillRig("tests.store.kill_targets:write", seed=fresh_seed()) as rig:
        tally = rig.campaign(KILLS, WINDOW_US, arguments, check_after_kill)
    print(f"seed {rig.seed}: {tally}")
    assert tally.kills >= KILLS
    assert tally.share(APPENDING) >= SHARE_MIN, f"seed {rig.seed}: {tally}"
