"""What a session has otherwise than its agent's code says: put together, and applied to the agent. Only computes."""

from __future__ import annotations

import dataclasses
from typing import Any

import msgspec

from windlass.events.base import Event
from windlass.events.sessions import SessionResumed, SessionStarted
from windlass.events.values.isolation import strictest
from windlass.events.values.setup import Limits, SessionOptions
from windlass.events.values.usage import NANOS_PER_USD
from windlass.runtime.api.agent import Agent, Budget

from .selected_agent import run_by, specialist_of

NO_OPTIONS = SessionOptions()


def without_content(options: SessionOptions) -> SessionOptions:
    """The options as they stand in a log whose content may be erased."""
    return msgspec.structs.replace(options, instructions=None, output_schema=None)


def recorded(options: SessionOptions, setup: Event | None) -> SessionOptions:
    """The options of a session, whole, given the event whose content tells its setup. Content that was erased is the
    agent's own again."""
    body = setup.body if isinstance(setup, SessionStarted | SessionResumed) else None
    if body is None:
        return options
    content = body.options
    return msgspec.structs.replace(options, instructions=content.instructions, output_schema=content.output_schema)


def merged(before: SessionOptions, now: SessionOptions) -> SessionOptions:
    """Options with what is said now: what it does not speak of stays."""
    given = {name: value for name in now.__struct_fields__ if (value := getattr(now, name)) is not None}
    given["tools"] = tuple(dict.fromkeys((*before.tools, *now.tools)))
    given["quarantine"] = before.quarantine or now.quarantine
    if before.isolation is not None or now.isolation is not None:
        given["isolation"] = strictest(before.isolation, now.isolation)
    if now.run_limits is not None and before.run_limits is not None:
        given["run_limits"] = narrowed(before.run_limits, now.run_limits)
    return msgspec.structs.replace(before, **given)


def narrowed(before: Limits, now: Limits) -> Limits:
    """Limits with those that are named now."""
    named = {name: value for name, value in msgspec.structs.asdict(now).items() if value is not None}
    return msgspec.structs.replace(before, **named)


def lower(one: Limits, other: Limits) -> Limits:
    """The lower of each limit."""
    limits: dict[str, int | None] = {}
    for name in Limits.__struct_fields__:
        given = [most for most in (getattr(one, name), getattr(other, name)) if most is not None]
        limits[name] = min(given, default=None)
    return Limits(**limits)


def applied(agent: Agent, options: SessionOptions) -> Agent:
    """An agent as a session has it. Raises `UsageError` if the two do not fit."""
    changes: dict[str, Any] = {}
    for name in ("model", "policy", "instructions", "mode"):
        if getattr(options, name) is not None:
            changes[name] = getattr(options, name)
    if options.limits is not None:
        changes["session_budget"] = budget_of(lower(agent.session_budget.limits(), options.limits))
    if options.run_limits is not None:
        changes["budget"] = budget_of(narrowed(agent.budget.limits(), options.run_limits))
    if options.output_schema is not None:
        changes["output"] = options.output_schema
    if options.quarantine:
        changes["quarantine"] = True
    if more := [name for name in options.tools if name not in agent.toolset]:
        changes["tools"] = [*agent.tools, *more]
    made = dataclasses.replace(agent, **changes) if changes else agent
    if options.specialist is None:
        return made
    return run_by(made, specialist_of(agent, options.specialist.name), options)


def budget_of(limits: Limits) -> Budget:
    """Limits as an agent has them."""
    return Budget(
        usd=None if limits.cost_nanos is None else limits.cost_nanos / NANOS_PER_USD,
        tokens=limits.tokens,
        turns=limits.turns,
        calls=limits.calls,
        seconds=None if limits.time_ms is None else limits.time_ms / 1000,
        children=limits.children,
        depth=limits.depth,
    )
