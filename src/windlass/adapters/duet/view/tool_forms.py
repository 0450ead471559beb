"""Calls of tools as steps: pending, running, and completed or failed."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from windlass.adapters.duet.question_forms import put
from windlass.events.base import Event
from windlass.events.questions import AnswerReceived, QuestionRequested, QuestionWithdrawn
from windlass.events.tools.calls import (
    ResultBody,
    ResultReceived,
    ToolDelegated,
    ToolFinished,
    ToolPrepared,
    ToolRequested,
    ToolStarted,
)
from windlass.events.trees.children import ChildFinished, ChildStarted
from windlass.events.values.blocks import (
    Audio,
    Data,
    Document,
    Image,
    JsonObject,
    Resource,
    ResourceLink,
    ResultBlock,
    Terminal,
    Text,
)
from windlass.kernel.render import answered
from windlass.protocol.call_ends import ENDS, AnyEnd, call_end
from windlass.runtime.streams.record import Record

from .fold import Called, Fold, Form, step, system


def requested(fold: Fold, record: Record, event: ToolRequested) -> Iterator[JsonObject]:
    args = event.body.args if event.body is not None else None
    fold.calls[event.call_id] = Called(event.tool, args)
    yield told(fold, event.call_id, "pending")


def prepared(fold: Fold, record: Record, event: ToolPrepared) -> Iterator[JsonObject]:
    call = fold.calls.get(event.call_id)
    if call is not None and event.changed and event.body is not None:
        call.args = event.body.args
        yield told(fold, event.call_id, "pending")


def told(fold: Fold, call_id: str, status: str, output: list[JsonObject] | None = None) -> JsonObject:
    """One call, as far as it is."""
    call = fold.calls[call_id]
    return step(type="tool_call", toolName=call.tool, toolCallId=call_id, status=status, input=call.args, output=output)


def began(fold: Fold, record: Record, event: ToolStarted | ToolDelegated | ChildStarted) -> Iterator[JsonObject]:
    call = fold.calls.get(event.call_id)
    if call is not None and not call.runs:
        call.runs = True
        yield told(fold, event.call_id, "running")


# --- results ------------------------------------------------------------------------------------------------------


def ended(fold: Fold, call_id: str, ok: bool, text: str, body: ResultBody | None = None) -> Iterator[JsonObject]:
    """The one end of a call."""
    if call_id in fold.calls:
        output = output_form(body.content) if body is not None else [{"type": "text", "text": text}]
        yield told(fold, call_id, "completed" if ok else "error", output)
        del fold.calls[call_id]


def output_form(blocks: tuple[ResultBlock, ...]) -> list[JsonObject]:
    """The blocks of a result, which are texts and pictures there; of a picture whose bytes lie beside the log, what it
    is."""
    forms: list[JsonObject] = []
    for block in blocks:
        match block:
            case Image(data=str() as data):
                forms.append({"type": "image", "data": data, "mimeType": block.media_type})
            case Text(text=text) | Terminal(text=text):
                forms.append({"type": "text", "text": text})
            case Data(value=value):
                forms.append({"type": "text", "text": msgspec.json.encode(value).decode()})
            case Resource(text=str() as text):
                forms.append({"type": "text", "text": text})
            case ResourceLink():
                forms.append({"type": "text", "text": f"{block.name}: {block.uri}"})
            case Image() | Audio() | Document() | Resource():
                forms.append({"type": "text", "text": f"[{block.media_type or 'bytes'}, kept beside the log]"})
    return forms


def ended_otherwise(fold: Fold, record: Record, event: AnyEnd) -> Iterator[JsonObject]:
    end = call_end(event)
    if end is not None:
        yield from ended(fold, end.call_id, end.ok, end.text, end.body)


def finished(fold: Fold, record: Record, event: ToolFinished | ResultReceived) -> Iterator[JsonObject]:
    yield from ended(fold, event.call_id, event.ok, "", event.body)


def child_finished(fold: Fold, record: Record, event: ChildFinished) -> Iterator[JsonObject]:
    yield from ended(fold, event.call_id, event.ok, event.status, event.body)


# --- questions, whose answers are results ---------------------------------------------------------------------------


def asked(fold: Fold, record: Record, event: QuestionRequested) -> Iterator[JsonObject]:
    if not event.inside:
        fold.answered_by[event.question_id] = event.call_id
    elif (ask := fold.asks.get(event.question_id)) is not None:
        # The tool waits in the middle of the turn, so no terminal puts its question.
        for text in put([ask]):
            yield system("warn", f"a tool asks, and waits for an answer to: {text}")


def replied_to(fold: Fold, record: Record, event: AnswerReceived) -> Iterator[JsonObject]:
    call_id = fold.answered_by.pop(event.question_id, None)
    if call_id is not None:
        yield from ended(fold, call_id, event.outcome != "cancelled", answered(event))


def withdrawn(fold: Fold, record: Record, event: QuestionWithdrawn) -> Iterator[JsonObject]:
    fold.answered_by.pop(event.question_id, None)
    yield from ()


FORMS: dict[type[Event], Form] = {
    ToolRequested: requested,
    ToolPrepared: prepared,
    ToolStarted: began,
    ToolDelegated: began,
    ChildStarted: began,
    **dict.fromkeys(ENDS, ended_otherwise),
    ToolFinished: finished,
    ResultReceived: finished,
    ChildFinished: child_finished,
    QuestionRequested: asked,
    AnswerReceived: replied_to,
    QuestionWithdrawn: withdrawn,
}
