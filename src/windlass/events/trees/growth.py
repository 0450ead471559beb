"""Workflows that grow while they run, and milestones that they pass or are held up at."""

from __future__ import annotations

from typing import ClassVar

from windlass.events.base import Category, Command, Decision, Nat
from windlass.events.values.graphs import FlowNode


class NodesReceived(Command, frozen=True, kw_only=True, tag="nodes.received"):
    """Somebody, or a node at work, wants nodes added to a workflow that runs."""

    nodes: tuple[FlowNode, ...]
    """The new nodes, as a graph has them."""
    before: tuple[str, ...] = ()
    """Nodes that have not begun and are to wait for the new ones, too."""
    session: str = ""
    """The child session that adds them, if a node does."""
    labels: tuple[str, ...] = ()
    """What the history of that session is marked with."""


class NodesAdded(Decision, frozen=True, kw_only=True, tag="nodes.added"):
    """A workflow has more nodes from here on."""

    CATEGORY: ClassVar[Category] = "proc"
    names: tuple[str, ...]
    """The new nodes, by their names."""
    node: str = ""
    """The node that added them, by its name; empty if a person did."""
    quarantine: bool = False
    """Whether their child sessions may only read because those of the node that added them may."""
    left: Nat = 0
    """How many more may be added."""


class MilestoneAdvanced(Decision, frozen=True, kw_only=True, tag="milestone.advanced"):
    """A phase of a workflow passed its check: what waits for it may begin, and what it unlocks may be used."""

    CATEGORY: ClassVar[Category] = "proc"
    node: str
    """The phase, by the name of its node."""
    unlocks: tuple[str, ...] = ()
    """The tools that may be used from here on."""
    evidence_seq: Nat | None = None
    """The record of the verdict, or of the output that the condition was judged by."""
    rounds: Nat = 1
    """How often it was worked on."""


class MilestoneBlocked(Decision, frozen=True, kw_only=True, tag="milestone.blocked"):
    """A phase did not pass its check as often as it was worked on: what waits for it does not begin."""

    CATEGORY: ClassVar[Category] = "proc"
    node: str
    """The phase, by the name of its node."""
    reason: str = ""
    rounds: Nat = 0
    """How often it was worked on."""
