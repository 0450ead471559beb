"""A workflow as Mermaid text, which many pages and editors draw."""

from __future__ import annotations

from collections.abc import Mapping

from windlass.events.values.graphs import FlowGraph, FlowNode

from .links import COLOURS, described, links_of

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
    for link in links_of(graph):
        arrow = "-.->" if link.optional else "-->"
        label = f"|{_quoted(_safe(link.label))}|" if link.label else ""
        lines.append(f"    {_id(link.source)} {arrow}{label} {_id(link.target)}")
    for status, colour in COLOURS.items():
        named = [_id(name) for name, there in known.items() if there == status]
        if named:
            lines.append(f"    classDef {status} fill:{colour}")
            lines.append(f"    class {','.join(named)} {status}")
    return "\n".join(lines) + "\n"


def _id(name: str) -> str:
    """A node's own id: some words mean something to Mermaid."""
    return f"n_{name}"


def _box(node: FlowNode, status: str) -> str:
    begin, end = SHAPES.get(node.kind, ("[", "]"))
    told = f"<br/>{status}" if status else ""
    return f"{begin}{_quoted(f'{node.name}<br/>{_safe(described(node))}{told}')}{end}"


def _quoted(text: str) -> str:
    return f'"{text}"'


def _safe(text: str) -> str:
    """Words without what Mermaid or a page would take for something else."""
    for sign, word in (("&", "#amp;"), ('"', "#quot;"), ("<", "#lt;"), (">", "#gt;"), ("\n", " ")):
        text = text.replace(sign, word)
    return text
