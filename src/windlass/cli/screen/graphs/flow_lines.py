"""Workflows as people read them: nodes in a table, and one line for whatever becomes of one. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from windlass.cli.terminal.text import one_line
from windlass.cli.terminal.visible_text import spelt

if TYPE_CHECKING:
    from windlass.events.values.graphs import FlowGraph
    from windlass.runtime.api.flows import NodeView

OUTPUT_CHARS_MAX = 80
ENDED = ("done", "failed", "skipped", "pruned", "cancelled")
MARKS = {"done": "✓", "failed": "✗", "skipped": "-", "pruned": "-", "cancelled": "✗"}


def graph_rows(graph: FlowGraph) -> list[list[str]]:
    """The nodes of a graph, one row each."""
    from windlass.runtime.flows.diagrams.links import described

    rows = [["NODE", "WHAT", "NEEDS"]]
    for node in graph.nodes:
        needs = [*node.needs, *(f"{name}?" for name in node.optional)]
        rows.append([spelt(node.name), spelt(described(node)), spelt(" ".join(needs))])
    return rows


def node_rows(nodes: Mapping[str, NodeView]) -> list[list[str]]:
    """Nodes as far as they have got, one row each."""
    rows = [["NODE", "STATE", "OUTPUT"]]
    for node in nodes.values():
        told = node.reason if node.status != "done" else as_text(node.output)
        rows.append([spelt(node.name), node.status, one_line(told, OUTPUT_CHARS_MAX)])
    return rows


def as_text(output: Any) -> str:
    from windlass.runtime.flows.references import text_of

    return text_of(output)


class Progress:
    """Says in one line what became of a node, and how many have ended."""

    def __init__(self, count: int, ended: Iterable[str] = ()) -> None:
        self._count = count
        self._ended = set(ended)

    def line(self, event: Any) -> str:
        """The line for an event of a node."""
        from windlass.events.trees.flows import NodeFinished, NodeRetried, NodeStarted

        name = spelt(event.node)
        if isinstance(event, NodeStarted):
            self._ended.discard(event.node)
            again = f" (attempt {event.attempt})" if event.attempt > 1 else ""
            return f"{self._so_far()} ▸ {name}{again}"
        if isinstance(event, NodeFinished):
            self._ended.add(event.node)
            why = f": {one_line(event.reason, OUTPUT_CHARS_MAX)}" if event.reason else ""
            branch = f" → {spelt(event.branch)}" if event.branch else ""
            return f"{self._so_far()} {MARKS[event.status]} {name} {event.status}{branch}{why}"
        if isinstance(event, NodeRetried):
            return f"{self._so_far()} ↻ {name} again: {one_line(event.reason, OUTPUT_CHARS_MAX)}"
        return f"{self._so_far()} ■ {name} stopped ({event.reason})"

    def _so_far(self) -> str:
        return f"[{len(self._ended)}/{self._count}]"
