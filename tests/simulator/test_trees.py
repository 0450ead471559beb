"""Worlds of trees: no rule is broken in any, the hard places are reached, and planted bugs are found."""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from typing import Any

import msgspec
import pytest

from windlass.events.trees.children import ChildFinished
from windlass.events.values.policy import Policy
from windlass.events.values.setup import Limits, SessionOptions
from windlass.kernel import outgoing_messages
from windlass.kernel.effects import StartChild
from windlass.kernel.part import Send
from windlass.kernel.parts import children, queue
from windlass.kernel.parts.trees import child_side, grants
from windlass.kernel.state import State
from windlass.runtime.owner import owner
from windlass.runtime.trees import session_children, specialists
from windlass.runtime.trees.session_children import SessionChildren
from windlass.testing.simulator import SimFailure, simulate
from windlass.testing.simulator.world import Kind

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
        found += simulate(seed, kind="trees").places
    return found


@pytest.mark.parametrize("first", range(0, WORLDS, CHUNK))
def test_no_world_of_trees_breaks_a_rule(first):
    assert places_of(first, first + CHUNK)["child_1_deep"]


@pytest.mark.long
def test_two_thousand_worlds_of_trees_break_no_rule_and_have_been_everywhere():
    found = places_of(WORLDS, WORLDS + LONG_WORLDS)
    assert [place for place in HARD_PLACES if not found[place]] == []


GRANTS = range(6, 18)
"""Worlds in which children ask for more."""
A_CHILD_ENDED_WITH_A_TIMER = 103
"""There a child failed that had set a timer: it fired, and began a run whose turn nobody booked."""


@pytest.mark.parametrize("first", [GRANTS.start, A_CHILD_ENDED_WITH_A_TIMER])
def test_no_world_in_which_children_ask_for_more_breaks_a_rule(first):
    for seed in range(first, first + len(GRANTS) if first == GRANTS.start else first + 1):
        simulate(seed, kind="grants")


@pytest.mark.long
def test_a_thousand_worlds_break_no_rule_in_which_children_are_given_more():
    found: Counter[str] = Counter()
    for seed in range(1_000):
        found += simulate(seed, kind="grants").places
    assert [place for place in ("asked_for_budget", "granted_1_deep", "granted_2_deep") if not found[place]] == []


def first_failure(first: int, kind: Kind = "trees") -> SimFailure:
    """What the first seed that finds something wrong says."""
    for seed in range(first, first + SEEDS_MAX):
        try:
            simulate(seed, kind=kind)
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
    says = child_side._finished

    def finished(*given: Any) -> ChildFinished:
        return msgspec.structs.replace(says(*given), used=None)

    patch.setattr(child_side, "_finished", finished)


def keeps_the_escrow_of_those_below(patch: pytest.MonkeyPatch) -> None:
    """A child that is stopped before its own children says that all that was set aside for them is used."""
    says = child_side._finished

    def finished(state: State, *given: Any) -> ChildFinished:
        end, held = says(state, *given), child_side._held_below(state)
        used = msgspec.structs.replace(end.used, turns=end.used.turns + held.turns) if end.used else None
        return msgspec.structs.replace(end, used=used, held=None)

    patch.setattr(child_side, "_finished", finished)
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
    derives = outgoing_messages.messages

    def messages(*given: Any) -> list[Send]:
        return [send for send in derives(*given) if not send.command.command_id.startswith(kind)]

    patch.setattr(owner, "messages", messages)


def does_not_pass_a_stop_on(patch: pytest.MonkeyPatch) -> None:
    dropped(patch, "stop:")


def loses_a_grant(patch: pytest.MonkeyPatch) -> None:
    dropped(patch, "granted:")


def sets_nothing_aside_for_a_grant(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(children, "set_aside_more", lambda *given: None)


def grants_what_is_not_left(patch: pytest.MonkeyPatch) -> None:
    refuses = grants.refusal

    def refusal(state: State, name: str, child: children.Child | None, more: Limits) -> str:
        return "" if child is not None and child.mode != "detached" else refuses(state, name, child, more)

    patch.setattr(grants, "refusal", refusal)


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


@pytest.mark.parametrize(
    ("plant", "rule"),
    [
        (loses_a_grant, "a grant is kept"),
        (sets_nothing_aside_for_a_grant, "a grant is set aside"),
        (grants_what_is_not_left, "nobody grants what is not left"),
    ],
    ids=lambda given: given.__name__ if callable(given) else "",
)
def test_a_planted_bug_of_grants_is_found(plant, rule, monkeypatch):
    plant(monkeypatch)
    failure = first_failure(0, "grants")
    assert f"windlass sim {failure.seed} --grants --trace" in str(failure)
    assert rule in str(failure)
