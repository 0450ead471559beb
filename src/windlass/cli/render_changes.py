"""Records that change how a session works, in words: its agent, model, tools, limits, context, timers and folder."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from windlass.events import calls as ce
from windlass.events import context as xe
from windlass.events import permissions as pe
from windlass.events import questions as qe
from windlass.events import runs as re_
from windlass.events import sessions as se
from windlass.events.base import Event

from . import words
from .text import visible

if TYPE_CHECKING:
    from .render import Timeline

Teller = tuple[str, "Callable[[Timeline, Any], str]", str]


def _agent(view: Timeline, event: se.AgentChanged) -> str:
    parts = [("without", event.missing), ("new", event.added), ("other", event.changed)]
    told = [f"{label} {', '.join(map(visible, names))}" for label, names in parts if names]
    return f"{visible(event.agent.name)}: its code is not the recorded one" + (
        f"; tools: {'; '.join(told)}" if told else ""
    )


def _tools(view: Timeline, event: ce.ToolsetChanged) -> str:
    names = event.names or tuple(spec.name for spec in event.tools)
    failed = f": {event.error}" if event.error else ""
    return view.cut(f"{event.operation} {', '.join(names)} ({event.phase.replace('_', ' ')}){failed}")


def _workspace(view: Timeline, event: se.WorkspaceChanged) -> str:
    found = event.workspace
    branch = f", branch {found.branch}" if found.branch else ""
    return view.cut(f"{found.cwd}{branch}")


def _limits(view: Timeline, event: se.LimitsChanged) -> str:
    told = {
        "cost_nanos": words.dollars,
        "tokens": lambda n: f"{n:,} tokens",
        "turns": lambda n: words.plural(n, "turn"),
        "calls": lambda n: words.plural(n, "call"),
        "time_ms": words.span,
    }
    found = [
        f"{say(value)} {scope}"
        for limits, scope in ((event.run_limits, "a run"), (event.limits, "in all"))
        for name, say in told.items()
        if (value := getattr(limits, name)) is not None
    ]
    return ", ".join(found) or "none"


def _policy(view: Timeline, event: se.PolicyChanged) -> str:
    rules = [f"{rule.action} {rule.tool}" for rule in event.policy.rules]
    return view.cut("; ".join([*rules, f"else {event.policy.default}"]))


def _files(view: Timeline, event: se.FilesChanged) -> str:
    return view.cut(", ".join(f"{change.operation} {change.path}" for change in event.changes))


def _shrunk(event: Any) -> str:
    return f"{event.tokens_before:,} to {event.tokens_after:,} tokens"


CHANGES: dict[type[Event], Teller] = {
    se.AgentChanged: ("agent changed", _agent, "yellow"),
    se.ModelChanged: ("model changed", lambda v, e: v.cut(f"{e.previous} to {e.model.name} ({e.reason})"), "yellow"),
    se.ModeChanged: ("mode changed", lambda v, e: f"{e.previous} to {e.mode}", "yellow"),
    se.PolicyChanged: ("policy changed", _policy, "yellow"),
    se.LimitsChanged: ("limits changed", _limits, "yellow"),
    se.WorkspaceChanged: ("workspace", _workspace, "dim"),
    se.RewindReceived: ("rewind", lambda v, e: f"to {e.to_seq}, by {visible(e.actor)}", "blue"),
    se.SessionShutDown: ("session shut down", lambda v, e: v.cut(f"{e.kind} {e.reason}".rstrip()), "dim"),
    ce.ToolsetChanged: ("tools changed", _tools, "yellow"),
    se.FilesChanged: ("files changed", _files, "cyan"),
    re_.BudgetWarned: ("budget warned", lambda v, e: f"{e.fraction:.0%} of the {e.limit} of this {e.scope}", "yellow"),
    re_.BudgetStopped: ("budget stopped", lambda v, e: f"the {e.limit} limit of this {e.scope} is reached", "red"),
    re_.TimerSet: (
        "timer set",
        lambda v, e: v.cut(f"{e.timer_id} for {words.moment(e.at_ms)} {e.note}".rstrip()),
        "blue",
    ),
    re_.TimerCancelled: ("timer cancelled", lambda v, e: v.cut(f"{e.timer_id} {e.reason}".rstrip()), "dim"),
    xe.CompactionStarted: ("summarising", lambda v, e: words.plural(e.items, "item"), "dim"),
    xe.CompactionFinished: ("summarised", lambda v, e: _shrunk(e), "dim"),
    xe.CompactionFailed: ("not summarised", lambda v, e: v.cut(e.failure.message if e.failure else e.reason), "red"),
    xe.ContextTruncated: ("history cut", lambda v, e: _shrunk(e), "yellow"),
    xe.ContextElided: ("results shortened", lambda v, e: _shrunk(e), "dim"),
    pe.PermissionWithdrawn: ("withdrawn", lambda v, e: v.cut(f"{e.request_id} {e.reason}".rstrip()), "dim"),
    qe.QuestionWithdrawn: ("withdrawn", lambda v, e: v.cut(f"{e.question_id} {e.reason}".rstrip()), "dim"),
}
"""How each of them is told: its label, its words, its colour."""
