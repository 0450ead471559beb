"""Workflows: a graph that is carried out in a session of its own, and what becomes of each of its nodes."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from windlass.events.base import Category, Command, Decision, Fact, Nat
from windlass.events.turns import Prepared
from windlass.events.values.blocks import JsonObject, Value

NodeEnd = Literal["done", "failed", "skipped", "pruned", "cancelled"]
"""How a node ended: well; not well; never begun because of one that it needed; left out by a classifier or a gate;
stopped."""


class FlowBody(Value, frozen=True, kw_only=True):
    """What a workflow is given."""

    input: Any = None


class NodeCall(Value, frozen=True, kw_only=True):
    """A call that a node makes, with what the host found out about it."""

    tool: str
    args: JsonObject = {}
    prepared: Prepared | None = None


class NodeBody(Value, frozen=True, kw_only=True):
    """What was worked out for a node: its calls, or its output."""

    calls: tuple[NodeCall, ...] = ()
    output: Any = None


class FlowReceived(Command, frozen=True, kw_only=True, tag="flow.received"):
    """Somebody wants a workflow to begin, or to go on where it was stopped."""

    body: FlowBody | None = None


class NodeStarted(Decision, frozen=True, kw_only=True, tag="node.started"):
    """What a node needs is there: it is at work from here on."""

    CATEGORY: ClassVar[Category] = "proc"
    node: str
    """The node, by its name."""
    attempt: Nat = 1
    expires_ms: Nat | None = None
    """When its time is over."""


class NodeComputed(Fact, frozen=True, kw_only=True, tag="node.computed"):
    """The host worked out what comes next for a node, from its needs and from what its calls gave: more calls, or its
    output."""

    CATEGORY: ClassVar[Category] = "proc"
    node: str
    """The node, by its name."""
    attempt: Nat = 1
    round: Nat = 0
    """How many times it has made calls before."""
    calls: Nat = 0
    """How many calls it makes now; none if it has ended."""
    outcome: Literal["done", "failed", "closed"] = "done"
    """How it ended, if it makes no calls. `closed`: a gate that lets nothing pass."""
    output_seq: Nat | None = None
    """The record whose content is its output, if that is not here."""
    branch: str = ""
    """What a classifier chose."""
    reason: str = ""
    body: NodeBody | None = None


class NodeRetried(Decision, frozen=True, kw_only=True, tag="node.retried"):
    """An attempt of a node did not end well; it is tried again."""

    CATEGORY: ClassVar[Category] = "proc"
    node: str
    """The node, by its name."""
    attempt: Nat
    reason: str = ""
    at_ms: Nat | None = None
    """When it begins again, if that is not at once."""


class NodeStopped(Decision, frozen=True, kw_only=True, tag="node.stopped"):
    """A node was at work when the workflow was stopped; it begins anew if that goes on."""

    CATEGORY: ClassVar[Category] = "proc"
    node: str
    """The node, by its name."""
    reason: Literal["interrupted", "cancelled", "not_carried_over"]


class NodeFinished(Decision, frozen=True, kw_only=True, tag="node.finished"):
    """A node came to its end; those that need it are looked at."""

    CATEGORY: ClassVar[Category] = "proc"
    node: str
    """The node, by its name."""
    status: NodeEnd
    """How it ended."""
    attempt: Nat = 0
    output_seq: Nat | None = None
    """The record that has its output, or why it failed."""
    branch: str = ""
    """What a classifier chose."""
    reason: str = ""
