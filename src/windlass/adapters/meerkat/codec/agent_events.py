"""The 35 events of Meerkat, by their names on the wire."""

from __future__ import annotations

from typing import Any, get_args

import msgspec

from .closed_words import (
    U32,
    U64,
    AgentErrorClass,
    BudgetType,
    HookPoint,
    HookReasonCode,
    JobStatus,
    StopReason,
    TurnTerminalCauseKind,
    Uuid,
    Wire,
)
from .content import AssistantImage, ContentBlock, RetrySchedule, SchemaWarning, Usage
from .error_reports import AgentErrorReport
from .skills import AnyReason, SkillKey, Unknown
from .tool_config import ToolConfigPayload


class EventBase(Wire, frozen=True, kw_only=True, tag_field="type"):
    """Base of the events."""


# --- runs -----------------------------------------------------------------------------------------------------------


class RunStarted(EventBase, frozen=True, kw_only=True, tag="run_started"):
    session_id: Uuid
    prompt: str | tuple[ContentBlock, ...]


class RunCompleted(EventBase, frozen=True, kw_only=True, tag="run_completed"):
    """The run has its answer. With `extraction_required`, one of the two events below follows."""

    session_id: Uuid
    result: str
    structured_output: Any = None
    extraction_required: bool = msgspec.field(default_factory=bool)
    usage: Usage
    terminal_cause_kind: TurnTerminalCauseKind | None = None


class ExtractionSucceeded(EventBase, frozen=True, kw_only=True, tag="extraction_succeeded"):
    session_id: Uuid
    structured_output: Any
    schema_warnings: tuple[SchemaWarning, ...] | None = None


class ExtractionFailed(EventBase, frozen=True, kw_only=True, tag="extraction_failed"):
    session_id: Uuid
    last_output: str
    attempts: U32
    reason: str


class RunFailed(EventBase, frozen=True, kw_only=True, tag="run_failed"):
    """The run could not go on. `error` shows the words of the report."""

    session_id: Uuid
    error_class: AgentErrorClass
    error: str
    terminal_cause_kind: TurnTerminalCauseKind | None = None
    error_report: AgentErrorReport | None = None


# --- hooks ----------------------------------------------------------------------------------------------------------


class HookStarted(EventBase, frozen=True, kw_only=True, tag="hook_started"):
    hook_id: str
    point: HookPoint


class HookCompleted(EventBase, frozen=True, kw_only=True, tag="hook_completed"):
    hook_id: str
    point: HookPoint
    duration_ms: U64


class HookFailed(EventBase, frozen=True, kw_only=True, tag="hook_failed"):
    hook_id: str
    point: HookPoint
    error: str


class HookDenied(EventBase, frozen=True, kw_only=True, tag="hook_denied"):
    hook_id: str
    point: HookPoint
    reason_code: HookReasonCode
    message: str
    payload: Any = None


# --- the model ------------------------------------------------------------------------------------------------------


class TurnStarted(EventBase, frozen=True, kw_only=True, tag="turn_started"):
    """The model is called; the first turn is number 0."""

    turn_number: U32


class ReasoningDelta(EventBase, frozen=True, kw_only=True, tag="reasoning_delta"):
    delta: str


class ReasoningComplete(EventBase, frozen=True, kw_only=True, tag="reasoning_complete"):
    content: str


class TextDelta(EventBase, frozen=True, kw_only=True, tag="text_delta"):
    delta: str


class TextComplete(EventBase, frozen=True, kw_only=True, tag="text_complete"):
    content: str


class ServerToolContent(EventBase, frozen=True, kw_only=True, tag="server_tool_content"):
    """What a tool gave that the provider ran."""

    id: str | None = None
    name: str
    content: Any


class AssistantImageAppended(EventBase, frozen=True, kw_only=True, tag="assistant_image_appended"):
    image: AssistantImage


class ToolCallRequested(EventBase, frozen=True, kw_only=True, tag="tool_call_requested"):
    id: str
    name: str
    args: dict[str, Any]


class ToolResultReceived(EventBase, frozen=True, kw_only=True, tag="tool_result_received"):
    """The model will see this as the result of its call."""

    id: str
    name: str
    content: tuple[ContentBlock, ...] = ()
    is_error: bool


class TurnCompleted(EventBase, frozen=True, kw_only=True, tag="turn_completed"):
    stop_reason: StopReason
    usage: Usage


# --- tools ----------------------------------------------------------------------------------------------------------


class ToolExecutionStarted(EventBase, frozen=True, kw_only=True, tag="tool_execution_started"):
    id: str
    name: str


class ToolExecutionCompleted(EventBase, frozen=True, kw_only=True, tag="tool_execution_completed"):
    """A tool gave its result; `result` shows it as text."""

    id: str
    name: str
    result: str
    content: tuple[ContentBlock, ...] = ()
    is_error: bool
    duration_ms: U64


class ToolExecutionTimedOut(EventBase, frozen=True, kw_only=True, tag="tool_execution_timed_out"):
    id: str
    name: str
    timeout_ms: U64


# --- context, budgets, retries --------------------------------------------------------------------------------------


class CompactionStarted(EventBase, frozen=True, kw_only=True, tag="compaction_started"):
    input_tokens: U64
    estimated_history_tokens: U64
    message_count: U64


class CompactionCompleted(EventBase, frozen=True, kw_only=True, tag="compaction_completed"):
    summary_tokens: U64
    messages_before: U64
    messages_after: U64


class CompactionFailed(EventBase, frozen=True, kw_only=True, tag="compaction_failed"):
    """No summary; the run goes on."""

    error: str


class BudgetWarning(EventBase, frozen=True, kw_only=True, tag="budget_warning"):
    """A limit comes near. We write `percent` as a share from 0 to 1."""

    budget_type: BudgetType
    used: U64
    limit: U64
    percent: float


class Retrying(EventBase, frozen=True, kw_only=True, tag="retrying"):
    """A request is made again. The flat fields show the plan."""

    attempt: U32
    max_attempts: U32
    error: str
    delay_ms: U64
    retry: RetrySchedule | None = None


# --- skills, interactions, the rest ---------------------------------------------------------------------------------


class SkillsResolved(EventBase, frozen=True, kw_only=True, tag="skills_resolved"):
    skills: tuple[SkillKey, ...]
    injection_bytes: U64


class SkillResolutionFailed(EventBase, frozen=True, kw_only=True, tag="skill_resolution_failed"):
    """A skill could not be had. `reference` and `error` show key and reason as text."""

    skill_key: SkillKey | None = None
    reason: AnyReason = msgspec.field(default_factory=Unknown)
    reference: str = msgspec.field(default_factory=str)
    error: str = msgspec.field(default_factory=str)


class InteractionComplete(EventBase, frozen=True, kw_only=True, tag="interaction_complete"):
    interaction_id: Uuid
    result: str
    structured_output: Any = None


class InteractionCallbackPending(EventBase, frozen=True, kw_only=True, tag="interaction_callback_pending"):
    """Somebody outside must answer before it goes on."""

    interaction_id: Uuid
    tool_name: str
    args: Any


class InteractionFailed(EventBase, frozen=True, kw_only=True, tag="interaction_failed"):
    interaction_id: Uuid
    error: str


class StreamTruncated(EventBase, frozen=True, kw_only=True, tag="stream_truncated"):
    """A reader was too slow, and deltas were dropped."""

    reason: str


class ToolConfigChanged(EventBase, frozen=True, kw_only=True, tag="tool_config_changed"):
    payload: ToolConfigPayload


class BackgroundJobCompleted(EventBase, frozen=True, kw_only=True, tag="background_job_completed"):
    """A job came to its end. `terminal_status` counts; `status` is kept as it came."""

    job_id: str
    display_name: str
    status: str | None = None
    terminal_status: JobStatus
    detail: str


AgentEvent = (
    RunStarted
    | RunCompleted
    | ExtractionSucceeded
    | ExtractionFailed
    | RunFailed
    | HookStarted
    | HookCompleted
    | HookFailed
    | HookDenied
    | TurnStarted
    | ReasoningDelta
    | ReasoningComplete
    | TextDelta
    | TextComplete
    | ServerToolContent
    | AssistantImageAppended
    | ToolCallRequested
    | ToolResultReceived
    | TurnCompleted
    | ToolExecutionStarted
    | ToolExecutionCompleted
    | ToolExecutionTimedOut
    | CompactionStarted
    | CompactionCompleted
    | CompactionFailed
    | BudgetWarning
    | Retrying
    | SkillsResolved
    | SkillResolutionFailed
    | InteractionComplete
    | InteractionCallbackPending
    | InteractionFailed
    | StreamTruncated
    | ToolConfigChanged
    | BackgroundJobCompleted
)

EVENTS: tuple[type[EventBase], ...] = get_args(AgentEvent)


def type_of(event: EventBase) -> str:
    """The name of an event on the wire."""
    return str(type(event).__struct_config__.tag)


def job_completed(job_id: str, display_name: str, status: JobStatus, detail: str) -> BackgroundJobCompleted:
    """The end of a job: the text that is shown is the status that counts."""
    return BackgroundJobCompleted(
        job_id=job_id, display_name=display_name, status=status, terminal_status=status, detail=detail
    )
