"""A workflow as Mermaid text, which many pages and editors draw."""

from __future__ import annotations

from collections.abc import Mapping

from windlass.events.values.graphs import FlowGraph, FlowNode
from windlass.runtime.diagrams.mermaid import arrow, filled, quoted, safe

from .links import described, links_of

SHAPES = {
    "classify": ("{{", "}}"),
    "gate": ("{", "}"),
    "reduce": ("[[", "]]"),
    "tool": ("[/", "/]"),
    "loop": ("([", "])"),
    "map": ("[[", "]]"),
}
"""What encloses a node's words, by its kind; square brackets otherwise."""


def mermaid(graph: FlowGraph, statuses: Mapping[str, str] | None = None) -> str:
    """The graph; with the colours of what its nodes have come to, if that is given."""
    known = statuses or {}
    lines = ["flowchart TD"]
    lines += [f"    {_id(node.name)}{_box(node, known.get(node.name, ''))}" for node in graph.nodes]
    lines += [arrow(_id(link.source), _id(link.target), link) for link in links_of(graph)]
    return "\n".join([*lines, *filled([(_id(name), status) for name, status in known.items()])]) + "\n"


def _id(name: str) -> str:
    """A node's own id: some words mean something to Mermaid."""
    return f"n_{name}"


def _box(node: FlowNode, status: str) -> str:
    begin, end = SHAPES.get(node.kind, ("[", "]"))
    told = f"<br/>{status}" if status else ""
    return f"{begin}{quoted(f'{node.name}<br/>{safe(described(node))}{told}')}{end}"
