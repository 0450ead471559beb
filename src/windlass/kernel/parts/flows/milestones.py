"""Milestones: phases of a workflow. One that passes its check lets what waits for it begin, and unlocks tools; one that
does not holds them up.

    phase at work ──▶ (its output passes) ──▶ milestone.advanced ──▶ node.finished: done
         └─────────▶ (it never passed) ─────▶ milestone.blocked ───▶ node.finished: failed
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from windlass.events.trees.growth import MilestoneAdvanced, MilestoneBlocked
from windlass.kernel.part import Decisions, Part

if TYPE_CHECKING:
    from windlass.kernel.parts.flows.node_graph import Node
    from windlass.kernel.state import State


def passed(state: State, node: Node) -> Decisions:
    """What a node that is done means to a milestone."""
    spec = state.flow.specs[node.name]
    if spec.kind == "phase":
        evidence = node.results[-1][0] if node.results and node.results[-1] else None
        yield MilestoneAdvanced(
            node=node.name, unlocks=spec.unlocks, evidence_seq=evidence, rounds=_rounds(state, node)
        )


def held_up(state: State, node: Node, reason: str) -> Decisions:
    """What a node that failed means to one."""
    if state.flow.specs[node.name].kind == "phase":
        yield MilestoneBlocked(node=node.name, reason=reason, rounds=_rounds(state, node))


def _rounds(state: State, node: Node) -> int:
    """How often a phase was worked on; with a judge, each time takes two rounds of calls."""
    judged = bool(state.flow.specs[node.name].judge)
    return (len(node.results) + 1) // 2 if judged else len(node.results)


PART = Part(name="milestones", facts={}, decisions={MilestoneAdvanced: None, MilestoneBlocked: None})
