"""What a coordinator is told of its workflow: what is left of the budget, and what it may add."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from windlass.kernel.parts import budgets
from windlass.kernel.parts.flows import growth

if TYPE_CHECKING:
    from windlass.kernel.state import State

SUBMIT = "submit_nodes"
"""The tool by which a node's child session adds nodes to its workflow."""
NAMED_MAX = 40


def budget_left(state: State) -> str:
    """What is left of each budget, in words."""
    left = msgspec.structs.asdict(budgets.share_of(state, 1))
    named = [f"{name.replace('_', ' ')} {most}" for name, most in left.items() if most is not None]
    return f"[workflow budget] left: {', '.join(named)}" if named else ""


def room_left(state: State) -> str:
    """How many nodes may still be added, in words."""
    return f"[workflow nodes] {len(state.flow.nodes)} are there, {growth.left(state)} more may be added with {SUBMIT}"


def coordinating(state: State, agents: Mapping[str, Any]) -> str:
    """What a coordinator must know to add nodes that fit."""
    who = "; ".join(f"{name}: {agent.description or agent.role}" for name, agent in agents.items())
    there = ", ".join(f"{name} ({node.status})" for name, node in list(state.flow.nodes.items())[:NAMED_MAX])
    lines = (room_left(state), f"[workflow agents] {who}", f"[workflow graph] {there}", budget_left(state))
    return "\n".join(line for line in lines if line)


def is_coordinator(agent: Any) -> bool:
    """Whether an agent may add nodes to the workflow that its sessions work for."""
    return any(getattr(tool, "name", "") == SUBMIT for tool in agent.toolset)
