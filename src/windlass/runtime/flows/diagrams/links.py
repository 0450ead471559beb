"""What a diagram shows of a graph: who waits for whom, how, and what each node is, in a few words."""

from __future__ import annotations

from typing import NamedTuple

from windlass.events.values.graphs import FlowGraph, FlowNode

LABEL_CHARS_MAX = 24
COLOURS = {
    "done": "#d7f0dc",
    "failed": "#f8d7da",
    "cancelled": "#f8d7da",
    "skipped": "#eeeeee",
    "pruned": "#eeeeee",
    "computing": "#fff3cd",
    "working": "#fff3cd",
    "returned": "#fff3cd",
    "pausing": "#fff3cd",
}
"""What a node is filled with, by how far it has got."""
PLAIN = "#ffffff"


class Link(NamedTuple):
    """One node waits for another."""

    source: str
    target: str
    label: str = ""
    optional: bool = False


def links_of(graph: FlowGraph) -> list[Link]:
    """All of them, in the order of the nodes."""
    chosen = {
        (node.name, name): label for node in graph.nodes for label, names in node.branches.items() for name in names
    }
    found = []
    for node in graph.nodes:
        found += [Link(need, node.name, chosen.get((need, node.name), "")) for need in node.needs]
        found += [Link(need, node.name, "", True) for need in node.optional]
    return found


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


def short(text: str) -> str:
    return text if len(text) <= LABEL_CHARS_MAX else text[: LABEL_CHARS_MAX - 1] + "…"
