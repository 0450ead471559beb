"""Hooks: code of the user's own at named points. They observe, guard or transform; their rulings are facts.

Hooks are pure by contract: they may run again after a crash. Guards fail closed: one that raises, times out or cannot
read its payload denies. Observers never hurt: whatever they do, the run goes on.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from windlass.events.errors import UsageError
from windlass.events.hooks import HookPoint, HookReason
from windlass.events.values.blocks import Value

TIMEOUT_MS = 5_000
PAYLOAD_BYTES_MAX = 128 * 1024
"""How much a hook is given, and how much it may answer."""
PRIORITY = 100

GUARDED: frozenset[str] = frozenset(
    {"prompt", "before_model", "after_model", "before_tool", "after_tool", "permission", "credential", "before_mcp"}
)
"""Points at which a guard's word counts. Elsewhere there is nothing left to stop."""

CHANGEABLE: frozenset[str] = frozenset({"prompt", "before_tool", "after_tool", "before_model", "before_mcp"})
"""Points at which a hook may change the value."""


class Moment(Value, frozen=True, kw_only=True):
    """What a hook is told: where it stands, for whom, and the value in question as plain data."""

    point: HookPoint
    session: str
    agent: str = ""
    run_id: str = ""
    call_id: str | None = None
    tool: str | None = None
    value: Any = None
    child: str = ""
    """At `spawn_…` and `child_…`: the child session, however deep it is."""
    depth: int = 0
    """How far below the session it is."""
    attachments: tuple[Any, ...] = ()
    """At `prompt`: what is attached to it, read, as plain data."""


class Denied(Value, frozen=True, kw_only=True):
    """A guard's no. `fatal` ends the run; else the model is told."""

    message: str = ""
    reason: HookReason = "policy"
    fatal: bool = False


class Allowed(Value, frozen=True, kw_only=True):
    """A guard's yes. At `permission` it is the answer, and no person is asked; elsewhere it lets pass, like None."""

    message: str = ""


class Asked(Value, frozen=True, kw_only=True):
    """A guard's wish at `before_tool`: a person is asked, whatever the policy allows. What the policy denies is denied
    nevertheless. `message` is shown to them."""

    message: str = ""


class Changed(Value, frozen=True, kw_only=True):
    """A transform's new value."""

    value: Any


Said = Denied | Allowed | Asked | Changed | bool | None
"""What a hook may return: None or True lets pass, False is a plain no."""

KINDS = ("observe", "guard", "transform")

Function = Callable[[Moment], Said | Awaitable[Said]]


@dataclass(frozen=True, kw_only=True)
class Hook:
    """One hook. Lower priority runs first; equal ones in the order in which they were given."""

    point: HookPoint
    run: Function
    kind: Literal["observe", "guard", "transform"] = "observe"
    name: str = ""
    priority: int = PRIORITY
    timeout_ms: int = TIMEOUT_MS
    tool: str = "*"
    hook_id: str = field(init=False, default="")

    def __post_init__(self) -> None:
        # A guard that is none by a wrong letter would let everything pass.
        for field_name, known in (("point", get_args(HookPoint)), ("kind", KINDS)):
            if (said := getattr(self, field_name)) not in known:
                raise UsageError(f"hook: {field_name} {said!r} is none of {', '.join(known)}")
        if not callable(self.run):
            raise UsageError(f"hook at {self.point!r}: run is a function, not {self.run!r}")
        if self.kind == "guard" and self.point not in GUARDED:
            raise UsageError(f"a guard cannot stand at {self.point!r}: use one of {', '.join(sorted(GUARDED))}")
        if self.kind == "transform" and self.point not in CHANGEABLE:
            raise UsageError(f"nothing can be changed at {self.point!r}: use one of {', '.join(sorted(CHANGEABLE))}")
        named = self.name or getattr(self.run, "__name__", type(self.run).__name__)
        object.__setattr__(self, "hook_id", f"{self.point}:{named}")
