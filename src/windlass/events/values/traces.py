"""Trace contexts as W3C's `traceparent` writes them, and the ids of spans. Ids are derived from a session and from what
began in it, never drawn: whoever reads the same log, before or after a crash, finds the same spans."""

from __future__ import annotations

import hashlib
import re

from .blocks import Value

TRACEPARENT = re.compile(
    r"(?P<version>[0-9a-f]{2})-(?P<trace>[0-9a-f]{32})-(?P<span>[0-9a-f]{16})-(?P<flags>[0-9a-f]{2})"
)
SAMPLED = 1
WANTED = "a traceparent such as 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class TraceContext(Value, frozen=True, kw_only=True):
    """A place in somebody's trace: the trace, the span that is the parent there, and its flags."""

    trace_id: str
    span_id: str
    flags: int = SAMPLED

    @property
    def traceparent(self) -> str:
        """As it is written in a header."""
        return f"00-{self.trace_id}-{self.span_id}-{self.flags:02x}"


def trace_context(text: str) -> TraceContext | None:
    """The context in a `traceparent`; None if it is none. Of a newer version, the fields that this one has count."""
    match = TRACEPARENT.match(text)
    if match is None or match["version"] == "ff" or not int(match["trace"], 16) or not int(match["span"], 16):
        return None
    rest = text[match.end() :]
    if rest and (match["version"] == "00" or not rest.startswith("-")):
        return None
    return TraceContext(trace_id=match["trace"], span_id=match["span"], flags=int(match["flags"], 16))


def trace_id(root: str) -> str:
    """The trace of a tree of sessions that nobody brought a trace for."""
    return _derived(f"trace\n{root}", 16)


def span_id(session: str, name: str, attempt: int = 1) -> str:
    """The span of something that began in a session: a run, a request or a call, by its id."""
    return _derived(f"span\n{session}\n{name}" + (f"\n{attempt}" if attempt > 1 else ""), 8)


def inside(trace: str, root: str, session: str, name: str, attempt: int = 1) -> TraceContext:
    """The context of what a run does: in the trace that was brought for the run, else in that of its tree."""
    brought = trace_context(trace)
    return TraceContext(
        trace_id=brought.trace_id if brought is not None else trace_id(root),
        span_id=span_id(session, name, attempt),
        flags=brought.flags if brought is not None else SAMPLED,
    )


def _derived(text: str, size: int) -> str:
    return hashlib.blake2b(text.encode(), digest_size=size, person=b"windlass").hexdigest()
