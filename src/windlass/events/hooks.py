"""Where hooks may stand, and what they ruled. Hooks run in the host; only their rulings are here, so that replay runs
none."""

from __future__ import annotations

from typing import ClassVar, Literal

from windlass.events.values.blocks import Value

from .base import Category, Decision, Nat

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
    "mcp_connect",
    "mcp_error",
    "mcp_close",
    "before_mcp",
    "spawn_start",
    "spawn_end",
    "spawn_error",
    "child_turn_end",
    "child_reply",
    "child_tool_start",
    "child_tool_end",
    "child_tool_error",
]
"""Where hooks may stand."""


HookReason = Literal["policy", "safety", "schema", "timeout", "runtime"]
"""Why a guard denied."""


class HookRuling(Value, frozen=True, kw_only=True):
    """What one hook did at one point; carried by the fact that it ruled on."""

    hook_id: str
    point: HookPoint
    outcome: Literal["allowed", "denied", "asked", "changed", "failed", "timed_out"]
    reason: HookReason | None = None
    message: str = ""
    fatal: bool = False
    guard: bool = False
    """A guard that fails or times out denies; an observer that fails changes nothing."""
    duration_ms: Nat = 0
    call_id: str | None = None

    @property
    def denies(self) -> bool:
        return self.outcome == "denied" or (self.guard and self.outcome in ("failed", "timed_out"))

    @property
    def asks(self) -> bool:
        """Whether it wants a person asked about the call."""
        return self.outcome == "asked"


class HookRuled(Decision, frozen=True, kw_only=True, tag="hook.ruled"):
    """A hook's ruling, taken into the log with the decision that it caused."""

    CATEGORY: ClassVar[Category] = "syscall"
    ruling: HookRuling
