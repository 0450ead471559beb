"""Worlds of state machines: no rule is broken in any, the hard places are reached, and planted bugs are found."""

from __future__ import annotations

from typing import Any

import pytest

from windlass.events.trees.machines import MachineEnded
from windlass.events.values.machines import MachineState
from windlass.kernel.parts import timers
from windlass.kernel.parts.machines import machine_tools, program, states
from windlass.kernel.parts.tools import dispatch
from windlass.kernel.state import State

from .worlds import first_failure, not_reached, places_of

WORLDS = 20
CHUNK = 10
WORLDS_MAX = 400
LONG_WORLDS = 2_000
HARD_PLACES = (
    *("entered_agent_by_rule", "entered_script_by_agent", "entered_script_by_rule", "entered_poll_by_rule"),
    *("entered_park_by_rule", "entered_timer_by_rule", "entered_terminal_by_rule", "entered_agent_by_person"),
    *("slept_in_poll", "slept_in_timer", "machine_woke", "prompt_while_asleep"),
    *("left_script_done", "left_script_failed", "left_poll_done", "left_timer_done", "left_park_done"),
    *("machine_interrupted_in_park", "machine_interrupted_in_script", "machine_interrupted_in_poll"),
    *("machine_reactivated", "machine_created_by_agent", "machine_completed", "machine_failed", "machine_cancelled"),
    *("crash_tool_open", "crash_in_append_kept", "crash_in_append_lost", "two_owners", "clock_jump_over_timer"),
)


@pytest.mark.parametrize("first", range(0, WORLDS, CHUNK))
def test_no_world_of_machines_breaks_a_rule(first):
    assert places_of("machines", first, first + CHUNK)["machine_created_by_person"]


def test_every_hard_place_of_machines_was_reached():
    assert not_reached("machines", HARD_PLACES, most=WORLDS_MAX) == []


@pytest.mark.long
def test_two_thousand_worlds_of_machines_break_no_rule():
    found = places_of("machines", WORLDS, WORLDS + LONG_WORLDS)
    assert [place for place in (*HARD_PLACES, "left_timer_failed", "machine_woken") if not found[place]] == []


def runs_a_script_again_after_a_crash(patch: pytest.MonkeyPatch) -> None:
    says = dispatch.terms

    def terms(call: Any, spec: Any) -> Any:
        contract, settle = says(call, spec)
        return ("idempotent" if call.state else contract), settle

    patch.setattr(dispatch, "terms", terms)


def lets_the_agent_pass_a_park(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(machine_tools, "is_parked", lambda state: False)


def goes_where_nothing_leads(patch: pytest.MonkeyPatch) -> None:
    """A state that did not end well is followed by any other one."""
    follows = program._follows

    def follow(spec: MachineState, allowed: Any, well: bool, choice: str) -> str:
        return follows(spec, allowed, well, choice) if well else "merge"

    patch.setattr(program, "_follows", follow)


def forgets_its_timers(patch: pytest.MonkeyPatch) -> None:
    puts = timers.put

    def put(state: State, timer_id: str, at_ms: int, kind: Any, **more: Any) -> None:
        if kind != "machine":
            puts(state, timer_id, at_ms, kind, **more)

    patch.setattr(timers, "put", put)


def sets_its_timers_too_early(patch: pytest.MonkeyPatch) -> None:
    puts = timers.put

    def put(state: State, timer_id: str, at_ms: int, kind: Any, **more: Any) -> None:
        puts(state, timer_id, at_ms - 5_000 if kind == "machine" else at_ms, kind, **more)

    patch.setattr(timers, "put", put)


def ends_otherwise_than_it_says(patch: pytest.MonkeyPatch) -> None:
    def end(state: State, outcome: Any, reason: str = "") -> Any:
        machine = state.machine
        yield MachineEnded(state=machine.current, visit=machine.visit, outcome="completed", reason=reason)

    patch.setattr(program, "end", end)


def stays_where_it_was_when_a_task_is_complete(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(states, "GOES_ON", ())


@pytest.mark.parametrize(
    ("plant", "rule"),
    [
        (runs_a_script_again_after_a_crash, "at most once"),
        (lets_the_agent_pass_a_park, "only a person passes a park"),
        (goes_where_nothing_leads, "a state follows that may"),
        (forgets_its_timers, "not at an end"),
        (sets_its_timers_too_early, "a timer does not fire early"),
        (ends_otherwise_than_it_says, "an end ends as it says"),
        (stays_where_it_was_when_a_task_is_complete, "not at an end"),
    ],
    ids=lambda given: given.__name__ if callable(given) else "",
)
def test_a_planted_bug_of_machines_is_found(plant, rule, monkeypatch):
    plant(monkeypatch)
    failure = first_failure("machines")
    assert f"windlass sim {failure.seed} --machines --trace" in str(failure)
    assert rule in str(failure)
