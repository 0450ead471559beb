"""Runs, turns and what models say, as events."""

from __future__ import annotations

from collections.abc import Iterator

from windlass.adapters.meerkat.codec import agent_events as told
from windlass.adapters.meerkat.codec import content
from windlass.adapters.meerkat.codec.agent_errors import AgentError, PlainError
from windlass.adapters.meerkat.codec.agent_events import AgentEvent
from windlass.adapters.meerkat.codec.closed_words import StopReason, TurnTerminalCauseKind, Uuid
from windlass.adapters.meerkat.codec.error_reports import report_of
from windlass.events.base import Event
from windlass.events.commands import PromptReceived
from windlass.events.runs import RunAsked, RunCancelled, RunCompleted, RunFailed, RunInterrupted, RunStarted, Terminal
from windlass.events.turns import (
    ModelFailed,
    ModelReplied,
    OutputExtracted,
    OutputFailed,
    RetryPlanned,
    TurnFinished,
    TurnStarted,
)
from windlass.events.values.blocks import GeneratedImage, Reasoning, Refusal, ServerTool, Text
from windlass.runtime.streams.record import Record

from .content_forms import prompt_of, usage_of
from .failure_forms import CAUSES, error_of, retry_failure
from .fold import Fold, Form, derived_id

STOPS: dict[str, StopReason] = {
    "stop": "end_turn",
    "tool_calls": "tool_use",
    "length": "max_tokens",
    "stop_sequence": "stop_sequence",
    "content_filter": "content_filter",
    "refusal": "content_filter",
}


def prompted(fold: Fold, record: Record, event: PromptReceived) -> Iterator[AgentEvent]:
    fold.prompts[event.command_id] = prompt_of(event.body.content) if event.body is not None else ""
    yield from ()


def run_started(fold: Fold, record: Record, event: RunStarted) -> Iterator[AgentEvent]:
    """A run that takes up an earlier one is the same run there."""
    fold.text, fold.value, fold.extracted, fold.errors, fold.warnings = "", None, False, (), ()
    if event.continues is None:
        given = [fold.prompts.pop(name) for name in event.commands if name in fold.prompts]
        yield told.RunStarted(session_id=fold.session_id, prompt=given[0] if given else "")


def turn_started(fold: Fold, record: Record, event: TurnStarted) -> Iterator[AgentEvent]:
    fold.turn = max(0, event.number - 1)
    yield told.TurnStarted(turn_number=fold.turn)


def turn_finished(fold: Fold, record: Record, event: TurnFinished) -> Iterator[AgentEvent]:
    stop = STOPS.get(event.finish, "end_turn") if event.finish is not None else "cancelled"
    yield told.TurnCompleted(stop_reason=stop, usage=usage_of(fold.usage))


def replied(fold: Fold, record: Record, event: ModelReplied) -> Iterator[AgentEvent]:
    """A reply of the conversation, block by block; those of other lanes are nobody's words."""
    if event.lane != "main":
        return
    body, fold.usage = event.body, event.usage
    blocks = body.blocks if body is not None else ()
    if body is not None and body.output is not None:
        fold.value = body.output.value
    fold.text = "".join(block.text for block in blocks if isinstance(block, Text | Refusal))
    thought = "\n".join(block.text for block in blocks if isinstance(block, Reasoning) and block.text)
    if thought:
        yield told.ReasoningComplete(content=thought)
    for at, block in enumerate(blocks):
        if isinstance(block, ServerTool):
            yield told.ServerToolContent(id=block.server_call_id, name=block.name, content=block.content)
        elif isinstance(block, GeneratedImage):
            yield told.AssistantImageAppended(image=picture(fold, record, at, block))
    if fold.text:
        yield told.TextComplete(content=fold.text)


def picture(fold: Fold, record: Record, at: int, block: GeneratedImage) -> content.AssistantImage:
    """A picture that a model made. A size that nobody told is 0."""
    revised = block.revised_prompt
    return content.AssistantImage(
        image_id=derived_id("image", fold.session, record.seq, at),
        blob_ref=content.BlobRef(blob_id=block.blob.digest, media_type=block.blob.media_type),
        media_type=block.blob.media_type,
        width=block.width or 0,
        height=block.height or 0,
        revised_prompt=content.NotRequested() if revised is None else content.Revised(text=revised, source="provider"),
        meta=content.NoImageMetadata(),
    )


def model_failed(fold: Fold, record: Record, event: ModelFailed) -> Iterator[AgentEvent]:
    fold.failures[event.request_id] = event
    yield from ()


def retried(fold: Fold, record: Record, event: RetryPlanned) -> Iterator[AgentEvent]:
    failed, plan = fold.failures.pop(event.request_id, None), event.plan
    if failed is None:
        return
    schedule = content.RetrySchedule(
        failure=retry_failure(failed.failure),
        plan=content.RetryPlan(
            attempt=plan.attempt,
            max_retries=plan.attempts_max,
            computed_delay_ms=plan.computed_ms,
            selected_delay_ms=plan.chosen_ms,
            retry_after_hint_ms=plan.hint_ms,
            rate_limit_floor_applied=plan.floor_applied,
            budget_capped=plan.capped_by_budget,
        ),
    )
    yield told.Retrying(
        attempt=plan.attempt,
        max_attempts=plan.attempts_max,
        error=failed.failure.message,
        delay_ms=plan.chosen_ms,
        retry=schedule,
    )


def extracted(fold: Fold, record: Record, event: OutputExtracted) -> Iterator[AgentEvent]:
    fold.extracted, fold.warnings = True, event.warnings
    yield from ()


def not_extracted(fold: Fold, record: Record, event: OutputFailed) -> Iterator[AgentEvent]:
    fold.errors, fold.attempts = event.errors or ("no answer fits the schema",), event.attempts
    yield from ()


# --- how runs end ---------------------------------------------------------------------------------------------------


def completed(fold: Fold, record: Record, event: RunCompleted) -> Iterator[AgentEvent]:
    yield from answered(fold, event, CAUSES[event.cause] if event.cause is not None else None)


def answered(fold: Fold, event: Terminal, cause: TurnTerminalCauseKind | None) -> Iterator[AgentEvent]:
    """The run has its text; what came of a schema follows."""
    value = fold.value if fold.extracted else None
    yield told.RunCompleted(
        session_id=fold.session_id,
        result=fold.text,
        structured_output=value,
        extraction_required=fold.extracted or bool(fold.errors),
        usage=usage_of(event.usage),
        terminal_cause_kind=cause,
    )
    if fold.extracted:
        warned = tuple(content.SchemaWarning(provider="", path="", message=text) for text in fold.warnings)
        yield told.ExtractionSucceeded(
            session_id=fold.session_id, structured_output=fold.value, schema_warnings=warned or None
        )
    elif fold.errors:
        yield told.ExtractionFailed(
            session_id=fold.session_id,
            last_output=fold.text,
            attempts=fold.attempts,
            reason="; ".join(fold.errors),
        )
    for name in event.commands:
        yield told.InteractionComplete(
            interaction_id=interaction(fold, name), result=fold.text, structured_output=value
        )


def interaction(fold: Fold, command_id: str) -> Uuid:
    """What an exchange is called there."""
    return derived_id("interaction", fold.session, command_id)


def failed(fold: Fold, record: Record, event: RunFailed) -> Iterator[AgentEvent]:
    """An answer that does not fit its schema is an answer all the same."""
    if fold.errors and event.stop == "output_invalid":
        yield from answered(fold, event, CAUSES[event.cause])
    else:
        yield from broken(fold, event, error_of(event.failure, event.cause), CAUSES[event.cause])


def broken_off(fold: Fold, record: Record, event: RunInterrupted | RunCancelled) -> Iterator[AgentEvent]:
    words = "cancelled" if isinstance(event, RunCancelled) else "interrupted"
    yield from broken(fold, event, PlainError(kind="cancelled", message=f"the run was {words}"), None)


def broken(fold: Fold, event: Terminal, error: AgentError, cause: TurnTerminalCauseKind | None) -> Iterator[AgentEvent]:
    """A run without an answer."""
    report = report_of(error)
    yield told.RunFailed(
        session_id=fold.session_id,
        error_class=report.error_class,
        error=report.message,
        terminal_cause_kind=cause,
        error_report=report,
    )
    for name in event.commands:
        yield told.InteractionFailed(interaction_id=interaction(fold, name), error=report.message)


def asked(fold: Fold, record: Record, event: RunAsked) -> Iterator[AgentEvent]:
    """People or clients are waited for: each call that they hold up is told."""
    name = event.commands[0] if event.commands else event.run_id
    for call_id in dict.fromkeys(fold.asked.values()):
        call = fold.calls.get(call_id)
        if call is not None:
            yield told.InteractionCallbackPending(
                interaction_id=interaction(fold, name), tool_name=call.tool, args=call.args
            )


FORMS: dict[type[Event], Form] = {
    PromptReceived: prompted,
    RunStarted: run_started,
    TurnStarted: turn_started,
    TurnFinished: turn_finished,
    ModelReplied: replied,
    ModelFailed: model_failed,
    RetryPlanned: retried,
    OutputExtracted: extracted,
    OutputFailed: not_extracted,
    RunCompleted: completed,
    RunFailed: failed,
    RunInterrupted: broken_off,
    RunCancelled: broken_off,
    RunAsked: asked,
}
