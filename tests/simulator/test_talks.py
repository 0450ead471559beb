"""Worlds in which sessions tell each other things, also across trees, and children read their parents: no rule is broken
in any, the hard places are reached, and planted bugs are found."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from windlass.events.signals import SignalReceived
from windlass.events.values.setup import SessionOptions
from windlass.kernel import parts
from windlass.kernel.parts.trees import child_side
from windlass.kernel.state import State
from windlass.runtime.bind.builtin_tools import READ_PARENT
from windlass.runtime.trees import parent_conversation, session_children, specialists
from windlass.runtime.trees.messages import Messages
from windlass.store.base import Key

from .worlds import first_failure, not_reached, places_of

WORLDS = 30
CHUNK = 10
LONG_WORLDS = 1_000
REACHED_IN = 120
HARD_PLACES = ("heard_by_a_grant", "heard_within_a_tree", "read_its_parent", "child_3_deep")
SELDOM = 1_000
"""How many worlds it may take until a grant is taken back while a message is on its way."""


@pytest.mark.parametrize("first", range(0, WORLDS, CHUNK))
def test_no_world_in_which_sessions_tell_each_other_things_breaks_a_rule(first):
    assert places_of("talks", first, first + CHUNK)["child_1_deep"]


def test_these_worlds_reach_the_hard_places():
    assert not_reached("talks", HARD_PLACES, most=REACHED_IN) == []


@pytest.mark.long
def test_a_thousand_worlds_break_no_rule_in_which_sessions_tell_each_other_things():
    assert places_of("talks", WORLDS, WORLDS + LONG_WORLDS)["heard_too_late"]


def names_no_grant(patch: pytest.MonkeyPatch) -> None:
    """A message to another tree goes there as one within a tree does."""

    async def _grant_of(*given: Any) -> str:
        return ""

    patch.setattr(Messages, "_grant_of", _grant_of)


def hears_by_a_grant_that_was_taken_back(patch: pytest.MonkeyPatch) -> None:
    """A message is not judged again when it is taken."""

    def check_said(state: State, fact: SignalReceived) -> None:
        child_side.check_going_on(state, fact)

    rows: dict[Any, Any] = parts.TABLES.facts
    patch.setitem(rows, SignalReceived, msgspec.structs.replace(rows[SignalReceived], check=check_said))


def loses_a_message(patch: pytest.MonkeyPatch) -> None:
    async def _post(*given: Any) -> None:
        """It is said to be told, and nobody has it."""

    patch.setattr(Messages, "_post", _post)


def lets_every_child_read(patch: pytest.MonkeyPatch) -> None:
    inherits = specialists.inherited

    def inherited(*given: Any) -> SessionOptions:
        return msgspec.structs.replace(inherits(*given), tools=(READ_PARENT,))

    patch.setattr(session_children, "inherited", inherited)


def reads_the_root(patch: pytest.MonkeyPatch) -> None:
    """A child three deep reads what the root saw, not what its parent did."""
    patch.setattr(parent_conversation, "Key", lambda tenant, session: Key(tenant, session.partition("~")[0]))


@pytest.mark.parametrize(
    ("plant", "rule"),
    [
        (names_no_grant, "nobody of another tree is heard without a grant"),
        (loses_a_message, "what was told is kept"),
        (lets_every_child_read, "only who was begun to reads its parent"),
        (reads_the_root, "what is read is the parent's"),
    ],
    ids=lambda given: given.__name__ if callable(given) else "",
)
def test_a_planted_bug_of_what_sessions_tell_and_read_is_found(plant, rule, monkeypatch):
    plant(monkeypatch)
    failure = first_failure("talks")
    assert f"windlass sim {failure.seed} --talks --trace" in str(failure)
    assert rule in str(failure)


@pytest.mark.long
def test_that_a_message_is_not_judged_when_it_is_taken_is_found(monkeypatch):
    hears_by_a_grant_that_was_taken_back(monkeypatch)
    assert "nobody of another tree is heard without a grant" in str(first_failure("talks", SELDOM))
