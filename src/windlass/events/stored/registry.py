"""The closed list of durable events: every tag that may stand in a log, and the upcasters for older ones.

An event is declared in the module of its part; the modules are listed here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

from windlass.events import (
    budgets,
    changes,
    commands,
    context,
    hooks,
    questions,
    runs,
    schedules,
    sessions,
    signals,
    skills,
    tasks,
    timers,
    turns,
    workspace,
)
from windlass.events.base import Command, Decision, Event, Fact, tag_of
from windlass.events.tools import calls, jobs, labels, mcp, permissions, toolset
from windlass.events.trees import accounts, children, flows, growth, machines, worktrees

MODULES: tuple[ModuleType, ...] = (
    sessions,
    changes,
    commands,
    runs,
    turns,
    calls,
    jobs,
    children,
    accounts,
    worktrees,
    toolset,
    permissions,
    labels,
    questions,
    timers,
    signals,
    schedules,
    flows,
    growth,
    machines,
    budgets,
    tasks,
    workspace,
    hooks,
    context,
    skills,
    mcp,
)
"""In the order in which a reader meets them."""


def declared(module: ModuleType) -> Iterator[type[Event]]:
    """The events that a module declares, in its order; bases, which have no tag of their own, are none."""
    for value in vars(module).values():
        here = isinstance(value, type) and issubclass(value, Event) and value.__module__ == module.__name__
        if here and "." in tag_of(value):
            yield value


EVENTS: tuple[type[Event], ...] = tuple(event for module in MODULES for event in declared(module))
FACTS: tuple[type[Event], ...] = tuple(event for event in EVENTS if issubclass(event, Fact))
DECISIONS: tuple[type[Event], ...] = tuple(event for event in EVENTS if issubclass(event, Decision))
BY_TAG: dict[str, type[Event]] = {tag_of(event): event for event in EVENTS}
COMMANDS: tuple[type[Command], ...] = tuple(event for event in EVENTS if issubclass(event, Command))

PLANNED: dict[str, str] = {
    "memory.written": "memory: a fact was remembered beyond the session",
    "memory.queried": "memory: remembered facts were looked up",
    "memory.rejected": "memory: a write did not pass validation or policy",
    "credential.rotated": "models: a credential was refreshed",
}
"""Events that later parts will produce. They are documented as planned and not declared."""

Upcaster = Callable[[dict[str, Any], Any], tuple[dict[str, Any], Any]]

UPCASTERS: dict[str, Upcaster] = {}
"""By full tag of an older version: turns its skeleton (`type` included) and its body, None if there is none, into
the next version's."""
