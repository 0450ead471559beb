"""Windlass: a durable agent runtime in which every step is a fact in an append-only log.

Importing it defines names and nothing else; each is loaded on first use.
"""

from __future__ import annotations

import typing as _typing

__version__ = "0.1.0.dev0"

_PLACES = {
    "ALLOW_ALL": "windlass.runtime.policy",
    "Aborted": "windlass.runtime.result",
    "Agent": "windlass.runtime.agent",
    "Approve": "windlass.runtime.approvals",
    "Budget": "windlass.runtime.agent",
    "ContextExceeded": "windlass.runtime.result",
    "CursorMismatch": "windlass.runtime.cursors",
    "Deny": "windlass.runtime.approvals",
    "Hook": "windlass.runtime.hooks",
    "LimitReached": "windlass.runtime.result",
    "ModelReplied": "windlass.events.turns",
    "NeedsAnswer": "windlass.runtime.result",
    "PermissionRequested": "windlass.events.permissions",
    "Policy": "windlass.events.specs",
    "ProviderError": "windlass.runtime.result",
    "QuestionRequested": "windlass.events.questions",
    "READ_ONLY": "windlass.runtime.policy",
    "ReasoningDelta": "windlass.events.live",
    "Refused": "windlass.events.errors",
    "Result": "windlass.runtime.result",
    "RunAsked": "windlass.events.runs",
    "RunCompleted": "windlass.events.runs",
    "RunError": "windlass.runtime.result",
    "RunFailed": "windlass.events.runs",
    "RunStarted": "windlass.events.runs",
    "Runtime": "windlass.runtime.runtime",
    "Session": "windlass.runtime.session",
    "Settings": "windlass.events.specs",
    "StillBusy": "windlass.runtime.jobs",
    "TextDelta": "windlass.events.live",
    "ToolContext": "windlass.tools.context",
    "ToolError": "windlass.tools.context",
    "ToolFinished": "windlass.events.calls",
    "ToolNotAllowed": "windlass.runtime.result",
    "ToolRequested": "windlass.events.calls",
    "UsageError": "windlass.events.errors",
    "WindlassError": "windlass.events.errors",
    "allow": "windlass.runtime.policy",
    "ask": "windlass.runtime.policy",
    "deny": "windlass.runtime.policy",
    "explain": "windlass.runtime.policy",
    "external_tool": "windlass.tools.tool",
    "file_tools": "windlass.tools.files",
    "open": "windlass.runtime.opening",
    "tool": "windlass.tools.tool",
}

if _typing.TYPE_CHECKING:
    from windlass.events.calls import ToolFinished, ToolRequested
    from windlass.events.errors import Refused, UsageError, WindlassError
    from windlass.events.live import ReasoningDelta, TextDelta
    from windlass.events.permissions import PermissionRequested
    from windlass.events.questions import QuestionRequested
    from windlass.events.runs import RunAsked, RunCompleted, RunFailed, RunStarted
    from windlass.events.specs import Policy, Settings
    from windlass.events.turns import ModelReplied
    from windlass.runtime.agent import Agent, Budget
    from windlass.runtime.approvals import Approve, Deny
    from windlass.runtime.cursors import CursorMismatch
    from windlass.runtime.hooks import Hook
    from windlass.runtime.jobs import StillBusy
    from windlass.runtime.opening import open_runtime as open
    from windlass.runtime.policy import ALLOW_ALL, READ_ONLY, allow, ask, deny, explain
    from windlass.runtime.result import (
        Aborted,
        ContextExceeded,
        LimitReached,
        NeedsAnswer,
        ProviderError,
        Result,
        RunError,
        ToolNotAllowed,
    )
    from windlass.runtime.runtime import Runtime
    from windlass.runtime.session import Session
    from windlass.tools.context import ToolContext, ToolError
    from windlass.tools.files import file_tools
    from windlass.tools.tool import external_tool, tool

__all__ = [
    "ALLOW_ALL",
    "READ_ONLY",
    "Aborted",
    "Agent",
    "Approve",
    "Budget",
    "ContextExceeded",
    "CursorMismatch",
    "Deny",
    "Hook",
    "LimitReached",
    "ModelReplied",
    "NeedsAnswer",
    "PermissionRequested",
    "Policy",
    "ProviderError",
    "QuestionRequested",
    "ReasoningDelta",
    "Refused",
    "Result",
    "RunAsked",
    "RunCompleted",
    "RunError",
    "RunFailed",
    "RunStarted",
    "Runtime",
    "Session",
    "Settings",
    "StillBusy",
    "TextDelta",
    "ToolContext",
    "ToolError",
    "ToolFinished",
    "ToolNotAllowed",
    "ToolRequested",
    "UsageError",
    "WindlassError",
    "allow",
    "ask",
    "deny",
    "explain",
    "external_tool",
    "file_tools",
    "open",
    "tool",
]


def __getattr__(name: str) -> _typing.Any:
    place = _PLACES.get(name)
    if place is None:
        raise AttributeError(f"module 'windlass' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(place), "open_runtime" if name == "open" else name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
