"""How a call ended if no result of its tool tells it: denied, given up, too late, settled. For protocols in which each
call has one end, with words for it."""

from __future__ import annotations

from typing import NamedTuple, assert_never

from windlass.events.tools.calls import (
    ResultBody,
    ToolCancelled,
    ToolDenied,
    ToolOutcomeUnknown,
    ToolResolved,
    ToolSettled,
    ToolTimedOut,
)
from windlass.events.tools.jobs import JobStarted
from windlass.events.values.blocks import plain_text

AnyEnd = ToolResolved | ToolDenied | ToolTimedOut | ToolCancelled | ToolOutcomeUnknown | ToolSettled | JobStarted
ENDS: tuple[type[AnyEnd], ...] = (
    ToolResolved,
    ToolDenied,
    ToolTimedOut,
    ToolCancelled,
    ToolOutcomeUnknown,
    ToolSettled,
    JobStarted,
)
SETTLED = {"happened": "a person says that it happened", "did_not_happen": "a person says that it did not happen"}


class CallEnd(NamedTuple):
    """The end of a call."""

    call_id: str
    ok: bool
    text: str
    code: str | None = None
    body: ResultBody | None = None


def call_end(event: AnyEnd) -> CallEnd | None:
    """The end that an event tells; None if the call goes on, or waits for a person to say how it ended."""
    name = event.call_id
    match event:
        case ToolResolved():
            return CallEnd(name, event.ok, event.text)
        case ToolDenied():
            return CallEnd(name, False, event.detail or f"denied: {event.reason}", event.reason)
        case ToolTimedOut():
            return (
                None if event.settle else CallEnd(name, False, f"no result within {event.timeout_ms} ms", "timed_out")
            )
        case ToolCancelled():
            return CallEnd(name, False, f"given up: {event.reason}", event.reason)
        case ToolOutcomeUnknown():
            text = "it was cut off while it ran; nobody knows whether it happened"
            return None if event.settle else CallEnd(name, False, text, "unknown_outcome")
        case ToolSettled():
            return _settled(event)
        case JobStarted():
            body = event.body
            text = plain_text(body.content) if body is not None else f"runs as job {event.job_id}"
            return CallEnd(name, True, text)
        case _:
            assert_never(event)


def _settled(event: ToolSettled) -> CallEnd | None:
    if event.outcome == "run_again":
        return None
    text = plain_text(event.body.content) if event.body is not None else SETTLED[event.outcome]
    return CallEnd(event.call_id, event.outcome == "happened", text, body=event.body)
