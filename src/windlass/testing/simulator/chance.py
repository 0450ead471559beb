"""What one seed decides: a source of choices, and how often each kind of trouble comes in this world.

Rates differ from seed to seed, and many are zero in any one of them: a world in which everything happens at once
never gets anywhere interesting.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

import msgspec

T = TypeVar("T")


class Rates(msgspec.Struct, frozen=True, kw_only=True):
    """How often, each a chance at each opportunity unless it says otherwise."""

    # the process
    crash_point: float = 0.0
    crash_await: float = 0.0
    crash_any: float = 0.0
    stall: float = 0.0
    stall_await: float = 0.0
    close: float = 0.0
    clock_jump: float = 0.0
    driver_dies: float = 0.0
    # the store
    latency: float = 0.0
    lost_before: float = 0.0
    lost_after: float = 0.0
    twice: float = 0.0
    late: float = 0.0
    full: float = 0.0
    poison: float = 0.0
    snapshot_loss: float = 0.0
    read_error: float = 0.0
    # models and tools
    model_fails: float = 0.0
    model_hangs: float = 0.0
    model_odd: float = 0.0
    calls: float = 0.5
    tool_raises: float = 0.0
    tool_hangs: float = 0.0
    tool_slow: float = 0.0
    tool_suspends: float = 0.0
    tool_asks: float = 0.0
    tool_consults: float = 0.0
    tool_cancels: float = 0.0
    tool_jobs: float = 0.0
    job_lost: float = 0.0
    misanswers: float = 0.0
    # hooks and the archive
    hook_raises: float = 0.0
    hook_slow: float = 0.0
    hook_denies: float = 0.0
    hook_changes: float = 0.0
    archive_fails: float = 0.0
    archive_slow: float = 0.0
    # people
    by_inbox: float = 0.0
    gives_up: float = 0.0
    stops: float = 0.0
    forks: float = 0.0
    follows: float = 0.0
    reads_on: float = 0.0
    options: float = 0.0
    mounts: float = 0.0
    serves: float = 0.0
    tidies: float = 0.0
    pages_in: float = 0.0
    erases: float = 0.0
    shuts_down: float = 0.0
    recodes: float = 0.0
    labels: float = 0.0
    """How often something is marked, in a world with tools that read what is private and untrusted and lead out."""


_RANGES: dict[str, tuple[float, float, float]] = {
    # how likely it is in a world at all, then from how much to how much
    "crash_point": (0.5, 0.002, 0.03),
    "crash_await": (0.5, 0.001, 0.01),
    "crash_any": (0.6, 0.02, 0.2),
    "stall": (0.35, 0.02, 0.2),
    "stall_await": (0.35, 0.001, 0.01),
    "close": (0.3, 0.02, 0.15),
    "clock_jump": (0.4, 0.02, 0.2),
    "latency": (0.8, 0.05, 0.6),
    "lost_before": (0.35, 0.005, 0.05),
    "lost_after": (0.35, 0.005, 0.05),
    "twice": (0.3, 0.01, 0.1),
    "late": (0.7, 0.2, 0.9),
    "full": (0.25, 0.01, 0.08),
    "poison": (0.1, 0.002, 0.01),
    "snapshot_loss": (0.4, 0.1, 0.9),
    "read_error": (0.2, 0.001, 0.01),
    "model_fails": (0.5, 0.05, 0.4),
    "model_hangs": (0.3, 0.02, 0.15),
    "model_odd": (0.5, 0.05, 0.3),
    "tool_raises": (0.4, 0.05, 0.3),
    "tool_hangs": (0.3, 0.02, 0.15),
    "tool_slow": (0.6, 0.1, 0.6),
    "tool_suspends": (0.3, 0.05, 0.2),
    "tool_asks": (0.3, 0.05, 0.2),
    "tool_consults": (0.3, 0.1, 0.5),
    "by_inbox": (0.7, 0.1, 0.6),
    "gives_up": (0.4, 0.05, 0.4),
    "stops": (0.7, 0.05, 0.35),
    "forks": (0.4, 0.02, 0.12),
    "follows": (0.5, 0.1, 0.6),
    "misanswers": (0.7, 0.1, 0.6),
    "hook_raises": (0.4, 0.02, 0.2),
    "hook_slow": (0.4, 0.02, 0.2),
    "hook_denies": (0.6, 0.05, 0.3),
    "hook_changes": (0.7, 0.1, 0.7),
    "archive_fails": (0.6, 0.2, 0.8),
    "archive_slow": (0.4, 0.1, 0.5),
    "reads_on": (0.3, 0.2, 1.0),
    "options": (0.3, 0.05, 0.3),
    "mounts": (0.35, 0.05, 0.25),
    "serves": (0.3, 0.2, 1.0),
    "tidies": (0.4, 0.1, 0.4),
    "pages_in": (0.3, 0.1, 0.4),
    "erases": (0.2, 0.02, 0.1),
    "shuts_down": (0.2, 0.01, 0.06),
    "recodes": (0.3, 0.2, 0.8),
    "tool_cancels": (0.4, 0.05, 0.3),
    "driver_dies": (0.3, 0.005, 0.05),
    "tool_jobs": (0.5, 0.3, 1.0),
    "job_lost": (0.4, 0.05, 0.3),
    "labels": (0.35, 0.1, 0.5),
}


DEPLOYS = 0.12
"""How many worlds are worlds of deploys."""
DEPLOYED = {
    "recodes": 1.0,
    "crash_any": 0.3,
    "crash_await": 0.02,
    "tool_hangs": 0.3,
    "tool_slow": 0.6,
    "shuts_down": 0.0,
}
"""Where every process starts with other code than the one before it, and calls are cut off in the middle."""


class Chance(random.Random):
    """The one source of choices in a world."""

    def hit(self, rate: float) -> bool:
        """Whether something with this rate happens now."""
        return rate > 0.0 and self.random() < rate

    def one(self, options: Sequence[T]) -> T:
        return options[int(self.random() * len(options))]

    def below(self, most: int) -> int:
        return int(self.random() * most)

    def rates(self) -> Rates:
        """The troubles of this world."""
        rates = {}
        for name, (likely, least, most) in _RANGES.items():
            rates[name] = least + self.random() * (most - least) if self.random() < likely else 0.0
        if self.random() < DEPLOYS:
            rates |= DEPLOYED
        return Rates(calls=0.2 + 0.6 * self.random(), **rates)


SELDOM = 40.0
"""How much more dangerous moments are that come seldom, so that they are died in at all."""

CALM = Rates(calls=0.2)
"""A world in which nothing goes wrong."""
