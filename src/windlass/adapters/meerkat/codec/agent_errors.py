"""What can go wrong in an agent, as values, with the class that each belongs to. They are not on the wire: a report of
one is."""

from __future__ import annotations

from typing import Any, Literal

from .closed_words import (
    AgentErrorClass,
    HookPoint,
    HookReasonCode,
    ProviderErrorKind,
    Retryability,
    TurnTerminalCauseKind,
    TurnTerminalOutcome,
    Wire,
)


class RateLimited(Wire, frozen=True, kw_only=True):
    """Too many requests. `retry_after_s` is what the provider asked for."""

    retry_after_s: float | None = None


class ContextExceeded(Wire, frozen=True, kw_only=True):
    """More was sent than the model takes."""

    max: int
    requested: int


class AuthError(Wire, frozen=True, kw_only=True):
    """The key is refused."""


class InvalidModel(Wire, frozen=True, kw_only=True):
    """There is no such model."""

    model: str


class ProviderError(Wire, frozen=True, kw_only=True):
    """Something else on the provider's side, with what it said."""

    kind: ProviderErrorKind
    retryability: Retryability
    details: Any = None


class NetworkTimeout(Wire, frozen=True, kw_only=True):
    """Nothing came over the network."""

    duration_ms: int


class CallTimeout(Wire, frozen=True, kw_only=True):
    """The call as a whole took too long."""

    duration_ms: int


LlmReason = RateLimited | ContextExceeded | AuthError | InvalidModel | ProviderError | NetworkTimeout | CallTimeout


class LlmError(Wire, frozen=True, kw_only=True):
    """A model could not answer."""

    provider: str
    reason: LlmReason
    message: str

    def __str__(self) -> str:
        return f"{self.provider}: {self.message}"

    @property
    def recoverable(self) -> bool:
        """Whether the same request may succeed later."""
        if isinstance(self.reason, ProviderError):
            return self.reason.retryability == "retryable"
        return isinstance(self.reason, RateLimited | NetworkTimeout | CallTimeout)


class HookDenied(Wire, frozen=True, kw_only=True):
    """A hook said no."""

    hook_id: str
    point: HookPoint
    reason_code: HookReasonCode
    message: str
    payload: Any = None

    def __str__(self) -> str:
        return f"hook {self.hook_id!r} denied at {self.point} ({self.reason_code}): {self.message}"


class HookTimeout(Wire, frozen=True, kw_only=True):
    """A hook took too long."""

    hook_id: str
    timeout_ms: int

    def __str__(self) -> str:
        return f"hook {self.hook_id!r} took longer than {self.timeout_ms} ms"


class HookExecutionFailed(Wire, frozen=True, kw_only=True):
    """A hook broke."""

    hook_id: str
    reason: str

    def __str__(self) -> str:
        return f"hook {self.hook_id!r} failed: {self.reason}"


class HookConfigInvalid(Wire, frozen=True, kw_only=True):
    """A hook is set up wrongly."""

    reason: str

    def __str__(self) -> str:
        return f"a hook is set up wrongly: {self.reason}"


class OutputInvalid(Wire, frozen=True, kw_only=True):
    """No answer fitted the schema."""

    attempts: int
    reason: str
    last_output: str = ""

    def __str__(self) -> str:
        return f"no answer fits the schema after {self.attempts} attempts: {self.reason}"


class OutputSchemaInvalid(Wire, frozen=True, kw_only=True):
    """The schema itself is wrong."""

    reason: str

    def __str__(self) -> str:
        return f"the output schema is not valid: {self.reason}"


class ReauthRequired(Wire, frozen=True, kw_only=True):
    """Somebody must log in again."""

    binding_key: str
    message: str

    def __str__(self) -> str:
        return f"log in again for {self.binding_key!r}: {self.message}"


class CallbackPending(Wire, frozen=True, kw_only=True):
    """A tool waits for its result from outside."""

    tool_name: str
    args: Any

    def __str__(self) -> str:
        return f"{self.tool_name!r} waits for its result from outside"


class TerminalFailure(Wire, frozen=True, kw_only=True):
    """A turn came to an end that was recorded as a failure."""

    outcome: TurnTerminalOutcome
    cause_kind: TurnTerminalCauseKind
    message: str

    def __str__(self) -> str:
        return f"the turn ended as {self.outcome} ({self.cause_kind}): {self.message}"


PlainKind = Literal[
    "store_error",
    "tool_error",
    "mcp_error",
    "session_not_found",
    "token_budget_exceeded",
    "time_budget_exceeded",
    "tool_call_budget_exceeded",
    "max_tokens_reached",
    "content_filtered",
    "max_turns_reached",
    "cancelled",
    "invalid_state_transition",
    "operation_not_found",
    "depth_limit_exceeded",
    "concurrency_limit_exceeded",
    "config_error",
    "invalid_tool_access",
    "internal_error",
    "build_error",
    "no_pending_boundary",
]


class PlainError(Wire, frozen=True, kw_only=True):
    """One of those that have nothing but words."""

    kind: PlainKind
    message: str

    def __str__(self) -> str:
        return self.message


AgentError = (
    LlmError
    | HookDenied
    | HookTimeout
    | HookExecutionFailed
    | HookConfigInvalid
    | OutputInvalid
    | OutputSchemaInvalid
    | ReauthRequired
    | CallbackPending
    | TerminalFailure
    | PlainError
)

PLAIN: dict[PlainKind, tuple[AgentErrorClass, TurnTerminalCauseKind]] = {
    "store_error": ("store", "fatal_failure"),
    "tool_error": ("tool", "tool_failure"),
    "mcp_error": ("mcp", "fatal_failure"),
    "session_not_found": ("session_not_found", "fatal_failure"),
    "token_budget_exceeded": ("budget", "budget_exhausted"),
    "time_budget_exceeded": ("budget", "time_budget_exceeded"),
    "tool_call_budget_exceeded": ("budget", "budget_exhausted"),
    "max_tokens_reached": ("max_tokens", "fatal_failure"),
    "content_filtered": ("content_filtered", "fatal_failure"),
    "max_turns_reached": ("max_turns", "turn_limit_reached"),
    "cancelled": ("cancelled", "fatal_failure"),
    "invalid_state_transition": ("invalid_state", "fatal_failure"),
    "operation_not_found": ("operation_not_found", "fatal_failure"),
    "depth_limit_exceeded": ("depth_limit", "fatal_failure"),
    "concurrency_limit_exceeded": ("concurrency_limit", "fatal_failure"),
    "config_error": ("config", "fatal_failure"),
    "invalid_tool_access": ("tool", "tool_failure"),
    "internal_error": ("internal", "fatal_failure"),
    "build_error": ("build", "fatal_failure"),
    "no_pending_boundary": ("no_pending_boundary", "fatal_failure"),
}
"""The class of each plain error, and the cause that a turn ends for because of it."""

CAUSE_CLASS: dict[TurnTerminalCauseKind, AgentErrorClass] = {
    "unknown": "internal",
    "hook_denied": "hook",
    "hook_failure": "hook",
    "llm_failure": "llm",
    "retry_exhausted": "llm",
    "tool_failure": "tool",
    "structured_output_validation_failed": "structured_output",
    "budget_exhausted": "budget",
    "time_budget_exceeded": "budget",
    "turn_limit_reached": "max_turns",
    "runtime_apply_failure": "internal",
    "fatal_failure": "terminal",
}
"""The class of a turn's cause. One that is not known is our own fault until somebody shows otherwise."""


def class_of(error: AgentError) -> AgentErrorClass:
    """The part of the system that an error belongs to."""
    match error:
        case LlmError():
            return "llm"
        case HookDenied() | HookTimeout() | HookExecutionFailed() | HookConfigInvalid():
            return "hook"
        case OutputInvalid():
            return "structured_output"
        case OutputSchemaInvalid():
            return "invalid_output_schema"
        case ReauthRequired():
            return "auth"
        case CallbackPending():
            return "callback_pending"
        case TerminalFailure():
            return CAUSE_CLASS[error.cause_kind]
        case PlainError():
            return PLAIN[error.kind][0]


def cause_of(error: AgentError) -> TurnTerminalCauseKind:
    """The cause that a turn ends for because of an error."""
    match error:
        case LlmError():
            return "llm_failure"
        case HookDenied():
            return "hook_denied"
        case HookTimeout() | HookExecutionFailed() | HookConfigInvalid():
            return "hook_failure"
        case OutputInvalid() | OutputSchemaInvalid():
            return "structured_output_validation_failed"
        case ReauthRequired() | CallbackPending():
            return "fatal_failure"
        case TerminalFailure():
            return error.cause_kind
        case PlainError():
            return PLAIN[error.kind][1]
