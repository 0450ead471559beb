"""Whatever a session is told: it is applied or refused, nothing is lost, and its log can be trusted at every record."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as draw
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.kernel.chaos import LEGAL_PAIRS, Chaos, Pair, run, seeded
from windlass.kernel import log

SEEDS = 300
SHARES = 6
SEEDS_MAX = 3_000
TICKS = 150
PREFIXES_EVERY = 4
HASH_SEEDS = 20
BY_HAND = {("Asleep", "ChildOpened"), ("Asleep", "ChildSettled"), ("Asleep", "KillReceived")}
"""Pairs that chance hardly comes to: a child whose call was stopped before it began, one that settles late (`test_children`),
a job that is killed while its session sleeps (`test_jobs`)."""


@pytest.mark.parametrize("first", range(0, SEEDS, SEEDS // SHARES))
def test_any_sequence_of_facts_is_applied_or_refused(first: int):
    """The sweep, in shares. A failure names its seed; `run(seed, TICKS)` after those before it in its share repeats
    it."""
    seen: Counter[Pair] = Counter()
    refused: Counter[str] = Counter()
    records = prefixes = 0
    for seed in range(first, first + SEEDS // SHARES):
        chaos = swept(seed, first, seen)
        if seed % PREFIXES_EVERY == 0:
            prefixes += chaos.check_prefixes()
        records += chaos.session.state.seq
        refused += chaos.refused
    assert set(seen) <= LEGAL_PAIRS
    assert "" not in refused
    assert len(refused) >= 10, "the sweep hardly sees a refusal"
    assert records > 100 * SEEDS // SHARES
    assert prefixes > 20 * SEEDS // SHARES


def test_every_legal_pair_is_reached():
    """Whatever may come in a phase does, sooner or later: what no sweep reaches, no sweep checks."""
    seen: Counter[Pair] = Counter()
    for seed in range(SEEDS_MAX):
        chaos = Chaos(seeded(seed), seen)
        for _ in range(TICKS):
            chaos.tick()
        if not LEGAL_PAIRS - BY_HAND - set(seen):
            break
    assert LEGAL_PAIRS - BY_HAND - set(seen) == set()
    assert set(seen) <= LEGAL_PAIRS


def swept(seed: int, first: int, seen: Counter[Pair]) -> Chaos:
    try:
        return run(seed, TICKS, seen)
    except Exception as error:
        raise AssertionError(f"seed {seed} (of a sweep from {first}): {error}") from error


class AnyFacts(RuleBasedStateMachine):
    """The same rules with choices drawn by hypothesis, which finds small examples."""

    chaos: Chaos

    @initialize(data=draw.data())
    def begin(self, data: draw.DataObject) -> None:
        self.chaos = Chaos(lambda n: data.draw(draw.integers(0, n - 1)))

    @rule(data=draw.data())
    def tell(self, data: draw.DataObject) -> None:
        self.chaos.pick = lambda n: data.draw(draw.integers(0, n - 1))
        self.chaos.tick()

    @precondition(lambda self: self.chaos.session.state.seq % 5 == 0)
    @rule()
    def look_back(self) -> None:
        self.chaos.check_log()

    @invariant()
    def prefixes_hold(self) -> None:
        if hasattr(self, "chaos"):
            assert log.dump(self.chaos.session.folded()) == log.dump(self.chaos.session.state)

    def teardown(self) -> None:
        if hasattr(self, "chaos"):
            self.chaos.drain()
            self.chaos.check_log()
            self.chaos.check_prefixes()


TestAnyFacts = AnyFacts.TestCase
TestAnyFacts.settings = settings(max_examples=120, stateful_step_count=50, deadline=None)

FOLD = """
import sys, msgspec
from windlass.kernel import log
logs = msgspec.json.decode(sys.stdin.buffer.read(), type=list[list[str]])
print(",".join(log.state_hash(log.fold_lines([line.encode() for line in lines])) for lines in logs))
"""


def test_the_state_hash_is_the_same_in_every_process():
    sessions = [run(seed, 80).session for seed in range(3)]
    expected = ",".join(log.state_hash(session.state) for session in sessions)
    given = msgspec.json.encode([[line.decode() for line in session.lines] for session in sessions])
    found = set()
    for seed in range(HASH_SEEDS):
        environment = os.environ | {"PYTHONHASHSEED": str(seed)}
        done = subprocess.run(
            [sys.executable, "-c", FOLD], input=given, capture_output=True, check=True, env=environment, timeout=300
        )
        found.add(done.stdout.decode().strip())
    assert found == {expected}


def test_a_snapshot_at_any_append_leads_to_the_same_state():
    session = run(7, TICKS).session
    expected = log.state_hash(session.state)
    for cut in range(0, len(session.lines), 5):
        early = log.load(log.dump(log.fold_lines(session.lines[:cut])))
        assert log.state_hash(log.fold_lines(session.lines[cut:], early)) == expected


@pytest.mark.parametrize("seed", range(4))
def test_everything_in_the_state_has_a_bound(seed):
    """A session that is told ten times as much does not hold ten times as much."""
    short, long = (len(log.dump(run(seed, ticks).session.state)) for ticks in (TICKS, 10 * TICKS))
    assert long < 4 * short + 40_000
