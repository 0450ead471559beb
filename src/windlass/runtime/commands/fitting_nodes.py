"""Nodes that are to be added to a workflow, looked at with the code of the workflow: its agents, tools and reducers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from windlass.events.errors import Refused
from windlass.events.trees.growth import NodesReceived
from windlass.kernel.parts.flows import growth, node_graph
from windlass.runtime.flows.kinds.gate import ASK

if TYPE_CHECKING:
    from windlass.kernel.state import State
    from windlass.runtime.bind.bound_agent import Bound

PROBLEMS_SHOWN_MAX = 20


def fitting(command: NodesReceived, state: State, bound: Bound) -> NodesReceived:
    """The command with its classifiers among what their branches need. Raises `Refused` with all that is wrong."""
    from windlass.runtime.flows.checks import problems_of
    from windlass.runtime.flows.flow import with_classifiers

    flow = bound.agent.flow
    begun = state.flow.graph
    if flow is None or begun is None:
        return command  # the kernel says why not
    command = msgspec.structs.replace(command, nodes=with_classifiers(command.nodes))
    reads = growth.quarantined(state, command)
    problems = list(growth.problems(state.flow, command, reads=reads))
    before = node_graph.current(begun, state.flow)
    new = tuple(node for node in command.nodes if node.name not in state.flow.nodes)
    graph = msgspec.structs.replace(before, nodes=(*before.nodes, *new))
    known = {line.partition(":")[0] for line in problems}
    more = problems_of(graph, flow.agents_by_name(), flow.tools_by_name(), flow.reducers)
    problems += [line for line in more if line.partition(":")[0] not in known or "which is no node" not in line]
    if ASK not in state.toolset.tools:
        asking = [node.name for node in command.nodes if node.kind == "gate" and node.question]
        problems += [f"{name}: this workflow cannot ask people: use a condition (when=…)" for name in asking]
    if problems:
        raise Refused("bad_nodes", "\n".join(list(dict.fromkeys(problems))[:PROBLEMS_SHOWN_MAX]))
    return command
