"""What is said in a session as events: prompts, turns, replies, and how runs end."""

from __future__ import annotations

from collections.abc import Iterator

from windlass.events.base import Event
from windlass.events.commands import PromptReceived, QueueChanged
from windlass.events.runs import (
    CancelReceived,
    InterruptReceived,
    RunAsked,
    RunCancelled,
    RunCompleted,
    RunFailed,
    RunInterrupted,
    RunSlept,
    RunStarted,
)
from windlass.events.turns import ModelReplied, ReplyCall, RetryPlanned, TurnFinished, TurnStarted
from windlass.events.values.blocks import JsonObject, Reasoning, Refusal, Text, plain_text
from windlass.events.values.failures import Failure
from windlass.events.values.ids import call_id, prompt_id
from windlass.runtime.streams.record import Record

from . import session_forms
from .attachment_forms import attachment_form
from .event_ids import event_id, iso_time
from .fold import Fold, Form, Said, without_none
from .session_forms import usage_of

ERROR_TYPES = {
    "auth": "authentication",
    "reauth_required": "authentication",
    "permission": "authorization",
    "quota_exhausted": "quota",
    "rate_limited": "rate_limit",
    "context_exceeded": "context_limit",
}
"""How failures are called there; the others are `query`."""


def prompted(fold: Fold, record: Record, event: PromptReceived) -> Iterator[Said]:
    fold.prompts[record.seq] = event
    yield from ()


def queue_changed(fold: Fold, record: Record, event: QueueChanged) -> Iterator[Said]:
    yield from session_forms.queue_changed(fold, record, event)
    by_id = {prompt_id(seq): seq for seq in fold.prompts}
    for name in event.prompt_ids:
        if name in by_id and event.operation == "absorbed":
            yield user_message(fold, by_id[name])
        elif name in by_id and event.operation == "dropped":
            del fold.prompts[by_id[name]]


def user_message(fold: Fold, seq: int) -> Said:
    """A prompt that the model is shown now."""
    prompt = fold.prompts.pop(seq)
    body, fold.message_id = prompt.body, prompt.command_id
    text = plain_text(body.content) if body is not None else ""
    shown = body.displayed if body is not None else None
    data = without_none(
        content=text if shown is None else shown,
        transformedContent=text if shown is not None else None,
        attachments=[attachment_form(given) for given in body.attachments] if body is not None else [],
        agentMode=fold.mode,
        messageId=prompt.command_id,
        interactionId=fold.run_id,
        source=prompt.origin.name or None,
    )
    return Said("user.message", data)


def run_started(fold: Fold, record: Record, event: RunStarted) -> Iterator[Said]:
    if event.continues is None or not fold.run_id:
        fold.run_id = event.run_id  # what a run goes on with is the same exchange
    yield from ()


def turn_started(fold: Fold, record: Record, event: TurnStarted) -> Iterator[Said]:
    for seq in event.absorbs:
        if seq in fold.prompts:
            yield user_message(fold, seq)
    yield from turn_ended(fold)
    fold.turn_id, fold.streamed_bytes = event.turn_id, 0
    yield Said("assistant.turn_start", {"turnId": event.turn_id, "interactionId": fold.run_id})


def turn_finished(fold: Fold, record: Record, event: TurnFinished) -> Iterator[Said]:
    yield from turn_ended(fold)


def turn_ended(fold: Fold) -> Iterator[Said]:
    """The end of the turn that is open, if one is."""
    if fold.turn_id:
        yield Said("assistant.turn_end", {"turnId": fold.turn_id})
        fold.turn_id = ""


def replied(fold: Fold, record: Record, event: ModelReplied) -> Iterator[Said]:
    blocks = event.body.blocks if event.body is not None else ()
    said = "".join(block.text for block in blocks if isinstance(block, Text | Refusal))
    if event.lane == "main":
        yield from answered(fold, record, event, said)
    else:
        fold.summary = said
    data = without_none(
        model=event.model or fold.model,
        **usage_of(event.usage),
        duration=event.duration_ms,
        initiator="agent" if event.lane == "main" else event.lane,
        providerCallId=event.provider_request_id,
    )
    yield Said("assistant.usage", data)


def answered(fold: Fold, record: Record, event: ModelReplied, said: str) -> Iterator[Said]:
    """A reply of the conversation: its reasoning, then its words and calls."""
    body = event.body
    thoughts = [block for block in (body.blocks if body is not None else ()) if isinstance(block, Reasoning)]
    thought = "\n".join(block.text for block in thoughts if block.text)
    if thought:
        yield Said("assistant.reasoning", {"reasoningId": reasoning_id(fold, event.request_id), "content": thought})
    calls = [tool_request(record.seq, at, call) for at, call in enumerate(body.calls if body is not None else ())]
    data = without_none(
        messageId=message_id(fold, event.request_id),
        content=said,
        toolRequests=calls or None,
        reasoningText=thought or None,
        outputTokens=event.usage.output_tokens,
        originatingMessageId=fold.message_id or None,
        interactionId=fold.run_id,
        turnId=fold.turn_id or None,
        model=event.model or fold.model,
    )
    yield Said("assistant.message", data)


def message_id(fold: Fold, request_id: str) -> str:
    """What the answer to a request is called, while it is written and afterwards."""
    return event_id(fold.session_id, "message", request_id)


def reasoning_id(fold: Fold, request_id: str) -> str:
    """The same for its reasoning."""
    return event_id(fold.session_id, "reasoning", request_id)


def tool_request(seq: int, ordinal: int, given: ReplyCall) -> JsonObject:
    call = given.call
    kind = "custom" if call.text is not None else "function"
    arguments = call.args if call.args is not None else call.text
    return without_none(toolCallId=call_id(seq, ordinal), name=call.tool, arguments=arguments, type=kind)


def retried(fold: Fold, record: Record, event: RetryPlanned) -> Iterator[Said]:
    message = f"the model is asked again at {iso_time(event.at_ms)} (attempt {event.plan.attempt})"
    yield Said("session.info", {"infoType": "model", "message": message})


# --- how runs end -------------------------------------------------------------------------------------------------


def stopped(fold: Fold, record: Record, event: InterruptReceived | CancelReceived) -> Iterator[Said]:
    yield Said("abort", {"reason": "user_initiated"})


def completed(fold: Fold, record: Record, event: RunCompleted) -> Iterator[Said]:
    yield from turn_ended(fold)
    yield Said("session.idle", {})


def broken_off(fold: Fold, record: Record, event: RunInterrupted | RunCancelled) -> Iterator[Said]:
    yield from turn_ended(fold)
    yield Said("session.idle", {"aborted": True})


def failed(fold: Fold, record: Record, event: RunFailed) -> Iterator[Said]:
    yield from turn_ended(fold)
    yield error(fold, event.failure)
    yield Said("session.idle", {})


def asked(fold: Fold, record: Record, event: RunAsked) -> Iterator[Said]:
    """Somebody is waited for: the turn stays open, unless it was a provider that refused."""
    if event.failure is not None:
        yield from turn_ended(fold)
        yield error(fold, event.failure)
        yield Said("session.idle", {})


def slept(fold: Fold, record: Record, event: RunSlept) -> Iterator[Said]:
    yield from turn_ended(fold)
    if event.failure is not None:
        yield error(fold, event.failure)
    message = f"the session sleeps until {iso_time(event.wake_at_ms)}"
    yield Said("session.info", {"infoType": "timing", "message": message})
    yield Said("session.idle", {})


def error(fold: Fold, failure: Failure) -> Said:
    """Why a run could not go on."""
    data = without_none(
        errorType=ERROR_TYPES.get(failure.kind, "query"),
        message=failure.message,
        statusCode=failure.status,
        providerCallId=failure.request_id,
        originatingMessageId=fold.message_id or None,
    )
    return Said("session.error", data)


FORMS: dict[type[Event], Form] = {
    PromptReceived: prompted,
    QueueChanged: queue_changed,
    RunStarted: run_started,
    TurnStarted: turn_started,
    TurnFinished: turn_finished,
    ModelReplied: replied,
    RetryPlanned: retried,
    InterruptReceived: stopped,
    CancelReceived: stopped,
    RunCompleted: completed,
    RunInterrupted: broken_off,
    RunCancelled: broken_off,
    RunFailed: failed,
    RunAsked: asked,
    RunSlept: slept,
}
