"""Failures of ours as errors of Meerkat."""

from __future__ import annotations

from windlass.adapters.meerkat.codec import agent_errors as errors
from windlass.adapters.meerkat.codec.closed_words import ProviderErrorKind, RetryFailureKind, TurnTerminalCauseKind
from windlass.adapters.meerkat.codec.content import RetryFailure
from windlass.events.values.failures import Failure

CAUSES: dict[str, TurnTerminalCauseKind] = {
    "unknown": "unknown",
    "hook_denied": "hook_denied",
    "model_failure": "llm_failure",
    "tool_failure": "tool_failure",
    "output_invalid": "structured_output_validation_failed",
    "budget_exhausted": "budget_exhausted",
    "time_budget_exceeded": "time_budget_exceeded",
    "retries_exhausted": "retry_exhausted",
    "turn_limit_reached": "turn_limit_reached",
    "runtime_failure": "runtime_apply_failure",
    "fatal_failure": "fatal_failure",
}
PROVIDER: dict[str, ProviderErrorKind] = {
    "invalid_request": "invalid_request",
    "request_too_large": "invalid_request",
    "content_filtered": "content_filtered",
    "server_error": "server_error",
    "overloaded": "server_overloaded",
    "connection_reset": "connection_reset",
    "malformed_reply": "stream_parse_error",
    "truncated_reply": "incomplete_response",
    "empty_reply": "incomplete_response",
}
NETWORK = frozenset({"connect_timeout", "headers_timeout", "first_output_timeout", "idle_timeout"})


def llm_reason(failure: Failure) -> errors.LlmReason:
    """Why a model could not answer."""
    waited = failure.duration_ms or 0
    if failure.kind == "rate_limited":
        after = failure.retry_after_ms
        return errors.RateLimited(retry_after_s=None if after is None else after / 1000)
    if failure.kind == "context_exceeded":
        return errors.ContextExceeded(max=failure.limit or 0, requested=failure.requested or 0)
    if failure.kind in ("auth", "permission", "no_credentials", "reauth_required"):
        return errors.AuthError()
    if failure.kind == "invalid_model":
        return errors.InvalidModel(model=failure.model or "")
    if failure.kind in NETWORK:
        return errors.NetworkTimeout(duration_ms=waited)
    if failure.kind == "total_timeout":
        return errors.CallTimeout(duration_ms=waited)
    again = "retryable" if failure.retryable else "non_retryable"
    kind = PROVIDER.get(failure.kind, "unknown")
    return errors.ProviderError(kind=kind, retryability=again, details={"kind": failure.kind, **(failure.detail or {})})  # type: ignore[arg-type]


def error_of(failure: Failure, cause: str) -> errors.AgentError:
    """A failure that ended a run."""
    if failure.kind == "reauth_required":
        return errors.ReauthRequired(binding_key=failure.provider or "", message=failure.message)
    if failure.failure_class in ("model", "auth") and cause == "model_failure":
        return errors.LlmError(provider=failure.provider or "", reason=llm_reason(failure), message=failure.message)
    if failure.kind == "content_filtered":
        return errors.PlainError(kind="content_filtered", message=failure.message)
    kind = CAUSES.get(cause, "unknown")
    return errors.TerminalFailure(outcome="failed", cause_kind=kind, message=failure.message)


def retry_failure(failure: Failure) -> RetryFailure:
    """A failure after which a request is made again."""
    kind: RetryFailureKind = "retryable_provider_error"
    if failure.kind == "rate_limited":
        kind = "rate_limited"
    elif failure.kind in NETWORK:
        kind = "network_timeout"
    elif failure.kind == "total_timeout":
        kind = "call_timeout"
    return RetryFailure(
        provider=failure.provider or "",
        kind=kind,
        retry_after_ms=failure.retry_after_ms,
        duration_ms=failure.duration_ms,
        message=failure.message,
    )
