"""Ephemeral events: streamed and never stored. Dropping one loses nothing; the complete fact follows.

They have no seq. `after_seq` is the last committed one, `request_id` or `call_id` the attempt they belong to, `index`
their place in it. A new attempt supersedes the old one's text.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from windlass.events.values.blocks import ResultBlock
from windlass.events.values.usage import Usage

from .base import Nat
from .hooks import HookPoint


class Live(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", omit_defaults=True):
    """Base of every ephemeral event."""

    after_seq: Nat = 0
    index: Nat = 0


class TextDelta(Live, frozen=True, kw_only=True, tag="text.delta"):
    """More text of the answer that is being written."""

    request_id: str
    text: str


class ReasoningDelta(Live, frozen=True, kw_only=True, tag="reasoning.delta"):
    """More reasoning."""

    request_id: str
    text: str


class CallDelta(Live, frozen=True, kw_only=True, tag="call.delta"):
    """A tool call is being written; its arguments are incomplete."""

    request_id: str
    ordinal: Nat
    tool: str | None = None
    fragment: str = ""


class AttemptSuperseded(Live, frozen=True, kw_only=True, tag="attempt.superseded"):
    """What was streamed for this attempt will not become an answer; forget it."""

    request_id: str
    reason: Literal["failed"]


class ToolProgressed(Live, frozen=True, kw_only=True, tag="tool.progressed"):
    """A running tool reports how far it is, or part of its output."""

    call_id: str
    message: str = ""
    content: tuple[ResultBlock, ...] = ()
    fraction: float | None = None


class HookStarted(Live, frozen=True, kw_only=True, tag="hook.started"):
    """A hook is told of a moment. What a guard or a transform rules is in the log afterwards; what an observer does is
    its own."""

    hook_id: str
    """The hook."""
    point: HookPoint
    """Where it stands."""
    kind: Literal["observe", "guard", "transform"] = "observe"
    """Whether its word counts."""
    call_id: str | None = None


class UsageReported(Live, frozen=True, kw_only=True, tag="usage.reported"):
    """How full the context is and what the session has used so far."""

    usage: Usage
    context_tokens: Nat = 0
    window_tokens: Nat = 0
    items: Nat = 0


class StorePaused(Live, frozen=True, kw_only=True, tag="store.paused"):
    """The store has no room, so the session waits; it goes on by itself when there is. Told once for each wait."""

    reason: Literal["storage_full"]
    message: str


class StreamTruncated(Live, frozen=True, kw_only=True, tag="stream.truncated"):
    """This reader was too slow: deltas were dropped, or it is being let go and may resume at `cursor`."""

    reason: Literal["deltas_dropped", "disconnected"]
    dropped: Nat = 0
    cursor: str | None = None


LIVE_EVENTS: tuple[type[Live], ...] = (
    TextDelta,
    ReasoningDelta,
    CallDelta,
    AttemptSuperseded,
    ToolProgressed,
    HookStarted,
    UsageReported,
    StorePaused,
    StreamTruncated,
)
