"""Schedules in the kernel: what follows from times that have come, by the misfire policy; what is refused; a crash."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.kernel.session import Session, names
from windlass.events.errors import Refused
from windlass.events.schedules import (
    OccurrenceDelivered,
    OccurrenceSkipped,
    OccurrenceStarted,
    ScheduleComputed,
    ScheduleReceived,
)
from windlass.events.values.plans import SchedulePlan
from windlass.kernel import log
from windlass.kernel.effects import BeginOccurrence, ComputeTimes, SetTimer
from windlass.kernel.owed import overview

HOUR = 3_600_000
PLAN = SchedulePlan(every_ms=HOUR, start_ms=1_000, prompt="report")


def scheduled(**changes: Any) -> Session:
    return Session("nightly", schedule=msgspec.structs.replace(PLAN, **changes))


def computed(session: Session, until_ms: int, *due: int, next_ms: int | None = None, missed: int = 0) -> list[Any]:
    session.at_ms = max(session.at_ms, until_ms)
    since = session.state.schedule.since_ms
    return session.take(
        ScheduleComputed(since_ms=since, until_ms=until_ms, due=due, missed=missed, next_ms=next_ms or until_ms + HOUR)
    )


def steer(session: Session, action: Any) -> list[Any]:
    return session.take(ScheduleReceived(command_id=session.command(), action=action))


def begun(events: list[Any]) -> list[int]:
    return [event.at_ms for event in events if isinstance(event, OccurrenceStarted)]


def skipped(events: list[Any]) -> int:
    return sum(event.count for event in events if isinstance(event, OccurrenceSkipped))


def test_a_schedule_owes_its_times_then_a_timer_then_each_occurrence_once():
    session = scheduled()
    assert session.owed() == (ComputeTimes(effect_id="times:1000", since_ms=1_000),)
    computed(session, 1_000, next_ms=HOUR)
    timer = session.owed()
    assert timer == (SetTimer(effect_id="w2", timer_id="w2", at_ms=HOUR, kind="schedule"),)
    assert (overview(session.state).state, overview(session.state).next_wake_ms) == ("sleeping", HOUR)
    session.at_ms = HOUR
    assert names(session.fire("w2")) == ["timer.fired"]
    assert names(computed(session, HOUR, HOUR)) == ["schedule.computed", "occurrence.started"]
    name = f"o{HOUR}"
    assert BeginOccurrence(effect_id=name, occurrence_id=name, at_ms=HOUR) in session.owed()
    session.crash()
    assert [effect.effect_id for effect in session.owed() if isinstance(effect, BeginOccurrence)] == [name]
    session.take(OccurrenceDelivered(occurrence_id=name, outcome="begun", session_id="nightly~x"))
    assert [effect for effect in session.owed() if isinstance(effect, BeginOccurrence)] == []
    with pytest.raises(Refused, match="is not open"):
        session.take(OccurrenceDelivered(occurrence_id=name, outcome="begun", session_id="nightly~x"))
    assert log.verify(session.lines).problems == []


LATE = (HOUR, 2 * HOUR, 3 * HOUR)


@pytest.mark.parametrize(
    ("misfire", "timely", "starts", "skips"),
    [
        ("skip", (), (), 3),
        ("once", (), (3 * HOUR,), 2),
        ("all", (), LATE, 0),
        ("skip", (4 * HOUR,), (4 * HOUR,), 3),
        ("once", (4 * HOUR,), (4 * HOUR,), 3),
        ("all", (4 * HOUR,), (*LATE, 4 * HOUR), 0),
    ],
)
def test_times_that_were_missed_are_made_up_for_as_the_plan_says(misfire, timely, starts, skips):
    session = scheduled(misfire=misfire)
    until = timely[0] + 10 if timely else 3 * HOUR + HOUR // 2
    events = computed(session, until, *LATE, *timely)
    assert (tuple(begun(events)), skipped(events)) == (starts, skips)


def test_what_is_made_up_for_is_bounded():
    session = scheduled(misfire="all", catch_up_max=2)
    events = computed(session, 3 * HOUR + HOUR // 2, *LATE, missed=5)
    assert (tuple(begun(events)), skipped(events)) == ((2 * HOUR, 3 * HOUR), 6)


def test_occurrences_that_wait_are_bounded():
    session = scheduled(misfire="all", catch_up_max=100)
    events = computed(session, 21 * HOUR, *[n * HOUR for n in range(1, 21)])
    assert (len(begun(events)), skipped(events)) == (16, 4)


def test_the_same_times_are_not_counted_twice():
    session = scheduled()
    computed(session, 1_000, next_ms=HOUR)
    with pytest.raises(Refused, match="worked out already"):
        computed(session, HOUR, HOUR)


def test_a_paused_schedule_waits_for_nothing_and_makes_up_for_nothing():
    session = scheduled()
    computed(session, 1_000, next_ms=HOUR)
    assert names(steer(session, "pause")) == ["schedule.received", "timer.cancelled", "command.completed"]
    assert session.owed() == ()
    session.at_ms = 5 * HOUR
    steer(session, "resume")
    assert session.owed() == (ComputeTimes(effect_id=f"times:{5 * HOUR}", since_ms=5 * HOUR),)


def test_a_removed_schedule_is_over():
    session = scheduled()
    computed(session, 1_000, next_ms=HOUR)
    steer(session, "remove")
    assert session.owed() == ()
    with pytest.raises(Refused, match="was removed"):
        steer(session, "resume")


def test_an_occurrence_begins_now_if_somebody_says_so():
    session = scheduled()
    computed(session, 1_000, next_ms=HOUR)
    assert names(steer(session, "run_now")) == ["schedule.received", "occurrence.started", "command.completed"]


def test_a_schedule_takes_no_prompts_and_an_agent_no_schedule():
    session = scheduled()
    for say in (session.prompt, session.wake, session.interrupt, session.signal):
        with pytest.raises(Refused, match="is a schedule"):
            say()
    with pytest.raises(Refused, match="is no schedule"):
        steer(Session(), "pause")
