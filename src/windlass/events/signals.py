"""Signals from the outside world, and what became of each."""

from __future__ import annotations

from typing import ClassVar, Literal

from windlass.events.values.attention import Busy, Urgency
from windlass.events.values.blocks import JsonObject, Value

from .base import Category, Command, Decision, Nat


class SignalBody(Value, frozen=True, kw_only=True):
    """What a signal carries."""

    payload: JsonObject = {}
    text: str = ""


class SignalReceived(Command, frozen=True, kw_only=True, tag="signal.received"):
    """Something outside happened that the agent may care about."""

    kind: str
    source: str = ""
    urgency: Urgency = "normal"
    dedupe_key: str | None = None
    tokens: Nat = 0
    labels: tuple[str, ...] = ()
    """What it is marked with."""
    trace: str = ""
    """The sender's trace context, as a `traceparent`."""
    grant: str = ""
    """The standing grant by which a session of another tree says it; empty for all others."""
    body: SignalBody | None = None


Disposition = Literal["interrupt", "run", "steer", "queued", "observed", "duplicate", "dropped"]
"""What became of a signal: it cut off what was under way, began a run, brings the next turn, waits for a turn, is shown
beside the task, had come before, or was let go."""


class SignalDisposed(Decision, frozen=True, kw_only=True, tag="signal.disposed"):
    """What was done with a signal. One that waited and was let go for a more urgent one is disposed of once more."""

    CATEGORY: ClassVar[Category] = "ipc"
    signal_id: str
    disposition: Disposition
    busy: Busy | None = None
    """What the session was busy with, by which the table was read."""
