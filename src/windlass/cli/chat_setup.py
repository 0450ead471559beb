"""The summary at the start of a chat: what is about to work for the person, under which rules. Pure.

One function per line, in `LINES`; a new line of the summary is one more entry there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import msgspec

from . import words
from .text import padded, visible

if TYPE_CHECKING:
    from windlass.events.specs import Limits, Policy
    from windlass.kernel.state import State

LABEL_WIDTH = 8
RULES_MAX = 6
DEFAULTS = {
    "standard": "your own tools and reading run, the rest is asked",
    "allow": "everything else runs without asking",
    "ask": "everything else is asked",
    "deny": "everything else is refused",
}

FOLDER_CHARS_MAX = 48
"""A longer path is told by its end: where one is, is there."""


def summary(state: State) -> list[str]:
    """What a session is set up with, a line each; nothing is said of what there is none of."""
    found = []
    for label, tell in LINES.items():
        said = tell(state)
        if said:
            found.append(padded(label, LABEL_WIDTH) + said)
    return found


def _agent(state: State) -> str:
    return visible(state.agent.name) + (f" ({visible(state.mode)})" if state.mode != "interactive" else "")


def _tools(state: State) -> str:
    return ", ".join(map(visible, state.tools)) or "none"


def _policy(state: State) -> str:
    policy: Policy = state.policy
    rules = [f"{rule.action} {visible(rule.tool)}{_when(rule.when)}" for rule in policy.rules[:RULES_MAX]]
    more = [f"{len(policy.rules) - RULES_MAX} more rules"] if len(policy.rules) > RULES_MAX else []
    return "; ".join([*rules, *more, DEFAULTS[policy.default]])


def _when(condition: str | None) -> str:
    return f" when {visible(condition)}" if condition else ""


def _budget(state: State) -> str:
    parts = [f"{said} a run" for said in _limits(state.run_limits)]
    parts += [f"{said} in all" for said in _limits(state.limits)]
    return ", ".join(parts)


def _limits(limits: Limits) -> Sequence[str]:
    told: dict[str, Callable[[int], str]] = {
        "cost_nanos": words.dollars,
        "tokens": lambda value: words.plural(value, "token"),
        "turns": lambda value: words.plural(value, "turn"),
        "calls": lambda value: words.plural(value, "call"),
        "time_ms": words.span,
    }
    given = msgspec.structs.asdict(limits)
    return [say(given[name]) for name, say in told.items() if given.get(name) is not None]


def _folder(state: State) -> str:
    if state.workspace is None:
        return ""
    path = visible(state.workspace.cwd)
    return path if len(path) <= FOLDER_CHARS_MAX else f"…{path[-FOLDER_CHARS_MAX:]}"


LINES: dict[str, Callable[[State], str]] = {
    "agent": _agent,
    "model": lambda state: visible(state.model.name),
    "tools": _tools,
    "policy": _policy,
    "budget": _budget,
    "folder": _folder,
}
"""The summary, from top to bottom: a label, and what a state says to it (empty = no line)."""
