"""A workflow as SVG: each node below what it waits for."""

from __future__ import annotations

from collections.abc import Mapping

from windlass.events.values.graphs import FlowGraph, FlowNode
from windlass.runtime.diagrams import svg as picture
from windlass.runtime.diagrams.boxes import Box

from .links import described, links_of


def svg(graph: FlowGraph, statuses: Mapping[str, str] | None = None) -> str:
    """The graph; with the colours of what its nodes have come to, if that is given."""
    known = statuses or {}
    boxes = [_box(node, known.get(node.name, "")) for node in graph.nodes]
    return picture.svg(boxes, links_of(graph), "a workflow")


def _box(node: FlowNode, status: str) -> Box:
    below = f"{node.kind}, {status}" if status else described(node)
    return Box(node.name, node.name, below, status, "round" if node.kind in ("gate", "classify") else "box")
