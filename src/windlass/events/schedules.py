"""Schedules: times at which something begins, the occurrences that came of them, and what became of each."""

from __future__ import annotations

from typing import ClassVar, Literal

from .base import Category, Command, Decision, Fact, Nat

ScheduleAction = Literal["pause", "resume", "remove", "run_now"]


class ScheduleReceived(Command, frozen=True, kw_only=True, tag="schedule.received"):
    """Somebody wants a schedule to pause, go on, end, or begin an occurrence now."""

    action: ScheduleAction


class ScheduleComputed(Fact, frozen=True, kw_only=True, tag="schedule.computed"):
    """The host has worked out which times of a schedule have come, and which is the next. Time zones and calendars are
    its affair."""

    since_ms: Nat
    """Up to when it had been worked out before."""
    until_ms: Nat
    due: tuple[Nat, ...] = ()
    """The newest times that have come since then, the oldest first."""
    missed: Nat = 0
    """How many came before those."""
    next_ms: Nat | None = None
    """None if there is none any more."""


class OccurrenceStarted(Decision, frozen=True, kw_only=True, tag="occurrence.started"):
    """A time has come, and something begins: once, under ids that are derived from the time."""

    CATEGORY: ClassVar[Category] = "proc"
    occurrence_id: str
    at_ms: Nat
    """The time that has come; what it was planned for, not when it was noticed."""


class OccurrenceSkipped(Decision, frozen=True, kw_only=True, tag="occurrence.skipped"):
    """Times came for which nothing begins: they were missed, or too many occurrences wait already."""

    CATEGORY: ClassVar[Category] = "proc"
    count: Nat
    until_ms: Nat
    """The last of them."""
    reason: Literal["misfire", "full"]


class OccurrenceDelivered(Fact, frozen=True, kw_only=True, tag="occurrence.delivered"):
    """What became of an occurrence: something was begun, the one before was still at work, or it could not be begun."""

    CATEGORY: ClassVar[Category] = "proc"
    occurrence_id: str
    outcome: Literal["begun", "overlapped", "failed"]
    session_id: str = ""
    """Where it was begun."""
    note: str = ""
