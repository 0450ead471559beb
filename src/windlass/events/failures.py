"""Failures as data: one taxonomy for models, tools, hooks, budgets and the runtime itself.

`Failure.kind` says what happened and alone decides what follows. `retryable` says whether trying the very same
thing again may help; absent knowledge means no.
"""

from __future__ import annotations

from typing import Any, Literal

from .blocks import JsonObject, Nat, Value

FailureClass = Literal[
    "model",
    "store",
    "tool",
    "mcp",
    "session_not_found",
    "budget",
    "max_tokens",
    "content_filtered",
    "max_turns",
    "cancelled",
    "invalid_state",
    "operation_not_found",
    "depth_limit",
    "concurrency_limit",
    "config",
    "internal",
    "build",
    "auth",
    "callback_pending",
    "output",
    "invalid_output_schema",
    "hook",
    "terminal",
    "no_pending_boundary",
    "skill",
    "policy_indeterminate",
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
    "refused",
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
    "unsupported",
    # hooks and guards
    "hook_denied",
    "hook_timeout",
    "hook_failed",
    "hook_misconfigured",
    # tools
    "tool_raised",
    "tool_timed_out",
    "tool_unknown",
    "tool_arguments",
    "tool_unavailable",
    "tool_result_invalid",
    "tool_cancelled",
    "outcome_unknown",
    # output
    "output_invalid",
    "output_schema_invalid",
    # limits
    "budget_exhausted",
    "time_budget_exhausted",
    "price_unknown",
    "turns_exhausted",
    "depth_exceeded",
    "concurrency_exceeded",
    "retries_exhausted",
    "no_progress",
    "milestone_pending",
    # the runtime
    "cancelled",
    "interrupted",
    "agent_missing",
    "storage_full",
    "unknown",
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
    "hook_timeout": "hook",
    "hook_failed": "hook",
    "hook_misconfigured": "hook",
    "tool_raised": "tool",
    "tool_timed_out": "tool",
    "tool_unknown": "tool",
    "tool_arguments": "tool",
    "tool_unavailable": "tool",
    "tool_result_invalid": "tool",
    "tool_cancelled": "tool",
    "outcome_unknown": "tool",
    "output_invalid": "output",
    "output_schema_invalid": "invalid_output_schema",
    "budget_exhausted": "budget",
    "time_budget_exhausted": "budget",
    "price_unknown": "budget",
    "turns_exhausted": "max_turns",
    "depth_exceeded": "depth_limit",
    "concurrency_exceeded": "concurrency_limit",
    "no_progress": "terminal",
    "milestone_pending": "no_pending_boundary",
    "cancelled": "cancelled",
    "interrupted": "cancelled",
    "agent_missing": "config",
    "storage_full": "store",
    "unknown": "internal",
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
    "hook_failure",
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
    "timeout",
    "user_abort",
    "refused",
    "content_filtered",
    "max_tokens",
    "context_overflow",
    "no_progress",
    "milestone_pending",
    "milestone_exceeded",
    "output_invalid",
    "hook_denied",
    "awaiting_people",
    "awaiting_client",
    "awaiting_credentials",
    "awaiting_time",
    "retries_exhausted",
    "superseded",
    "shutdown",
    "error",
]
"""Why a run stopped. Closed."""

FinishReason = Literal[
    "stop", "tool_calls", "length", "stop_sequence", "content_filter", "refusal", "pause", "error", "other"
]
"""Why a model stopped writing, as one word for all providers."""

HookPoint = Literal[
    "session_start",
    "session_end",
    "session_save",
    "run_start",
    "run_end",
    "turn_start",
    "turn_end",
    "prompt",
    "steer",
    "before_model",
    "after_model",
    "before_tool",
    "after_tool",
    "before_compaction",
    "after_compaction",
    "credential",
    "permission",
    "error",
]
"""Where hooks may stand."""

HookReason = Literal["policy", "safety", "schema", "timeout", "runtime"]
"""Why a guard denied."""

CAUSE_OF: dict[str, CauseKind] = {
    "hook_denied": "hook_denied",
    "hook_timeout": "hook_failure",
    "hook_failed": "hook_failure",
    "hook_misconfigured": "hook_failure",
    "output_invalid": "output_invalid",
    "output_schema_invalid": "output_invalid",
    "budget_exhausted": "budget_exhausted",
    "price_unknown": "budget_exhausted",
    "time_budget_exhausted": "time_budget_exceeded",
    "retries_exhausted": "retries_exhausted",
    "turns_exhausted": "turn_limit_reached",
    "storage_full": "runtime_failure",
    "internal": "runtime_failure",
    "agent_missing": "runtime_failure",
    "unknown": "unknown",
    "no_progress": "fatal_failure",
    "milestone_pending": "fatal_failure",
    "depth_exceeded": "fatal_failure",
    "concurrency_exceeded": "fatal_failure",
    "cancelled": "fatal_failure",
    "interrupted": "fatal_failure",
}


def cause_of(failure: Failure | None) -> CauseKind:
    """The run's cause for a failure: tools and the model by class, the rest by kind."""
    if failure is None:
        return "unknown"
    found = CAUSE_OF.get(failure.kind)
    if found is not None:
        return found
    return "tool_failure" if failure.failure_class == "tool" else "model_failure"


def failure(kind: FailureKind, message: str, **more: Any) -> Failure:
    """A failure whose `retryable` follows from its kind unless given."""
    more.setdefault("retryable", kind in RETRYABLE_KINDS)
    return Failure(kind=kind, message=message, **more)
