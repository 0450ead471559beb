"""The rig of the property tests, unchanged, finds bugs that are planted in the kernel, within its own seed count."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest

from tests.kernel.chaos import Pair, run
from tests.kernel.test_properties import PREFIXES_EVERY, SEEDS, TICKS
from windlass.events.commands import QueueChanged
from windlass.events.errors import KernelError
from windlass.events.runs import WakeReceived
from windlass.events.sessions import SessionResumed
from windlass.events.timers import TimerFired
from windlass.events.tools.calls import ToolFinished, ToolStarted
from windlass.kernel import parts
from windlass.kernel.parts import asks, queue, retries, runs
from windlass.kernel.parts.tools import calls, open_calls
from windlass.kernel.phases import REQUESTING


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


def plant_row(monkeypatch, fact, **changes):
    row = msgspec.structs.replace(parts.TABLES.facts[fact], **changes)
    monkeypatch.setitem(parts.TABLES.facts, fact, row)


def lose_a_queued_prompt(monkeypatch):
    real = parts.TABLES.fold[QueueChanged]

    def arm(state, event):
        if event.operation == "queued" and state.queue.waiting:
            state.queue.inputs.pop(int(event.prompt_ids[0][1:]))
            return
        real(state, event)

    monkeypatch.setitem(parts.TABLES.fold, QueueChanged, arm)


def forget_an_outcome_of_a_batch(monkeypatch):
    real = parts.TABLES.fold[ToolFinished]

    def arm(state, event):
        running = sum(call.status == "started" for call in state.calls.by_id.values())
        if running < 2:
            real(state, event)

    monkeypatch.setitem(parts.TABLES.fold, ToolFinished, arm)


def skip_closing_on_interrupt(monkeypatch):
    real = open_calls.stop

    def stop(state, why):
        decisions = list(real(state, why))
        yield from decisions[:-1] if why == "interrupted" and len(decisions) > 1 else decisions

    replaced = tuple(stop if found is real else found for found in parts.TABLES.stop)
    monkeypatch.setattr(parts, "TABLES", msgspec.structs.replace(parts.TABLES, stop=replaced))


def start_again_whatever_the_contract(monkeypatch):
    def on_resumed(state, fact):
        for call in [c for c in state.calls.by_id.values() if c.status == "started" and c.epoch < state.epoch]:
            yield from asks.withdraw_inside(state, call.call_id, "unknown_outcome")
            yield ToolStarted(call_id=call.call_id, epoch=state.epoch, attempt=call.attempt + 1)
        if isinstance(state.phase, REQUESTING):
            yield from retries.try_again(state)

    plant_row(monkeypatch, SessionResumed, then=on_resumed)


def drop_a_command_terminal(monkeypatch):
    real = runs.ended

    def ended(state, kind, stop, **more):
        terminal = real(state, kind, stop, **more)
        return msgspec.structs.replace(terminal, commands=terminal.commands[:1])

    monkeypatch.setattr(runs, "ended", ended)


def let_a_timer_fire_twice(monkeypatch):
    real = parts.TABLES.fold[TimerFired]

    def arm(state, event):
        timer = state.timers.open[event.timer_id]
        real(state, event)
        if timer.kind == "wait":
            state.timers.open[event.timer_id] = timer

    monkeypatch.setitem(parts.TABLES.fold, TimerFired, arm)


def change_the_state_before_refusing(monkeypatch):
    real = calls.check_running

    def check(state, fact):
        state.asks.answered[fact.call_id] = "looked at"
        real(state, fact)

    plant_row(monkeypatch, ToolFinished, check=check)


def decide_by_something_that_is_not_in_the_log(monkeypatch):
    asked = Counter[str]()
    real = runs.on_wake

    def on_wake(state, fact):
        asked["wakes"] += 1
        if asked["wakes"] % 7 == 0 and not state.active:
            yield queue.done(fact.command_id, "not this time")
        else:
            yield from real(state, fact)

    plant_row(monkeypatch, WakeReceived, then=on_wake)


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
