"""Schedules: a session whose work is to begin other work at its times. It has a log and no conversation.

session.started ──▶ (the host works out the times) ──▶ schedule.computed ──▶ a timer for the next one
timer fired ──▶ (the host works out what has come) ──▶ schedule.computed ──▶ occurrence.started | .skipped
occurrence.started ──▶ (the host begins it, under derived ids) ──▶ occurrence.delivered
schedule.received ──▶ paused | active | removed;  run_now ──▶ occurrence.started
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal

import msgspec

from windlass.events.base import Command, Fact
from windlass.events.changes import ChangeReceived
from windlass.events.errors import Refused
from windlass.events.schedules import (
    OccurrenceDelivered,
    OccurrenceSkipped,
    OccurrenceStarted,
    ScheduleComputed,
    ScheduleReceived,
)
from windlass.events.sessions import SessionForked, SessionImported, SessionStarted
from windlass.events.timers import TimerCancelled, TimerFired
from windlass.events.values.plans import SchedulePlan
from windlass.kernel.effects import BeginOccurrence, ComputeTimes
from windlass.kernel.part import Decisions, Open, Part, Row
from windlass.kernel.parts import queue, timers
from windlass.kernel.phases import STARTED

if TYPE_CHECKING:
    from windlass.kernel.state import State

OPEN_MAX = 16
"""How many occurrences may wait to be begun."""

TAKES: frozenset[type[Fact]] = frozenset({ScheduleReceived, ChangeReceived})
"""The commands that a schedule takes; whatever else is said to an agent. What the host reports is taken."""


class Occurrence(msgspec.Struct, kw_only=True, gc=False):
    """A time that has come, until what it begins has begun."""

    occurrence_id: str
    at_ms: int
    seq: int


class Schedule(msgspec.Struct, kw_only=True, gc=False):
    """The plan, how far it has been worked out, and what is being begun. Blank in a session of an agent."""

    plan: SchedulePlan | None = None
    status: Literal["active", "paused", "removed"] = "active"
    since_ms: int = 0
    """Up to when the times have been worked out."""
    next_ms: int | None = None
    timer_id: str = ""
    over: bool = False
    """Whether no time is left."""
    open: dict[str, Occurrence] = {}
    last: str = ""
    """The session that the last occurrence was begun in."""
    begun: int = 0
    skipped: int = 0


# --- fold ---------------------------------------------------------------------------------------------------------


def session_started(state: State, event: SessionStarted) -> None:
    plan = event.setup.schedule
    if plan is not None:
        since = max(state.now_ms, plan.start_ms - 1)
        state.schedule = Schedule(plan=plan, since_ms=since)


def carried_over(state: State, event: SessionForked | SessionImported) -> None:
    """A copy begins nothing of its own accord: the origin does."""
    if state.schedule.plan is not None:
        state.schedule.status = "paused"
        state.schedule.open = {}


def computed(state: State, event: ScheduleComputed) -> None:
    here = state.schedule
    here.since_ms = max(here.since_ms, event.until_ms)
    here.next_ms, here.over = event.next_ms, event.next_ms is None
    if event.next_ms is not None:
        here.timer_id = f"w{state.seq}"
        timers.put(state, here.timer_id, event.next_ms, "schedule")


def timer_fired(state: State, event: TimerFired) -> None:
    here = state.schedule
    if event.timer_id == here.timer_id:
        here.next_ms, here.timer_id = None, ""


def received(state: State, event: ScheduleReceived) -> None:
    here = state.schedule
    if event.action == "pause":
        here.status, here.next_ms = "paused", None
    elif event.action == "resume":
        here.status, here.since_ms, here.over = "active", max(state.now_ms, here.since_ms), False
    elif event.action == "remove":
        here.status, here.next_ms, here.open = "removed", None, {}


def occurrence_started(state: State, event: OccurrenceStarted) -> None:
    state.schedule.open[event.occurrence_id] = Occurrence(
        occurrence_id=event.occurrence_id, at_ms=event.at_ms, seq=state.seq
    )


def occurrence_skipped(state: State, event: OccurrenceSkipped) -> None:
    state.schedule.skipped += event.count


def delivered(state: State, event: OccurrenceDelivered) -> None:
    here = state.schedule
    del here.open[event.occurrence_id]
    if event.outcome == "begun":
        here.begun += 1
        here.last = event.session_id
    else:
        here.skipped += 1


# --- when, and what follows ---------------------------------------------------------------------------------------


def check_fact(state: State, fact: Fact) -> None:
    """Raises `Refused` for what is said to a schedule as if it were an agent."""
    if isinstance(fact, Command) and type(fact) not in TAKES:
        told = f"{state.session_id!r} is a schedule and takes no prompts: pause, resume or remove it"
        raise Refused("a_schedule", told)


def check_received(state: State, fact: ScheduleReceived) -> None:
    here = state.schedule
    if here.plan is None:
        raise Refused("no_schedule", f"{state.session_id!r} is no schedule")
    if here.status == "removed":
        raise Refused("removed", f"the schedule {state.session_id!r} was removed")
    if fact.action == "run_now" and len(here.open) >= OPEN_MAX:
        raise Refused("too_many", f"{OPEN_MAX} occurrences wait to be begun already")


def check_computed(state: State, fact: ScheduleComputed) -> None:
    if not wants_times(state) or fact.since_ms != state.schedule.since_ms:
        raise Refused("stale", "the times of this schedule are worked out already")


def check_delivered(state: State, fact: OccurrenceDelivered) -> None:
    if fact.occurrence_id not in state.schedule.open:
        raise Refused("stale", f"occurrence {fact.occurrence_id} is not open")


def on_received(state: State, fact: ScheduleReceived) -> Decisions:
    here = state.schedule
    if fact.action == "run_now":
        yield OccurrenceStarted(occurrence_id=f"n{state.seq}", at_ms=state.now_ms)
    elif fact.action != "resume" and here.timer_id in state.timers.open:
        yield TimerCancelled(timer_id=here.timer_id, reason="cancelled")
    yield queue.done(fact.command_id)


def on_computed(state: State, fact: ScheduleComputed) -> Decisions:
    plan = state.schedule.plan
    if plan is None:
        return
    late = [at for at in fact.due if fact.until_ms - at > plan.grace_ms]
    timely = list(fact.due[len(late) :])
    made_up = made_up_for(plan, late, timely)
    missed = fact.missed + len(late) - len(made_up)
    if missed:
        skipped = [at for at in late if at not in made_up]
        last = skipped[-1] if skipped else (fact.due[0] if fact.due else fact.until_ms)
        yield OccurrenceSkipped(count=missed, until_ms=last, reason="misfire")
    for at in (*made_up, *timely):
        if len(state.schedule.open) >= OPEN_MAX:
            yield OccurrenceSkipped(count=1, until_ms=at, reason="full")
        else:
            yield OccurrenceStarted(occurrence_id=f"o{at}", at_ms=at)


def made_up_for(plan: SchedulePlan, late: list[int], timely: list[int]) -> list[int]:
    """The times that were missed and get an occurrence all the same."""
    if plan.misfire == "all":
        return late[-plan.catch_up_max :]
    return late[-1:] if plan.misfire == "once" and not timely else []


def forked(state: State) -> Decisions:
    """The times of the origin are its own."""
    if state.schedule.timer_id in state.timers.open:
        yield TimerCancelled(timer_id=state.schedule.timer_id, reason="not_carried_over")


# --- what is open -------------------------------------------------------------------------------------------------


def wants_times(state: State) -> bool:
    """Whether the host is to say what has come and what comes next."""
    here = state.schedule
    return here.plan is not None and here.status == "active" and here.next_ms is None and not here.over


def owes(state: State) -> Iterable[ComputeTimes | BeginOccurrence]:
    here = state.schedule
    if here.plan is None:
        return ()
    effects: list[ComputeTimes | BeginOccurrence] = []
    if wants_times(state):
        effects.append(ComputeTimes(effect_id=f"times:{here.since_ms}", since_ms=here.since_ms))
    for each in here.open.values():
        effects.append(
            BeginOccurrence(effect_id=each.occurrence_id, occurrence_id=each.occurrence_id, at_ms=each.at_ms)
        )
        if here.plan.overlap != "allow":
            break  # one after the other: whether the one before is still at work is asked of each
    return effects


def opens(state: State) -> Iterable[Open]:
    return [
        Open(kind="occurrence", open_id=each.occurrence_id, by="us", seq=each.seq)
        for each in state.schedule.open.values()
    ]


PART = Part(
    name="schedules",
    facts={
        ScheduleReceived: Row(when=STARTED, check=check_received, fold=received, then=on_received),
        ScheduleComputed: Row(when=STARTED, check=check_computed, fold=computed, then=on_computed),
        OccurrenceDelivered: Row(when=STARTED, check=check_delivered, fold=delivered),
    },
    decisions={OccurrenceStarted: occurrence_started, OccurrenceSkipped: occurrence_skipped},
    hears={
        SessionStarted: session_started,
        TimerFired: timer_fired,
        SessionForked: carried_over,
        SessionImported: carried_over,
    },
    keeps=lambda state: state.schedule.plan,
    owes=owes,
    opens=opens,
    forked=forked,
)
