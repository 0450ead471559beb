"""The closed words and numbers of Meerkat's events. A word that is not listed is refused when it is read."""

from __future__ import annotations

import uuid
from typing import Annotated, Literal

import msgspec

U32 = Annotated[int, msgspec.Meta(ge=0, le=2**32 - 1)]
U64 = Annotated[int, msgspec.Meta(ge=0)]
U64_MAX = 2**64 - 1


class Uuid(uuid.UUID):
    """An id: read in any textual form, written in lower case with hyphens."""


class Wire(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Base of every value: what is None is left out, and fields that are not known are passed over."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if type(value) is int and value > U64_MAX:
                raise ValueError(f"{name}: {value} does not fit into 64 bits")


AgentErrorClass = Literal[
    "llm",
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
    "structured_output",
    "invalid_output_schema",
    "hook",
    "terminal",
    "no_pending_boundary",
]

TurnTerminalCauseKind = Literal[
    "unknown",
    "hook_denied",
    "hook_failure",
    "llm_failure",
    "tool_failure",
    "structured_output_validation_failed",
    "budget_exhausted",
    "time_budget_exceeded",
    "retry_exhausted",
    "turn_limit_reached",
    "runtime_apply_failure",
    "fatal_failure",
]

TurnTerminalOutcome = Literal[
    "none",
    "completed",
    "failed",
    "cancelled",
    "budget_exhausted",
    "time_budget_exceeded",
    "structured_output_validation_failed",
]

ProviderErrorKind = Literal[
    "invalid_request",
    "content_filtered",
    "server_error",
    "server_overloaded",
    "connection_reset",
    "unknown",
    "stream_parse_error",
    "incomplete_response",
]
Retryability = Literal["retryable", "non_retryable"]

HookPoint = Literal[
    "run_started",
    "run_completed",
    "run_failed",
    "pre_llm_request",
    "post_llm_response",
    "pre_tool_execution",
    "post_tool_execution",
    "turn_boundary",
]
HookReasonCode = Literal["policy_violation", "safety_violation", "schema_violation", "timeout", "runtime_error"]

StopReason = Literal["end_turn", "tool_use", "max_tokens", "stop_sequence", "content_filter", "cancelled"]
BudgetType = Literal["tokens", "time", "tool_calls"]
RetryFailureKind = Literal["rate_limited", "network_timeout", "call_timeout", "retryable_provider_error"]

JobStatus = Literal["completed", "failed", "aborted", "cancelled", "retired", "terminated"]
OperationStatus = Literal[
    "absent",
    "provisioning",
    "running",
    "retiring",
    "completed",
    "failed",
    "aborted",
    "cancelled",
    "retired",
    "terminated",
]

ToolConfigOperation = Literal["add", "remove", "reload"]
ToolConfigDomain = Literal["tool_scope", "deferred_catalog"]
ExternalToolPhase = Literal["pending", "applied", "draining", "forced", "failed"]
