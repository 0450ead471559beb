"""A thousand worlds: no rule is broken in any, each has seen enough, and together they have been everywhere."""

from __future__ import annotations

from collections import Counter

import pytest

from windlass.testing.simulator import STEPS_MIN, simulate
from windlass.testing.simulator.places import HARD_PLACES
from windlass.testing.simulator.world import CRASHES_MIN, RUNS_MIN

CHUNK = 500
LONG_SEEDS = 20_000

reached: Counter[str] = Counter()


def sweep(first: int, last: int) -> Counter[str]:
    """The hard places that the worlds of these seeds have been at."""
    places: Counter[str] = Counter()
    for seed in range(first, last):
        finding = simulate(seed)
        assert finding.steps >= STEPS_MIN, f"seed {seed}"
        assert finding.runs >= RUNS_MIN, f"seed {seed}"
        assert finding.crashes >= CRASHES_MIN, f"seed {seed}"
        places.update(finding.places)
    return places


@pytest.mark.parametrize("first", [0, CHUNK])
def test_no_world_breaks_a_rule(first):
    reached.update(sweep(first, first + CHUNK))


def test_every_hard_place_was_reached():
    places = reached or sweep(0, 2 * CHUNK)
    assert [place for place in HARD_PLACES if not places[place]] == []


@pytest.mark.long
def test_twenty_thousand_worlds_break_no_rule():
    places = sweep(2 * CHUNK, 2 * CHUNK + LONG_SEEDS)
    assert [place for place in HARD_PLACES if not places[place]] == []
