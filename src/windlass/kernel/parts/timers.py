"""Timers: a time at which something is to happen. The agent sets one to wait; a retry is a timer too.

timer.set, retry.planned ──▶ open ──▶ timer.fired       the run begins, or the next attempt is made
                                 └──▶ timer.cancelled   woken, superseded, cancelled, not carried over
                                 └──▶ (the run ended: a retry is of no use to it)
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal

import msgspec

from windlass.events.errors import Refused
from windlass.events.runs import RunAsked, RunCancelled, RunCompleted, RunFailed, RunInterrupted, Terminal
from windlass.events.timers import TimerCancelled, TimerFired, TimerSet
from windlass.kernel import parts
from windlass.kernel.effects import SetTimer
from windlass.kernel.part import Decisions, Open, Part, Row, Why
from windlass.kernel.parts import children, queue, retries, runs
from windlass.kernel.parts.trees import child_side
from windlass.kernel.phases import STARTED, Asked, Asleep, BackingOff, Idle

if TYPE_CHECKING:
    from windlass.kernel.state import State


TIMERS_MAX = 64

WOKEN = ("computing", "returned")
"""Where a machine is whose time has come."""

TimerKind = Literal["wait", "retry", "schedule", "node", "machine"]


class Timer(msgspec.Struct, kw_only=True, gc=False):
    """A time at which something is to happen."""

    timer_id: str
    at_ms: int
    kind: TimerKind
    seq: int


class Timers(msgspec.Struct, kw_only=True, gc=False):
    """The timers that are set."""

    open: dict[str, Timer] = {}


def put(state: State, timer_id: str, at_ms: int, kind: TimerKind) -> None:
    """Sets a timer with the event being folded now."""
    state.timers.open[timer_id] = Timer(timer_id=timer_id, at_ms=at_ms, kind=kind, seq=state.seq)


def drop(state: State, timer_id: str) -> None:
    """Takes a timer away that nobody waits for any more; it may be gone."""
    state.timers.open.pop(timer_id, None)


def of_kind(state: State, kind: TimerKind) -> list[Timer]:
    """The timers that the agent set itself (`wait`), or that a failed request waits for (`retry`)."""
    return [timer for timer in state.timers.open.values() if timer.kind == kind]


def first_due(state: State) -> Timer | None:
    """The timer that fires first."""
    return min(state.timers.open.values(), key=lambda timer: (timer.at_ms, timer.seq), default=None)


def timer_set(state: State, event: TimerSet) -> None:
    put(state, event.timer_id, event.at_ms, event.kind)


def timer_fired(state: State, event: TimerFired) -> None:
    timer = state.timers.open.pop(event.timer_id)
    if timer.kind == "wait":
        queue.tell(state, "timer")


def timer_cancelled(state: State, event: TimerCancelled) -> None:
    timer = state.timers.open.pop(event.timer_id)
    if timer.kind == "wait" and event.reason == "woken":
        queue.tell(state, "woken")
    if isinstance(state.phase, Asleep) and not state.timers.open and children.next_wake_ms(state) is None:
        state.phase = Idle()


def run_ended(state: State, event: Terminal) -> None:
    for timer in of_kind(state, "retry"):
        del state.timers.open[timer.timer_id]


def check_fired(state: State, fact: TimerFired) -> None:
    if fact.timer_id not in state.timers.open:
        raise Refused("stale", f"timer {fact.timer_id} is not set")


def on_fired(state: State, fact: TimerFired) -> Decisions:
    if child_side.has_ended(state):
        return  # its parent has booked what it used: nothing begins in it any more
    if isinstance(state.phase, BackingOff) and fact.timer_id == state.phase.timer_id:
        yield from retries.try_again(state)
    elif not state.active and (state.flow.expired or (state.flow.ready and isinstance(state.phase, Asleep | Asked))):
        yield from runs.begin(state, "timer", continues=True)
    elif not state.active and state.machine.status in WOKEN:
        if not parts.awaits_somebody(state):
            yield from runs.begin(state, "machine", continues=isinstance(state.phase, Asleep | Asked))
    elif not state.active and state.schedule.plan is None and not parts.awaits_somebody(state):
        yield from runs.begin(state, "timer", continues=isinstance(state.phase, Asleep | Asked))


def cancel_all(state: State) -> Decisions:
    """Cancels every timer of a session at rest."""
    for timer in list(state.timers.open.values()):
        yield TimerCancelled(timer_id=timer.timer_id, reason="cancelled")


def stop(state: State, why: Why) -> Decisions:
    """A prompt in place of what is open leaves the timers that wait."""
    if why == "superseded":
        return
    reason: Literal["cancelled", "not_carried_over"] = "cancelled"
    if why == "not_carried_over":
        reason = "not_carried_over"
    for timer in of_kind(state, "wait"):
        yield TimerCancelled(timer_id=timer.timer_id, reason=reason)


def owes(state: State) -> Iterable[SetTimer]:
    return [
        SetTimer(effect_id=timer.timer_id, timer_id=timer.timer_id, at_ms=timer.at_ms, kind=timer.kind)
        for timer in state.timers.open.values()
    ]


def opens(state: State) -> Iterable[Open]:
    return [
        Open(kind="timer", open_id=timer.timer_id, by="time", seq=timer.seq, at_ms=timer.at_ms)
        for timer in state.timers.open.values()
    ]


PART = Part(
    name="timers",
    facts={TimerFired: Row(when=STARTED, check=check_fired, fold=timer_fired, then=on_fired)},
    decisions={TimerSet: timer_set, TimerCancelled: timer_cancelled},
    hears=dict.fromkeys((RunCompleted, RunFailed, RunCancelled, RunInterrupted, RunAsked), run_ended),
    stop=stop,
    keeps=lambda state: state.timers.open,
    owes=owes,
    opens=opens,
)
