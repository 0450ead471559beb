"""The graph of a workflow: its nodes, what each needs, and what is done if one does not end well. Plain data."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from .blocks import JsonObject, Nat, Value

Count = Annotated[int, msgspec.Meta(gt=0)]

NodeKind = Literal["spawn", "reduce", "classify", "loop", "map", "gate", "tool", "verify", "tournament", "phase"]
"""What a node does: one child session; a pure function; a child that chooses a branch; a child again and again until
it is done; a child for each of several items; a question to a person, or a condition; a tool; a child that judges;
children that compete; a child whose work is checked before anything goes on."""

OnFailure = Literal["continue", "stop"]
"""What becomes of the rest if a node fails: what does not need it goes on, or all of it stops."""

INPUT = "input"
"""The name by which nodes speak of what the workflow was given."""


class FlowNode(Value, frozen=True, kw_only=True):
    """One node of a graph."""

    name: str
    """What others need it by: letters, digits and `_`."""
    kind: NodeKind = "spawn"
    """What it does."""
    needs: tuple[str, ...] = ()
    """The nodes whose outputs it works on: it starts when they are done."""
    optional: tuple[str, ...] = ()
    """Nodes that it waits for and does without if they do not end well."""
    quorum: Count | None = None
    """How many of those that it needs are enough; all of them if absent."""
    agent: str = ""
    """The agent that its child sessions are run by."""
    task: str = ""
    """What the child is told. `{input}` and `{name}` stand for the input and for the output of a node that it needs; if
    it names none, the outputs follow it."""
    output: JsonObject | None = None
    """The JSON Schema that its output must fit; it is asked for once more if it does not."""
    reducer: str = ""
    """The function that makes its output out of those that it needs, by name."""
    branches: dict[str, tuple[str, ...]] = {}
    """The nodes that each answer of a classifier leads to; the others are left out."""
    rounds_max: Count = 5
    """How often a loop goes round at the most, or a phase is worked on before it blocks."""
    over: str = ""
    """What a map goes over: the output of this node, or the input."""
    items_max: Count = 100
    """How many items a map takes at the most."""
    entrants: tuple[str, ...] = ()
    """The tasks of those that compete, besides the outputs of the nodes that it needs."""
    judge: str = ""
    """The agent that judges between two of them, `agent` if empty; or whether a phase has passed."""
    tool: str = ""
    """The tool that it calls, by name."""
    args: JsonObject = {}
    """What the tool is given; texts in it may speak of other nodes like a task."""
    question: str = ""
    """What a person is asked at a gate."""
    when: str = ""
    """Instead: the condition under which a gate lets pass, as a CEL expression over the input and the outputs. Of a
    phase: the condition that its output must meet, as `args.output`."""
    unlocks: tuple[str, ...] = ()
    """Tools that no child session and no node may use before this phase has passed."""
    retries: Nat = 0
    """How often it is tried again."""
    retry_wait_ms: Nat = 0
    """How long it pauses before it is tried again; twice as long before each further time."""
    timeout_ms: Count | None = None
    """How long an attempt may take, waiting included."""
    limits: dict[str, Nat] = {}
    """What each of its child sessions may use at the most."""
    quarantine: bool = False
    """Whether its child sessions may only read."""
    sees_budget: bool = False
    """Whether it is told what is left of the budget."""


class FlowGraph(Value, frozen=True, kw_only=True):
    """A workflow as a value."""

    nodes: tuple[FlowNode, ...]
    on_failure: OnFailure = "continue"
    parallel_max: Count = 16
    """How many nodes may be at work at the same time."""
    results: tuple[str, ...] = ()
    """The nodes that the workflow is there for: it fails if one of them does. Those that nobody needs, if empty."""
