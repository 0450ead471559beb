"""Worlds of trees: no rule is broken in any, the hard places are reached, and planted bugs are found."""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from typing import Any

import msgspec
import pytest

from windlass.events.trees.children import ChildFinished
from windlass.events.values.specs import Policy, SessionOptions
from windlass.kernel import tells
from windlass.kernel.effects import StartChild
from windlass.kernel.part import Send
from windlass.kernel.parts import children, queue
from windlass.kernel.state import State
from windlass.runtime.owner import owner
from windlass.runtime.trees import session_children, specialists
from windlass.runtime.trees.session_children import SessionChildren
from windlass.testing.simulator import SimFailure, simulate

WORLDS = 18
CHUNK = 6
LONG_WORLDS = 2_000
SEEDS_MAX = 200
STOPPED_DEEP = 18
"""From here on it is not far to a world in which a tree is stopped that has two levels at work."""
HARD_PLACES = (
    *("child_1_deep", "child_2_deep", "child_3_deep", "asked_3_deep"),
    *("child_completed", "child_aborted", "child_error", "stopped_with_children", "escrow_came_back"),
    *("account_settled_1_deep", "account_settled_2_deep"),
)


@functools.cache
def places_of(first: int, last: int) -> Counter[str]:
    found: Counter[str] = Counter()
    for seed in range(first, last):
        found += simulate(seed, trees=True).places
    return found


@pytest.mark.parametrize("first", range(0, WORLDS, CHUNK))
def test_no_world_of_trees_breaks_a_rule(first):
    assert places_of(first, first + CHUNK)["child_1_deep"]


@pytest.mark.long
def test_two_thousand_worlds_of_trees_break_no_rule_and_have_been_everywhere():
    found = places_of(WORLDS, WORLDS + LONG_WORLDS)
    assert [place for place in HARD_PLACES if not found[place]] == []


def first_failure(first: int) -> SimFailure:
    """What the first seed that finds something wrong says."""
    for seed in range(first, first + SEEDS_MAX):
        try:
            simulate(seed, trees=True)
        except SimFailure as failure:
            return failure
    raise AssertionError(f"{SEEDS_MAX} seeds have found nothing wrong")


def starts_a_child_twice(patch: pytest.MonkeyPatch) -> None:
    """Whoever takes a parent over begins the child anew instead of looking for it."""
    begins, numbers = SessionChildren._begun, itertools.count(1)

    async def begun(self: SessionChildren, effect: StartChild) -> str:
        why = await begins(self, effect)
        again = msgspec.structs.replace(effect, child_id=f"{effect.child_id}x{next(numbers)}")
        return why or await begins(self, again)

    patch.setattr(SessionChildren, "_begun", begun)


def never_returns_the_escrow(patch: pytest.MonkeyPatch) -> None:
    says = children._finished

    def finished(*given: Any) -> ChildFinished:
        return msgspec.structs.replace(says(*given), used=None)

    patch.setattr(children, "_finished", finished)


def keeps_the_escrow_of_those_below(patch: pytest.MonkeyPatch) -> None:
    """A child that is stopped before its own children says that all that was set aside for them is used."""
    says = children._finished

    def finished(state: State, *given: Any) -> ChildFinished:
        end, held = says(state, *given), children._held_below(state)
        used = msgspec.structs.replace(end.used, turns=end.used.turns + held.turns) if end.used else None
        return msgspec.structs.replace(end, used=used, held=None)

    patch.setattr(children, "_finished", finished)
    dropped(patch, "settled:")


def never_settles(patch: pytest.MonkeyPatch) -> None:
    dropped(patch, "settled:")


def inherits_an_approval(patch: pytest.MonkeyPatch) -> None:
    """A child may do what its parent may do, as if whoever approved that had approved this."""
    narrows = specialists.narrowed

    def narrowed(*given: Any, **more: Any) -> Policy:
        policy = narrows(*given, **more)
        return msgspec.structs.replace(policy, rules=tuple(rule for rule in policy.rules if rule.action != "ask"))

    patch.setattr(specialists, "narrowed", narrowed)


def tells_an_end_twice(patch: pytest.MonkeyPatch) -> None:
    steers = queue.steer

    def steer(state: State, told: queue.Input, **more: Any) -> None:
        for _ in range(1 + (told.part == "child")):
            steers(state, told, **more)

    patch.setattr(queue, "steer", steer)


def dropped(patch: pytest.MonkeyPatch, kind: str) -> None:
    """Messages of a kind are lost on their way."""
    derives = tells.messages

    def messages(*given: Any) -> list[Send]:
        return [send for send in derives(*given) if not send.command.command_id.startswith(kind)]

    patch.setattr(owner, "messages", messages)


def does_not_pass_a_stop_on(patch: pytest.MonkeyPatch) -> None:
    dropped(patch, "stop:")


def loses_an_end(patch: pytest.MonkeyPatch) -> None:
    dropped(patch, "finished:")


def ignores_the_slice(patch: pytest.MonkeyPatch) -> None:
    inherits = specialists.inherited

    def inherited(*given: Any) -> SessionOptions:
        return msgspec.structs.replace(inherits(*given), limits=None)

    patch.setattr(session_children, "inherited", inherited)


@pytest.mark.parametrize(
    ("plant", "rule"),
    [
        (starts_a_child_twice, "a child is started by its parent"),
        (never_returns_the_escrow, "what a child did not use goes back"),
        (keeps_the_escrow_of_those_below, "what a child did not use goes back"),
        (never_settles, "is not settled"),
        (inherits_an_approval, "no approval is inherited"),
        (tells_an_end_twice, "an end is told once"),
        (does_not_pass_a_stop_on, "a stop reaches the child"),
        (loses_an_end, "no end is lost"),
        (ignores_the_slice, "a child goes by its slice"),
    ],
    ids=lambda given: given.__name__ if callable(given) else "",
)
def test_a_planted_bug_of_trees_is_found(plant, rule, monkeypatch):
    plant(monkeypatch)
    failure = first_failure(STOPPED_DEEP if plant in (keeps_the_escrow_of_those_below, never_settles) else 0)
    assert f"windlass sim {failure.seed} --trees --trace" in str(failure)
    assert rule in str(failure)
