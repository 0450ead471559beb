"""The rig of the property tests, unchanged, finds bugs that are planted in the kernel, within its own seed count."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest

from tests.kernel.chaos import Pair, run
from tests.kernel.test_properties import PREFIXES_EVERY, SEEDS, TICKS
from windlass.events import calls as ce
from windlass.events import runs as re_
from windlass.events import sessions as se
from windlass.events.errors import KernelError
from windlass.kernel import calls, decide, evolve, legal, runs


def found_within_the_seeds() -> str:
    """What the sweep says about the kernel as it is now; empty where it finds nothing."""
    seen: Counter[Pair] = Counter()
    for seed in range(SEEDS):
        try:
            chaos = run(seed, TICKS, seen)
            if seed % PREFIXES_EVERY == 0:
                chaos.check_prefixes()
        except (AssertionError, KernelError, LookupError) as error:
            return f"seed {seed}: {type(error).__name__}: {error}"
    return ""


def lose_a_queued_prompt(monkeypatch):
    real = evolve.EVOLVE[re_.QueueChanged]

    def arm(state, event):
        if event.operation == "queued" and state.queue:
            state.inputs.pop(int(event.prompt_ids[0][1:]))
            return
        real(state, event)

    monkeypatch.setitem(evolve.EVOLVE, re_.QueueChanged, arm)


def forget_an_outcome_of_a_batch(monkeypatch):
    real = evolve.EVOLVE[ce.ToolFinished]

    def arm(state, event):
        running = sum(call.status == "started" for call in state.calls.values())
        if running < 2:
            real(state, event)

    monkeypatch.setitem(evolve.EVOLVE, ce.ToolFinished, arm)


def skip_closing_on_interrupt(monkeypatch):
    real = calls.give_up

    def give_up(state, reason):
        decisions = list(real(state, reason))
        yield from decisions[:-1] if reason == "interrupted" and len(decisions) > 1 else decisions

    monkeypatch.setattr(calls, "give_up", give_up)


def start_again_whatever_the_contract(monkeypatch):
    def on_resumed(state, fact):
        for call in [c for c in state.calls.values() if c.status == "started" and c.epoch < state.epoch]:
            yield from decide.withdraw_inside(state, call.call_id)
            yield ce.ToolStarted(call_id=call.call_id, epoch=state.epoch, attempt=call.attempt + 1)
        if isinstance(state.phase, legal.REQUESTING):
            yield from runs.try_again(state)

    monkeypatch.setitem(decide.HANDLERS, se.SessionResumed, on_resumed)


def drop_a_command_terminal(monkeypatch):
    real = runs.ended

    def ended(state, kind, stop, **more):
        terminal = real(state, kind, stop, **more)
        return msgspec.structs.replace(terminal, commands=terminal.commands[:1])

    monkeypatch.setattr(runs, "ended", ended)


def let_a_timer_fire_twice(monkeypatch):
    real = evolve.EVOLVE[re_.TimerFired]

    def arm(state, event):
        timer = state.timers[event.timer_id]
        real(state, event)
        if timer.kind == "wait":
            state.timers[event.timer_id] = timer

    monkeypatch.setitem(evolve.EVOLVE, re_.TimerFired, arm)


def change_the_state_before_refusing(monkeypatch):
    real = decide.CHECKS[ce.ToolFinished]

    def check(state, fact):
        state.answered[fact.call_id] = "looked at"
        real(state, fact)

    monkeypatch.setitem(decide.CHECKS, ce.ToolFinished, check)


def decide_by_something_that_is_not_in_the_log(monkeypatch):
    asked = Counter[str]()
    real = decide.HANDLERS[re_.WakeReceived]

    def on_wake(state, fact):
        asked["wakes"] += 1
        if asked["wakes"] % 7 == 0 and not state.active:
            yield runs.done(fact.command_id, "not this time")
        else:
            yield from real(state, fact)

    monkeypatch.setitem(decide.HANDLERS, re_.WakeReceived, on_wake)


FAULTS = [
    lose_a_queued_prompt,
    forget_an_outcome_of_a_batch,
    skip_closing_on_interrupt,
    start_again_whatever_the_contract,
    drop_a_command_terminal,
    let_a_timer_fire_twice,
    change_the_state_before_refusing,
    decide_by_something_that_is_not_in_the_log,
]


@pytest.mark.parametrize("plant", FAULTS, ids=lambda plant: plant.__name__)
def test_the_sweep_finds(plant, monkeypatch):
    plant(monkeypatch)
    found = found_within_the_seeds()
    print(found)
    assert found, f"{plant.__name__} was not found in {SEEDS} seeds"
