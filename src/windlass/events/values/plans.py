"""The plan of a schedule: when, what, and what is done if that does not go smoothly. Plain data."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from .attention import Urgency
from .blocks import Value

Misfire = Literal["skip", "once", "all"]
"""What is done about times that were missed: nothing, one occurrence for all of them, or one for each, bounded."""

Overlap = Literal["skip", "queue", "cancel", "allow"]
"""What is done if the occurrence before is still at work: leave this one out, wait, cancel it, or begin beside it."""


class SchedulePlan(Value, frozen=True, kw_only=True):
    """When a schedule begins something, and what. Either `cron` or `every_ms` says when."""

    cron: str | None = None
    """Five fields, as cron has them, in the time zone."""
    every_ms: Annotated[int, msgspec.Meta(gt=0)] | None = None
    """From `start_ms` on, again and again; no time zone matters."""
    timezone: str = "UTC"
    start_ms: Annotated[int, msgspec.Meta(ge=0)] = 0
    """Nothing begins before."""
    prompt: str = ""
    """What is said to the agent."""
    session: str = ""
    """The session that is told; a new one for each occurrence if empty."""
    signal: str = ""
    """The kind of the signal that is sent instead of a prompt; only to a session."""
    urgency: Urgency = "normal"
    """Of the signal."""
    misfire: Misfire = "once"
    grace_ms: Annotated[int, msgspec.Meta(ge=0)] = 60_000
    """How late a time may be noticed and still count as on time."""
    catch_up_max: Annotated[int, msgspec.Meta(gt=0, le=100)] = 10
    """How many missed times are made up for with `all`."""
    overlap: Overlap = "skip"
