"""Worlds of one kind, lived through until they have been everywhere, and until one of them finds a planted bug."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable
from typing import Any

from windlass.testing.simulator import SimFailure, simulate

SEEDS_MAX = 200
"""How many worlds a planted bug may stay hidden in."""


@functools.cache
def places_of(kind: Any, first: int, last: int) -> Counter[str]:
    """The places that the worlds of these seeds have been at."""
    found: Counter[str] = Counter()
    for seed in range(first, last):
        found += simulate(seed, kind=kind).places
    return found


def not_reached(kind: Any, wanted: Iterable[str], *, most: int, chunk: int = 10) -> list[str]:
    """The hard places that no world has been at: as few worlds as are enough, `most` at the most. The course of a seed
    is not the same in every version of Python."""
    found: Counter[str] = Counter()
    for first in range(0, most, chunk):
        found += places_of(kind, first, first + chunk)
        if all(found[place] for place in wanted):
            return []
    return [place for place in wanted if not found[place]]


def first_failure(kind: Any, most: int = SEEDS_MAX) -> SimFailure:
    """What the first seed that finds something wrong says."""
    for seed in range(most):
        try:
            simulate(seed, kind=kind)
        except SimFailure as failure:
            return failure
    raise AssertionError(f"{most} seeds have found nothing wrong")
