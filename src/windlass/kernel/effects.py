"""What the world owes a session: effects, as values. The runtime performs them; the kernel only names them."""

from __future__ import annotations

from typing import Literal

from windlass.events.blocks import Value
from windlass.events.usage import Lane


class Effect(Value, frozen=True, kw_only=True, tag_field="effect"):
    """Base of every effect. Two effects with the same `effect_id` are the same effect."""

    effect_id: str


class CallModel(Effect, frozen=True, kw_only=True):
    """Send a model request and report its reply or its failure."""

    request_id: str
    lane: Lane
    attempt: int
    model: str
    output_tokens: int
    timeout_ms: int | None = None
    """What the time budgets leave, where there are any."""
    asked_seq: int | None = None
    """Where it was asked for, in the lanes aside."""


class PrepareCall(Effect, frozen=True, kw_only=True):
    """Run the hooks on a call and look up what the gate needs."""

    call_id: str
    tool: str


class RunTool(Effect, frozen=True, kw_only=True):
    """Run a tool under its idempotency key and report what it gave."""

    call_id: str
    tool: str
    attempt: int
    key: str
    timeout_ms: int


class AskPerson(Effect, frozen=True, kw_only=True):
    """Put a request before whoever may answer it, or report that nobody is there."""

    ask_id: str
    kind: Literal["permission", "question"]
    call_id: str


class AwaitClient(Effect, frozen=True, kw_only=True):
    """Hand a call to an attached client, or report that none is there."""

    call_id: str
    tool: str


class PageOut(Effect, frozen=True, kw_only=True):
    """Hand what left the history to the archive, and report that it has it."""

    paged_seq: int


class SetTimer(Effect, frozen=True, kw_only=True):
    """Report when this time has come."""

    timer_id: str
    at_ms: int
    kind: Literal["wait", "retry"]


AnyEffect = CallModel | PrepareCall | RunTool | AskPerson | AwaitClient | PageOut | SetTimer
