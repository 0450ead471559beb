"""Workflows that grow: nodes are added while others are at work, within quotas, and never walk around a quarantine.

nodes.received ──(checked: quotas, names, circles)──▶ nodes.added ──▶ the new nodes wait for what they need like any
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from windlass.events.errors import Refused
from windlass.events.trees.growth import NodesAdded, NodesReceived
from windlass.events.values.graphs import FlowNode
from windlass.kernel.part import Decisions, Part, Row
from windlass.kernel.parts import queue, runs
from windlass.kernel.parts.flows import node_graph, nodes
from windlass.kernel.parts.tools import labels
from windlass.kernel.parts.trees import child_side
from windlass.kernel.phases import STARTED, Asked, Asleep

if TYPE_CHECKING:
    from windlass.kernel.parts.flows.nodes import Flow
    from windlass.kernel.state import State

PROBLEMS_SHOWN_MAX = 20


def submitter(state: State, fact: NodesReceived) -> str:
    """The node at work whose child session adds nodes; empty if a person does."""
    return state.flow.calls.get(child_side.origin_of(fact.session), "") if fact.session else ""


def quarantined(state: State, fact: NodesReceived) -> bool:
    """Whether whoever adds nodes may only read: what they have done may only read then, too."""
    if state.labels.quarantined:
        return True
    child = state.children.open.get(child_side.origin_of(fact.session)) if fact.session else None
    return child is not None and child.quarantine


def left(state: State) -> int:
    """How many more nodes may be added."""
    return max(0, state.setup.settings.nodes_max - len(state.flow.nodes))


# --- fold ---------------------------------------------------------------------------------------------------------


def nodes_received(state: State, fact: NodesReceived) -> None:
    flow = state.flow
    if fact.labels:
        labels.meet(state, fact.labels, fact.session)
    reads = quarantined(state, fact)
    new = [msgspec.structs.replace(node, quarantine=True) if reads else node for node in fact.nodes]
    node_graph.add(flow, new)
    needed = {name for node in new for name in node_graph.waited_for(node)}
    last = [node.name for node in new if node.name not in needed]
    node_graph.put_before(flow, last, fact.before)


# --- when, and what follows ---------------------------------------------------------------------------------------


def check_received(state: State, fact: NodesReceived) -> None:
    """Raises `Refused` with all that is wrong with what is to be added."""
    flow, settings = state.flow, state.setup.settings
    if flow.graph is None or not flow.input_seq:
        raise Refused("no_flow", f"{state.session_id!r} is no workflow that has begun")
    if node_graph.over(flow) and not node_graph.failed(flow):
        raise Refused("flow_over", f"the workflow {state.session_id!r} has run: nothing can be added to it")
    if nodes.cancelled(state):
        raise Refused("flow_over", f"the workflow {state.session_id!r} was cancelled: nothing can be added to it")
    if fact.session and not submitter(state, fact):
        raise Refused("stale", "the node that adds these is not at work any more")
    if len(fact.nodes) > settings.nodes_added_max:
        told = f"{len(fact.nodes)} nodes at once, and {settings.nodes_added_max} are the most (nodes_added_max)"
        raise Refused("quota", f"{told}: add fewer")
    if len(fact.nodes) > left(state):
        told = f"{len(fact.nodes)} nodes, and {left(state)} more may be added (nodes_max {settings.nodes_max})"
        raise Refused("quota", f"{told}: add fewer, or do with those that are there")
    mistakes = list(problems(flow, fact, reads=quarantined(state, fact)))
    if mistakes:
        raise Refused("bad_nodes", "\n".join(mistakes[:PROBLEMS_SHOWN_MAX]))


def problems(flow: Flow, fact: NodesReceived, *, reads: bool) -> Iterator[str]:
    """What would not fit the graph as it is now."""
    new = {node.name: node for node in fact.nodes}
    if not new:
        yield "there is nothing to add"
    if len(new) < len(fact.nodes):
        yield "two of the new nodes have one name: give each its own"
    behind = downstream(flow, fact.before)
    for node in fact.nodes:
        yield from (f"{node.name}: {told}" for told in _node(flow, node, new, behind))
        if reads and node.kind == "tool":
            yield f"{node.name}: a node that may only read adds no node that calls a tool: let an agent read instead"
    for name in fact.before:
        status = flow.nodes[name].status if name in flow.nodes else "not there"
        if status != "waiting":
            yield f"before: {name} is {status}: only a node that has not begun can wait for new ones"
    yield from _circles(new)


def _node(flow: Flow, node: FlowNode, new: dict[str, FlowNode], behind: set[str]) -> Iterator[str]:
    if node.name in flow.nodes:
        yield "there is a node of this name: give it another one"
    for name in node_graph.waited_for(node):
        if name not in flow.nodes and name not in new:
            yield f"it needs {name!r}, which is no node"
        elif name in behind:
            yield f"it needs {name}, which is to wait for it: take one of these away"
    for names in node.branches.values():
        for name in names:
            if name not in new:
                yield f"it leads to {name}: a new classifier chooses among new nodes"
            elif node.name not in node_graph.waited_for(new[name]):
                yield f"it leads to {name}, which does not need it: add it to its needs"


def downstream(flow: Flow, before: tuple[str, ...]) -> set[str]:
    """Those nodes, and all that wait for them."""
    seen: set[str] = set()
    waiting = [name for name in before if name in flow.nodes]
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting += flow.nodes[name].wanted_by
    return seen


def _circles(new: dict[str, FlowNode]) -> Iterator[str]:
    waiting = {name: {need for need in node_graph.waited_for(node) if need in new} for name, node in new.items()}
    while free := [name for name, needs in waiting.items() if not needs]:
        for name in free:
            del waiting[name]
        for needs in waiting.values():
            needs.difference_update(free)
    if waiting:
        yield f"{', '.join(sorted(waiting))}: they wait for each other in a circle: take a need away"


def on_received(state: State, fact: NodesReceived) -> Decisions:
    yield NodesAdded(
        names=tuple(node.name for node in fact.nodes),
        node=submitter(state, fact),
        quarantine=quarantined(state, fact),
        left=left(state),
    )
    yield queue.done(fact.command_id)
    if not state.active and isinstance(state.phase, Asked | Asleep):
        yield from runs.begin(state, "change", continues=True)


PART = Part(
    name="growth",
    facts={NodesReceived: Row(when=STARTED, check=check_received, fold=nodes_received, then=on_received)},
    decisions={NodesAdded: None},
)
