"""Calls of tools and what holds them up, as events."""

from __future__ import annotations

from collections.abc import Iterator

from windlass.adapters.meerkat.codec import agent_events as told
from windlass.adapters.meerkat.codec.agent_events import AgentEvent
from windlass.adapters.meerkat.codec.content import ContentBlock, TextBlock, text_of
from windlass.events.base import Event
from windlass.events.questions import AnswerReceived, QuestionRequested, QuestionWithdrawn
from windlass.events.tools.calls import (
    ResultReceived,
    ToolCancelled,
    ToolDelegated,
    ToolDenied,
    ToolFinished,
    ToolOutcomeUnknown,
    ToolRequested,
    ToolResolved,
    ToolSettled,
    ToolStarted,
    ToolSuspended,
    ToolTimedOut,
)
from windlass.events.tools.jobs import JobStarted
from windlass.events.tools.permissions import (
    PermissionApproved,
    PermissionDenied,
    PermissionRequested,
    PermissionWithdrawn,
)
from windlass.events.trees.children import ChildFinished, ChildOpened, ChildStarted
from windlass.runtime.streams.record import Record

from .content_forms import blocks_of
from .fold import Called, Fold, Form


def requested(fold: Fold, record: Record, event: ToolRequested) -> Iterator[AgentEvent]:
    """Arguments that are no object are not told: a text of a tool that takes one stands under `text`."""
    body = event.body
    args = body.args if body is not None else None
    if args is None:
        args = {"text": body.text} if body is not None and body.text is not None else {}
    fold.calls[event.call_id] = Called(event.tool, args)
    yield told.ToolCallRequested(id=event.call_id, name=event.tool, args=args)


def began(
    fold: Fold, record: Record, event: ToolStarted | ToolDelegated | ChildStarted | QuestionRequested
) -> Iterator[AgentEvent]:
    """The beginning of a call, told once. A client that is to carry it out is waited for."""
    call = fold.calls.get(event.call_id)
    if call is not None and not call.began:
        call.began = True
        yield told.ToolExecutionStarted(id=event.call_id, name=call.tool)
    if isinstance(event, ToolDelegated):
        fold.asked[event.call_id] = event.call_id
    elif isinstance(event, QuestionRequested):
        fold.asked[event.question_id] = event.call_id


def ended(
    fold: Fold, call_id: str, content: tuple[ContentBlock, ...], ok: bool, duration_ms: int = 0
) -> Iterator[AgentEvent]:
    """The one result of a call. One that never began was not carried out."""
    call = fold.calls.pop(call_id, None)
    if call is None:
        return
    fold.asked = {name: held for name, held in fold.asked.items() if held != call_id}
    if call.began:
        yield told.ToolExecutionCompleted(
            id=call_id,
            name=call.tool,
            result=text_of(content),
            content=content,
            is_error=not ok,
            duration_ms=duration_ms,
        )
    yield told.ToolResultReceived(id=call_id, name=call.tool, content=content, is_error=not ok)


def words(text: str) -> tuple[ContentBlock, ...]:
    return (TextBlock(text=text),)


def finished(fold: Fold, record: Record, event: ToolFinished) -> Iterator[AgentEvent]:
    content = blocks_of(event.body.content) if event.body is not None else ()
    yield from ended(fold, event.call_id, content, event.ok, event.duration_ms)


def received(fold: Fold, record: Record, event: ResultReceived | ChildFinished) -> Iterator[AgentEvent]:
    content = blocks_of(event.body.content) if event.body is not None else ()
    yield from ended(fold, event.call_id, content, event.ok)


def resolved(fold: Fold, record: Record, event: ToolResolved) -> Iterator[AgentEvent]:
    yield from ended(fold, event.call_id, words(event.text), event.ok)


def denied(fold: Fold, record: Record, event: ToolDenied) -> Iterator[AgentEvent]:
    yield from ended(fold, event.call_id, words(event.detail or f"denied: {event.reason}"), False)


def cancelled(fold: Fold, record: Record, event: ToolCancelled) -> Iterator[AgentEvent]:
    yield from ended(fold, event.call_id, words(f"given up: {event.reason}"), False)


def timed_out(fold: Fold, record: Record, event: ToolTimedOut) -> Iterator[AgentEvent]:
    call = fold.calls.get(event.call_id)
    if call is not None:
        yield told.ToolExecutionTimedOut(id=event.call_id, name=call.tool, timeout_ms=event.timeout_ms)
        call.began = False  # its end is told by the line above
    if event.settle:
        fold.asked[event.call_id] = event.call_id
    else:
        yield from ended(fold, event.call_id, words(f"no result within {event.timeout_ms} ms"), False)


def unknown(fold: Fold, record: Record, event: ToolOutcomeUnknown) -> Iterator[AgentEvent]:
    if event.settle:
        fold.asked[event.call_id] = event.call_id
    else:
        yield from ended(fold, event.call_id, words("cut off while it ran; its outcome is not known"), False)


def settled(fold: Fold, record: Record, event: ToolSettled) -> Iterator[AgentEvent]:
    fold.asked.pop(event.call_id, None)
    if event.outcome != "run_again":
        content = blocks_of(event.body.content) if event.body is not None else words(event.outcome)
        yield from ended(fold, event.call_id, content, event.outcome == "happened")


def in_background(fold: Fold, record: Record, event: JobStarted | ChildOpened) -> Iterator[AgentEvent]:
    """The call has its result; the work goes on."""
    text = "goes on in the background"
    if isinstance(event, JobStarted):
        fold.jobs[event.job_id] = (event.body.title if event.body is not None else "") or event.job_id
        text = f"job {event.job_id} {text}"
    yield from ended(fold, event.call_id, words(text), True)


def held(fold: Fold, record: Record, event: PermissionRequested | ToolSuspended) -> Iterator[AgentEvent]:
    name = event.request_id if isinstance(event, PermissionRequested) else event.call_id
    fold.asked[name] = event.call_id
    yield from ()


def released(
    fold: Fold, record: Record, event: PermissionApproved | PermissionDenied | PermissionWithdrawn
) -> Iterator[AgentEvent]:
    fold.asked.pop(event.request_id, None)
    yield from ()


def replied_to(fold: Fold, record: Record, event: AnswerReceived | QuestionWithdrawn) -> Iterator[AgentEvent]:
    call_id = fold.asked.pop(event.question_id, None)
    call = fold.calls.get(call_id) if call_id is not None else None
    if call_id is None or call is None or isinstance(event, QuestionWithdrawn):
        return
    if call.tool in ("ask_user", "plan"):
        yield from ended(fold, call_id, words(event.outcome), True)


FORMS: dict[type[Event], Form] = {
    ToolRequested: requested,
    ToolStarted: began,
    ToolDelegated: began,
    ChildStarted: began,
    QuestionRequested: began,
    ToolFinished: finished,
    ResultReceived: received,
    ChildFinished: received,
    ToolResolved: resolved,
    ToolDenied: denied,
    ToolCancelled: cancelled,
    ToolTimedOut: timed_out,
    ToolOutcomeUnknown: unknown,
    ToolSettled: settled,
    JobStarted: in_background,
    ChildOpened: in_background,
    PermissionRequested: held,
    ToolSuspended: held,
    PermissionApproved: released,
    PermissionDenied: released,
    PermissionWithdrawn: released,
    AnswerReceived: replied_to,
    QuestionWithdrawn: replied_to,
}
