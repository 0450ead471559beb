"""Timers: set, fired, cancelled."""

from __future__ import annotations

from typing import Literal

from .base import Decision, Fact, Nat


class TimerSet(Decision, frozen=True, kw_only=True, tag="timer.set"):
    """Something is to happen at a time."""

    timer_id: str
    at_ms: Nat
    kind: Literal["wait"]
    note: str = ""


class TimerFired(Fact, frozen=True, kw_only=True, tag="timer.fired"):
    """The time of a timer has come. One that fires twice counts once."""

    timer_id: str


class TimerCancelled(Decision, frozen=True, kw_only=True, tag="timer.cancelled"):
    """A timer will not fire."""

    timer_id: str
    reason: Literal["cancelled", "superseded", "not_carried_over", "woken"]
