"""What a diagram shows of a graph: who waits for whom, how, and what each node is, in a few words."""

from __future__ import annotations

from windlass.events.values.graphs import FlowGraph, FlowNode
from windlass.runtime.diagrams.boxes import Link


def links_of(graph: FlowGraph) -> list[Link]:
    """All of them, in the order of the nodes."""
    chosen = {
        (node.name, name): label for node in graph.nodes for label, names in node.branches.items() for name in names
    }
    links = []
    for node in graph.nodes:
        links += [Link(need, node.name, chosen.get((need, node.name), "")) for need in node.needs]
        links += [Link(need, node.name, "", True) for need in node.optional]
    return links


def described(node: FlowNode) -> str:
    """What a node does, beside its name."""
    match node.kind:
        case "reduce":
            return f"reduce: {node.reducer}"
        case "tool":
            return f"tool: {node.tool}"
        case "gate":
            return "gate: condition" if node.when else "gate: a person"
        case "loop":
            return f"loop: {node.agent}, up to {node.rounds_max}"
        case "map":
            return f"map over {node.over}: {node.agent or node.reducer}"
        case "tournament":
            return f"tournament: {node.agent}"
        case "phase":
            return f"phase: {node.agent}, checked by {node.judge or 'a condition'}"
        case "spawn" | "verify" | "classify":
            return f"{node.kind}: {node.agent}"
