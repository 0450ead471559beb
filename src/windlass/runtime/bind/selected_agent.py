"""A session's agent while one of its specialists is selected: what is the specialist's, and what stays the session's.
Only computes."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from windlass.events.errors import UsageError
from windlass.events.values.isolation import Isolation
from windlass.events.values.setup import Chosen, SessionOptions
from windlass.runtime.api.agent import Agent

if TYPE_CHECKING:
    from windlass.events.values.policy import Policy

READ_ONLY: Isolation = "read_only"


def specialist_of(agent: Agent, name: str) -> Agent:
    """A specialist of an agent that can run a session in its place. Raises `UsageError` for one that is not there or
    cannot."""
    specialist = next((known for known in agent.agents if known.name == name), None)
    if specialist is None:
        there = ", ".join(known.name for known in agent.agents) or "none"
        raise UsageError(f"agent {agent.name!r} has no specialist {name!r} to run this session: there are {there}")
    if specialist.flow is not None or specialist.machine is not None:
        what = "carries out a workflow" if specialist.flow is not None else "goes through a machine of its own"
        raise UsageError(f"the specialist {name!r} {what}: have it work in a session of its own, spawn()")
    if specialist.quarantine:
        raise UsageError(
            f"the specialist {name!r} is quarantined, and a quarantine is for good: have it work in a session of its "
            "own, spawn()"
        )
    return specialist


def chosen(agent: Agent, name: str) -> Chosen:
    """A specialist as it is recorded with a session that it runs. Raises `UsageError` for one that cannot."""
    return Chosen(name=name, only_reads=only_reads(specialist_of(agent, name)))


def only_reads(specialist: Agent) -> bool:
    """Whether a specialist may only read: because of its role, as it is kept apart, or until a plan is approved."""
    from windlass.runtime.trees.specialists import READING, ROLE_ISOLATION

    kept_apart = specialist.isolation or ROLE_ISOLATION.get(specialist.role)
    return specialist.role in READING or kept_apart == READ_ONLY or specialist.mode == "plan"


def run_by(agent: Agent, specialist: Agent, options: SessionOptions) -> Agent:
    """An agent, with the options of a session applied, whose session is run by a specialist: it instructs the model,
    with its own tools and under the stricter of both policies. Budgets, mode, settings, approver and archive stay the
    session's."""
    tools = [*specialist.tools]
    if more := [name for name in options.tools if name not in specialist.toolset]:
        tools = [*(specialist.tools or role_tools(specialist)), *more]
    changes: dict[str, Any] = {
        "instructions": specialist.instructions,
        "knowledge": specialist.knowledge,
        "tools": tools,
        "role": specialist.role,
        "agents": specialist.agents,
        "skills": specialist.skills,
        "mcp": specialist.mcp,
        "policy": policy_of(specialist, agent),
        "hooks": [*agent.hooks, *(hook for hook in specialist.hooks if hook not in agent.hooks)],
    }
    if specialist.model is not None:
        changes |= {"model": specialist.model, "model_settings": specialist.model_settings}
    if options.output_schema is None:
        changes["output"] = specialist.output
    return dataclasses.replace(agent, **changes)


def role_tools(specialist: Agent) -> tuple[str, ...]:
    from windlass.runtime.trees.specialists import ROLE_TOOLS

    return ROLE_TOOLS.get(specialist.role, ())


def policy_of(specialist: Agent, agent: Agent) -> Policy:
    from windlass.runtime.trees.specialists import narrowed

    return narrowed(specialist.policy, agent.policy, reads=only_reads(specialist))
