"""A thousand worlds: no rule is broken in any, each has seen enough, and together they have been everywhere."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable

import msgspec
import pytest

from windlass.testing.simulator import STEPS_MIN, simulate
from windlass.testing.simulator.hard_places import HARD_PLACES
from windlass.testing.simulator.world import CRASHES_MIN, RUNS_MIN

WORLDS = 1_000
WORLDS_MAX = 2_000
"""How many worlds are lived through at most until together they have been everywhere: the course of a seed is not the
same in every version of Python, and some places are rare."""
CHUNK = 100
LONG_SEEDS = 20_000


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


@pytest.fixture
def places_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Counter[str]]:
    """The places of a chunk of worlds; they are run once, whichever of the processes that test needs them first."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent

    def places(first: int) -> Counter[str]:
        kept = folder / f"worlds-{first}.json"
        if not kept.exists():
            fresh = folder / f"{kept.name}.{os.getpid()}"
            fresh.write_bytes(msgspec.json.encode(sweep(first, first + CHUNK)))
            fresh.rename(kept)
        return Counter(msgspec.json.decode(kept.read_bytes(), type=dict[str, int]))

    return places


@pytest.mark.parametrize("first", range(0, WORLDS, CHUNK))
def test_no_world_breaks_a_rule(places_of, first):
    places_of(first)


def test_every_hard_place_was_reached(places_of):
    places: Counter[str] = Counter()
    for first in range(0, WORLDS_MAX, CHUNK):
        if first >= WORLDS and not missing(places):
            break
        places += places_of(first)
    assert missing(places) == []


def missing(places: Counter[str]) -> list[str]:
    return [place for place in HARD_PLACES if not places[place]]


@pytest.mark.long
def test_twenty_thousand_worlds_break_no_rule():
    assert missing(sweep(WORLDS, WORLDS + LONG_SEEDS)) == []
