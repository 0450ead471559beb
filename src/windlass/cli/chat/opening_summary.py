"""The summary at the start of a chat: what is about to work for the person, under which rules. Pure.

One function per line, in `LINES`; a new line of the summary is one more entry there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import msgspec

from windlass.cli.screen import number_words
from windlass.cli.screen.sandbox_words import sandbox_said
from windlass.cli.terminal.text import padded
from windlass.cli.terminal.visible_text import spelt

if TYPE_CHECKING:
    from windlass.events.values.policy import Policy
    from windlass.events.values.setup import Limits
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
    lines = []
    for label, tell in LINES.items():
        said = tell(state)
        if said:
            lines.append(padded(label, LABEL_WIDTH) + said)
    return lines


def _agent(state: State) -> str:
    return spelt(state.setup.agent.name) + (
        f" ({spelt(state.setup.mode)})" if state.setup.mode != "interactive" else ""
    )


def _tools(state: State) -> str:
    return ", ".join(map(spelt, state.toolset.tools)) or "none"


def _policy(state: State) -> str:
    from windlass.runtime.api.policy import PRESETS

    policy: Policy = state.gate.policy
    named = [name for name, preset in PRESETS.items() if preset == policy and policy.rules]
    if named:
        return f"{named[0]}; {DEFAULTS[policy.default]}"
    rules = [f"{rule.action} {spelt(rule.tool)}{_when(rule.when)}" for rule in policy.rules[:RULES_MAX]]
    more = [number_words.plural(len(policy.rules) - RULES_MAX, "more rule")] if len(policy.rules) > RULES_MAX else []
    return "; ".join([*rules, *more, DEFAULTS[policy.default]])


def _when(condition: str | None) -> str:
    return f" when {spelt(condition)}" if condition else ""


def _budget(state: State) -> str:
    parts = [f"{said} a run" for said in _limits(state.budget.run_limits)]
    parts += [f"{said} in all" for said in _limits(state.budget.limits)]
    return ", ".join(parts)


def _limits(limits: Limits) -> Sequence[str]:
    told: dict[str, Callable[[int], str]] = {
        "cost_nanos": number_words.dollars,
        "tokens": lambda value: number_words.plural(value, "token"),
        "turns": lambda value: number_words.plural(value, "turn"),
        "calls": lambda value: number_words.plural(value, "call"),
        "time_ms": number_words.span,
    }
    given = msgspec.structs.asdict(limits)
    return [say(given[name]) for name, say in told.items() if given.get(name) is not None]


def _folder(state: State) -> str:
    if state.workspace.folder is None:
        return ""
    path = spelt(state.workspace.folder.cwd)
    return path if len(path) <= FOLDER_CHARS_MAX else f"…{path[-FOLDER_CHARS_MAX:]}"


LINES: dict[str, Callable[[State], str]] = {
    "agent": _agent,
    "model": lambda state: spelt(state.setup.model.name),
    "tools": _tools,
    "sandbox": sandbox_said,
    "policy": _policy,
    "budget": _budget,
    "folder": _folder,
}
"""The summary, from top to bottom: a label, and what a state says to it (empty = no line)."""
