"""Errors on the wire: a report with its class and reason, and what is known of a turn that ended because of one."""

from __future__ import annotations

from typing import Any

import msgspec

from . import agent_errors as errors
from .agent_errors import AgentError, cause_of, class_of
from .closed_words import (
    U32,
    U64,
    AgentErrorClass,
    HookPoint,
    HookReasonCode,
    ProviderErrorKind,
    Retryability,
    TurnTerminalCauseKind,
    TurnTerminalOutcome,
    Wire,
)


class ErrorReason(Wire, frozen=True, kw_only=True, tag_field="reason_type"):
    """Base of the reasons that a program can act on."""


class LlmRateLimited(ErrorReason, frozen=True, kw_only=True, tag="llm_rate_limited"):
    retry_after_ms: U64 | None = None


class LlmContextExceeded(ErrorReason, frozen=True, kw_only=True, tag="llm_context_exceeded"):
    max: U32
    requested: U32


class LlmAuthError(ErrorReason, frozen=True, kw_only=True, tag="llm_auth_error"):
    pass


class LlmInvalidModel(ErrorReason, frozen=True, kw_only=True, tag="llm_invalid_model"):
    model: str


class LlmProviderError(ErrorReason, frozen=True, kw_only=True, tag="llm_provider_error"):
    provider_error_kind: ProviderErrorKind
    provider_error_retryability: Retryability
    provider_error: Any


class LlmNetworkTimeout(ErrorReason, frozen=True, kw_only=True, tag="llm_network_timeout"):
    duration_ms: U64


class LlmCallTimeout(ErrorReason, frozen=True, kw_only=True, tag="llm_call_timeout"):
    duration_ms: U64


class DeniedByHook(ErrorReason, frozen=True, kw_only=True, tag="hook_denied"):
    hook_id: str | None = None
    point: HookPoint
    reason_code: HookReasonCode


class HookTimedOut(ErrorReason, frozen=True, kw_only=True, tag="hook_timeout"):
    hook_id: str
    timeout_ms: U64


class HookFailed(ErrorReason, frozen=True, kw_only=True, tag="hook_execution_failed"):
    hook_id: str
    reason: str


class HookMisconfigured(ErrorReason, frozen=True, kw_only=True, tag="hook_config_invalid"):
    reason: str


class OutputNotValid(ErrorReason, frozen=True, kw_only=True, tag="structured_output_validation_failed"):
    attempts: U32
    reason: str


class SchemaNotValid(ErrorReason, frozen=True, kw_only=True, tag="invalid_output_schema"):
    reason: str


class AuthReauthRequired(ErrorReason, frozen=True, kw_only=True, tag="auth_reauth_required"):
    binding_key: str
    message: str


class PendingCallback(ErrorReason, frozen=True, kw_only=True, tag="callback_pending"):
    tool_name: str
    args: Any


class TurnTerminalCause(ErrorReason, frozen=True, kw_only=True, tag="turn_terminal_cause"):
    outcome: TurnTerminalOutcome
    cause_kind: TurnTerminalCauseKind


AnyErrorReason = (
    LlmRateLimited
    | LlmContextExceeded
    | LlmAuthError
    | LlmInvalidModel
    | LlmProviderError
    | LlmNetworkTimeout
    | LlmCallTimeout
    | DeniedByHook
    | HookTimedOut
    | HookFailed
    | HookMisconfigured
    | OutputNotValid
    | SchemaNotValid
    | AuthReauthRequired
    | PendingCallback
    | TurnTerminalCause
)


def llm_reason(reason: errors.LlmReason) -> AnyErrorReason:
    """Why a model could not answer. A wait is cut to whole milliseconds."""
    match reason:
        case errors.RateLimited(retry_after_s=None):
            return LlmRateLimited()
        case errors.RateLimited(retry_after_s=float() | int() as wait_s):
            return LlmRateLimited(retry_after_ms=int(wait_s * 1000))
        case errors.ContextExceeded():
            return LlmContextExceeded(max=reason.max, requested=reason.requested)
        case errors.AuthError():
            return LlmAuthError()
        case errors.InvalidModel():
            return LlmInvalidModel(model=reason.model)
        case errors.ProviderError():
            return LlmProviderError(
                provider_error_kind=reason.kind,
                provider_error_retryability=reason.retryability,
                provider_error=reason.details,
            )
        case errors.NetworkTimeout():
            return LlmNetworkTimeout(duration_ms=reason.duration_ms)
        case errors.CallTimeout():
            return LlmCallTimeout(duration_ms=reason.duration_ms)
        case _:
            raise AssertionError(f"no reason for {reason!r}")


def reason_of(error: AgentError) -> AnyErrorReason | None:
    """The reason of an error; None if it has nothing but words, or its cause is not known."""
    match error:
        case errors.LlmError():
            return llm_reason(error.reason)
        case errors.HookDenied():
            return DeniedByHook(hook_id=error.hook_id, point=error.point, reason_code=error.reason_code)
        case errors.HookTimeout():
            return HookTimedOut(hook_id=error.hook_id, timeout_ms=error.timeout_ms)
        case errors.HookExecutionFailed():
            return HookFailed(hook_id=error.hook_id, reason=error.reason)
        case errors.HookConfigInvalid():
            return HookMisconfigured(reason=error.reason)
        case errors.OutputInvalid():
            return OutputNotValid(attempts=error.attempts, reason=error.reason)
        case errors.OutputSchemaInvalid():
            return SchemaNotValid(reason=error.reason)
        case errors.ReauthRequired():
            return AuthReauthRequired(binding_key=error.binding_key, message=error.message)
        case errors.CallbackPending():
            return PendingCallback(tool_name=error.tool_name, args=error.args)
        case errors.TerminalFailure() if error.cause_kind != "unknown":
            return TurnTerminalCause(outcome=error.outcome, cause_kind=error.cause_kind)
        case errors.TerminalFailure() | errors.PlainError():
            return None


class AgentErrorReport(Wire, frozen=True, kw_only=True):
    """An error as it is told: its class, a reason if there is more than words, and the words."""

    error_class: AgentErrorClass = msgspec.field(name="class")
    reason: AnyErrorReason | None = None
    message: str


def report_of(error: AgentError) -> AgentErrorReport:
    """The report of an error. Its words are the error's own."""
    return AgentErrorReport(error_class=class_of(error), reason=reason_of(error), message=str(error))


class TurnErrorMetadata(Wire, frozen=True, kw_only=True):
    """Why a turn failed, for programs. `detail` is for people."""

    kind: TurnTerminalCauseKind
    terminal: bool = msgspec.field(default_factory=bool)
    outcome: TurnTerminalOutcome | None = None
    detail: str | None = None
    provider: str | None = None
    model: str | None = None
    retryable: bool | None = None


def ended(kind: TurnTerminalCauseKind, outcome: TurnTerminalOutcome, detail: str, **more: Any) -> TurnErrorMetadata:
    """Of a turn that ended with it."""
    return TurnErrorMetadata(kind=kind, terminal=True, outcome=outcome, detail=detail, **more)


def runtime_apply_failure(detail: str) -> TurnErrorMetadata:
    """Of a turn whose outcome could not be applied."""
    return ended("runtime_apply_failure", "failed", detail)


def metadata_of(error: AgentError) -> TurnErrorMetadata | None:
    """What is known of a turn that ended because of an error; None if its cause is not."""
    match error:
        case errors.LlmError():
            model = error.reason.model if isinstance(error.reason, errors.InvalidModel) else None
            known = {"provider": error.provider, "model": model, "retryable": error.recoverable}
            return ended("llm_failure", "failed", error.message, **known)
        case errors.TerminalFailure() if error.cause_kind != "unknown":
            return ended(error.cause_kind, error.outcome, error.message)
        case _:
            kind = cause_of(error)
            return None if kind == "unknown" else ended(kind, "failed", str(error))


def metadata_of_report(report: AgentErrorReport, detail: str) -> TurnErrorMetadata | None:
    """The same of a report: a turn's own cause counts first, then what a model's failure tells."""
    reason = report.reason
    if isinstance(reason, TurnTerminalCause):
        return ended(reason.cause_kind, reason.outcome, detail)
    if reason is None or report.error_class != "llm":
        return None
    match reason:
        case LlmRateLimited() | LlmNetworkTimeout() | LlmCallTimeout():
            return ended("llm_failure", "failed", detail, retryable=True)
        case LlmProviderError():
            again = reason.provider_error_retryability == "retryable"
            return ended("llm_failure", "failed", detail, retryable=again)
        case LlmContextExceeded() | LlmAuthError():
            return ended("llm_failure", "failed", detail, retryable=False)
        case LlmInvalidModel():
            return ended("llm_failure", "failed", detail, retryable=False, model=reason.model)
        case _:
            return ended("llm_failure", "failed", detail)
