"""Records that change how a session works, in words: its agent, model, tools, limits, context, timers and folder."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from windlass.cli.terminal.visible_text import spelt
from windlass.events.base import Event
from windlass.events.budgets import BudgetStopped, BudgetWarned
from windlass.events.changes import (
    AgentDeselected,
    AgentSelected,
    LimitsChanged,
    ModeChanged,
    ModelChanged,
    PolicyChanged,
)
from windlass.events.context import (
    CompactionFailed,
    CompactionFinished,
    CompactionStarted,
    ContextElided,
    ContextTruncated,
)
from windlass.events.questions import QuestionWithdrawn
from windlass.events.sessions import AgentChanged, RewindReceived, SessionShutDown
from windlass.events.timers import TimerCancelled, TimerSet
from windlass.events.tools.permissions import PermissionWithdrawn
from windlass.events.tools.toolset import ToolsetChanged
from windlass.events.workspace import FilesChanged, FilesRestoring, WorkspaceChanged

from . import number_words

if TYPE_CHECKING:
    from .timeline import Timeline

Teller = tuple[str, "Callable[[Timeline, Any], str]", str]


def _agent(view: Timeline, event: AgentChanged) -> str:
    parts = [("without", event.missing), ("new", event.added), ("other", event.changed)]
    told = [f"{label} {', '.join(map(spelt, names))}" for label, names in parts if names]
    return f"{spelt(event.agent.name)}: its code is not the recorded one" + (
        f"; tools: {'; '.join(told)}" if told else ""
    )


def _tools(view: Timeline, event: ToolsetChanged) -> str:
    names = event.names or tuple(spec.name for spec in event.tools)
    failed = f": {event.error}" if event.error else ""
    return view.cut(f"{event.operation} {', '.join(names)} ({event.phase.replace('_', ' ')}){failed}")


def _workspace(view: Timeline, event: WorkspaceChanged) -> str:
    folder = event.workspace
    branch = f", branch {folder.branch}" if folder.branch else ""
    return view.cut(f"{folder.cwd}{branch}")


def _limits(view: Timeline, event: LimitsChanged) -> str:
    told = {
        "cost_nanos": number_words.dollars,
        "tokens": lambda n: f"{n:,} tokens",
        "turns": lambda n: number_words.plural(n, "turn"),
        "calls": lambda n: number_words.plural(n, "call"),
        "time_ms": number_words.span,
    }
    shown = [
        f"{say(value)} {scope}"
        for limits, scope in ((event.run_limits, "a run"), (event.limits, "in all"))
        for name, say in told.items()
        if (value := getattr(limits, name)) is not None
    ]
    return ", ".join(shown) or "none"


def _policy(view: Timeline, event: PolicyChanged) -> str:
    rules = [f"{rule.action} {rule.tool}" for rule in event.policy.rules]
    return view.cut("; ".join([*rules, f"else {event.policy.default}"]))


def _files(view: Timeline, event: FilesChanged) -> str:
    return view.cut(", ".join(f"{change.operation} {change.path}" for change in event.changes))


def _rewind(view: Timeline, event: RewindReceived) -> str:
    put_back = [f"put back {change.path}" for change in event.changes]
    left = [f"left {file.path} ({file.why})" for file in event.left]
    return view.cut("; ".join([f"to {event.to_seq}, by {spelt(event.actor)}", *put_back, *left]))


def _shrunk(event: Any) -> str:
    return f"{event.tokens_before:,} to {event.tokens_after:,} tokens"


CHANGES: dict[type[Event], Teller] = {
    AgentChanged: ("agent changed", _agent, "yellow"),
    AgentSelected: ("agent selected", lambda v, e: v.cut(f"{e.agent} runs this session"), "yellow"),
    AgentDeselected: ("agent deselected", lambda v, e: v.cut(f"{e.agent} runs it no more"), "yellow"),
    ModelChanged: ("model changed", lambda v, e: v.cut(f"{e.previous} to {e.model.name} ({e.reason})"), "yellow"),
    ModeChanged: ("mode changed", lambda v, e: f"{e.previous} to {e.mode}", "yellow"),
    PolicyChanged: ("policy changed", _policy, "yellow"),
    LimitsChanged: ("limits changed", _limits, "yellow"),
    WorkspaceChanged: ("workspace", _workspace, "dim"),
    RewindReceived: ("rewind", _rewind, "blue"),
    SessionShutDown: ("session shut down", lambda v, e: v.cut(f"{e.kind} {e.reason}".rstrip()), "dim"),
    ToolsetChanged: ("tools changed", _tools, "yellow"),
    FilesChanged: ("files changed", _files, "cyan"),
    FilesRestoring: (
        "files restoring",
        lambda v, e: f"given up, to {e.to_seq}" if e.given_up else f"as they were at {e.to_seq}",
        "cyan",
    ),
    BudgetWarned: (
        "budget warned",
        lambda v, e: f"{e.fraction:.0%} of the {e.limit} that this {e.scope} may use",
        "yellow",
    ),
    BudgetStopped: ("budget stopped", lambda v, e: f"this {e.scope} has reached its limit of {e.limit}", "red"),
    TimerSet: (
        "timer set",
        lambda v, e: v.cut(f"{e.timer_id} for {number_words.moment(e.at_ms)} {e.note}".rstrip()),
        "blue",
    ),
    TimerCancelled: ("timer cancelled", lambda v, e: v.cut(f"{e.timer_id} {e.reason}".rstrip()), "dim"),
    CompactionStarted: ("summarising", lambda v, e: number_words.plural(e.items, "item"), "dim"),
    CompactionFinished: ("summarised", lambda v, e: _shrunk(e), "dim"),
    CompactionFailed: ("not summarised", lambda v, e: v.cut(e.failure.message if e.failure else e.reason), "red"),
    ContextTruncated: ("history cut", lambda v, e: _shrunk(e), "yellow"),
    ContextElided: ("results shortened", lambda v, e: _shrunk(e), "dim"),
    PermissionWithdrawn: ("withdrawn", lambda v, e: v.cut(f"{spelt(e.request_id)} {e.reason}".rstrip()), "dim"),
    QuestionWithdrawn: ("withdrawn", lambda v, e: v.cut(f"{spelt(e.question_id)} {e.reason}".rstrip()), "dim"),
}
"""How each of them is told: its label, its words, its colour."""
