"""Failures as data: one taxonomy for models, tools, hooks, budgets and the runtime itself.

`Failure.kind` says what happened and alone decides what follows. `retryable` says whether trying the very same
thing again may help; absent knowledge means no.
"""

from __future__ import annotations

from typing import Any, Literal

from .blocks import JsonObject, Nat, Value

FailureClass = Literal[
    "model",
    "tool",
    "budget",
    "content_filtered",
    "internal",
    "auth",
    "output",
    "hook",
    "terminal",
]
"""The part of the system that failed: coarse, for grouping and for exit codes."""

FailureKind = Literal[
    # the model's side
    "rate_limited",
    "overloaded",
    "quota_exhausted",
    "context_exceeded",
    "request_too_large",
    "auth",
    "reauth_required",
    "permission",
    "invalid_model",
    "invalid_request",
    "content_filtered",
    "server_error",
    "connect_failed",
    "connection_reset",
    "connect_timeout",
    "headers_timeout",
    "first_output_timeout",
    "idle_timeout",
    "total_timeout",
    "malformed_reply",
    "truncated_reply",
    "empty_reply",
    "reply_too_large",
    "redirected",
    "circuit_open",
    "no_credentials",
    # hooks and guards
    "hook_denied",
    # tools
    "tool_raised",
    "tool_timed_out",
    "tool_arguments",
    "tool_unavailable",
    "tool_result_invalid",
    "tool_cancelled",
    # output
    "output_invalid",
    # limits
    "price_unknown",
    "retries_exhausted",
    "no_progress",
    # workflows
    "node_failed",
    # the runtime
    "internal",
]
"""What happened. Closed: an unknown kind is rejected when decoding."""

RETRYABLE_KINDS: frozenset[str] = frozenset(
    {
        "rate_limited",
        "overloaded",
        "server_error",
        "connect_failed",
        "connection_reset",
        "connect_timeout",
        "headers_timeout",
        "first_output_timeout",
        "idle_timeout",
        "total_timeout",
        "malformed_reply",
        "truncated_reply",
        "empty_reply",
        "circuit_open",
    }
)
"""Kinds for which the same request may succeed later."""

CLASS_OF: dict[str, FailureClass] = {
    "auth": "auth",
    "reauth_required": "auth",
    "no_credentials": "auth",
    "content_filtered": "content_filtered",
    "hook_denied": "hook",
    "tool_raised": "tool",
    "tool_timed_out": "tool",
    "tool_arguments": "tool",
    "tool_unavailable": "tool",
    "tool_result_invalid": "tool",
    "tool_cancelled": "tool",
    "output_invalid": "output",
    "price_unknown": "budget",
    "no_progress": "terminal",
    "node_failed": "terminal",
    "internal": "internal",
}
"""Which class a kind belongs to; kinds that are not listed are the model's."""


class Failure(Value, frozen=True, kw_only=True):
    """Something in the world went wrong. `message` is for people and for the log; what a model is told is a choice
    made elsewhere. `detail` keeps what the other side sent, without keys or credentials."""

    kind: FailureKind
    message: str
    retryable: bool = False
    retry_after_ms: Nat | None = None
    status: Nat | None = None
    code: str | None = None
    provider: str | None = None
    model: str | None = None
    request_id: str | None = None
    duration_ms: Nat | None = None
    limit: Nat | None = None
    requested: Nat | None = None
    detail: JsonObject | None = None

    @property
    def failure_class(self) -> FailureClass:
        return CLASS_OF.get(self.kind, "model")


CauseKind = Literal[
    "unknown",
    "hook_denied",
    "model_failure",
    "tool_failure",
    "output_invalid",
    "budget_exhausted",
    "time_budget_exceeded",
    "retries_exhausted",
    "turn_limit_reached",
    "runtime_failure",
    "fatal_failure",
]
"""Why a run ended the way it did, seen from the run: one word that a dashboard can count."""

StopReason = Literal[
    "completed",
    "task_complete",
    "max_turns",
    "token_budget",
    "money_budget",
    "time_budget",
    "call_budget",
    "user_abort",
    "refused",
    "content_filtered",
    "max_tokens",
    "context_overflow",
    "no_progress",
    "output_invalid",
    "hook_denied",
    "awaiting_people",
    "awaiting_credentials",
    "awaiting_time",
    "retries_exhausted",
    "superseded",
    "error",
]
"""Why a run stopped. Closed."""

FinishReason = Literal[
    "stop", "tool_calls", "length", "stop_sequence", "content_filter", "refusal", "pause", "error", "other"
]
"""Why a model stopped writing, as one word for all providers."""


CAUSE_OF: dict[str, CauseKind] = {
    "hook_denied": "hook_denied",
    "output_invalid": "output_invalid",
    "price_unknown": "budget_exhausted",
    "retries_exhausted": "retries_exhausted",
    "internal": "runtime_failure",
    "no_progress": "fatal_failure",
    "node_failed": "fatal_failure",
}


def cause_of(failure: Failure | None) -> CauseKind:
    """The run's cause for a failure: tools and the model by class, the rest by kind."""
    if failure is None:
        return "unknown"
    cause = CAUSE_OF.get(failure.kind)
    if cause is not None:
        return cause
    return "tool_failure" if failure.failure_class == "tool" else "model_failure"


def failure(kind: FailureKind, message: str, **more: Any) -> Failure:
    """A failure whose `retryable` follows from its kind unless given."""
    more.setdefault("retryable", kind in RETRYABLE_KINDS)
    return Failure(kind=kind, message=message, **more)
