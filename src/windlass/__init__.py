"""Windlass: a durable agent runtime in which every step is a fact in an append-only log.

Importing it defines names and nothing else; each is loaded on first use.
"""

from __future__ import annotations

import logging as _logging
import typing as _typing

__version__ = "0.1.0.dev0"

_logging.getLogger("windlass").addHandler(_logging.NullHandler())

_PLACES = {
    "ALLOW_ALL": "windlass.runtime.api.policy",
    "Aborted": "windlass.runtime.api.result",
    "Agent": "windlass.runtime.api.agent",
    "Approve": "windlass.runtime.api.approvals",
    "Budget": "windlass.runtime.api.agent",
    "ContextExceeded": "windlass.runtime.api.result",
    "Deny": "windlass.runtime.api.approvals",
    "Hook": "windlass.runtime.hooks.hook",
    "LimitReached": "windlass.runtime.api.result",
    "ModelReplied": "windlass.events.turns",
    "NeedsAnswer": "windlass.runtime.api.result",
    "PermissionRequested": "windlass.events.tools.permissions",
    "Policy": "windlass.events.values.policy",
    "ProviderError": "windlass.runtime.api.result",
    "QuestionRequested": "windlass.events.questions",
    "READ_ONLY": "windlass.runtime.api.policy",
    "ReasoningDelta": "windlass.events.live",
    "Refused": "windlass.events.errors",
    "Result": "windlass.runtime.api.result",
    "RunAsked": "windlass.events.runs",
    "RunCompleted": "windlass.events.runs",
    "RunError": "windlass.runtime.api.result",
    "RunFailed": "windlass.events.runs",
    "RunStarted": "windlass.events.runs",
    "Runtime": "windlass.runtime.api.runtime",
    "Session": "windlass.runtime.api.session",
    "SessionOptions": "windlass.events.values.setup",
    "Settings": "windlass.events.values.settings",
    "StillBusy": "windlass.runtime.api.open_things",
    "TextDelta": "windlass.events.live",
    "ToolContext": "windlass.tools.context",
    "ToolError": "windlass.tools.context",
    "ToolFinished": "windlass.events.tools.calls",
    "ToolNotAllowed": "windlass.runtime.api.result",
    "ToolRequested": "windlass.events.tools.calls",
    "UsageError": "windlass.events.errors",
    "WindlassError": "windlass.events.errors",
    "allow": "windlass.runtime.api.policy",
    "ask": "windlass.runtime.api.policy",
    "deny": "windlass.runtime.api.policy",
    "explain": "windlass.runtime.api.policy",
    "external_tool": "windlass.tools.tool",
    "file_tools": "windlass.tools.files",
    "open": "windlass.runtime.api.open",
    "tool": "windlass.tools.tool",
}

if _typing.TYPE_CHECKING:
    from windlass.events.errors import Refused, UsageError, WindlassError
    from windlass.events.live import ReasoningDelta, TextDelta
    from windlass.events.questions import QuestionRequested
    from windlass.events.runs import RunAsked, RunCompleted, RunFailed, RunStarted
    from windlass.events.tools.calls import ToolFinished, ToolRequested
    from windlass.events.tools.permissions import PermissionRequested
    from windlass.events.turns import ModelReplied
    from windlass.events.values.policy import Policy
    from windlass.events.values.settings import Settings
    from windlass.events.values.setup import SessionOptions
    from windlass.runtime.api.agent import Agent, Budget
    from windlass.runtime.api.approvals import Approve, Deny
    from windlass.runtime.api.connect import connect as connect
    from windlass.runtime.api.open import open_runtime as open
    from windlass.runtime.api.open_things import StillBusy
    from windlass.runtime.api.policy import ALLOW_ALL, READ_ONLY, allow, ask, deny, explain
    from windlass.runtime.api.result import (
        Aborted,
        ContextExceeded,
        LimitReached,
        NeedsAnswer,
        ProviderError,
        Result,
        RunError,
        ToolNotAllowed,
    )
    from windlass.runtime.api.runtime import Runtime
    from windlass.runtime.api.session import Session
    from windlass.runtime.hooks.hook import Hook
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
    "SessionOptions",
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
    from importlib import import_module

    if name in ("flows", "policies", "signals"):
        return import_module(f"windlass.{name}")
    if name == "connect":  # beside the public names as those modules are, so that they stay few
        return import_module("windlass.runtime.api.connect").connect
    place = _PLACES.get(name)
    if place is None:
        raise AttributeError(f"module 'windlass' has no attribute {name!r}")
    value = getattr(import_module(place), "open_runtime" if name == "open" else name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
