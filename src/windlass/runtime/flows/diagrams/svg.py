"""A workflow as SVG: each node below what it waits for, in rows that are ordered so that few lines cross."""

from __future__ import annotations

from collections.abc import Mapping
from xml.sax.saxutils import escape

from windlass.events.values.graphs import FlowGraph, FlowNode

from .links import COLOURS, PLAIN, Link, described, links_of, short

WIDTH, HEIGHT = 180, 48
GAP_X, GAP_Y, MARGIN = 24, 48, 16
SWEEPS = 4
"""How often rows are put in the order of what they hang from, and of what hangs from them."""
FONT = "font-family='sans-serif' text-anchor='middle'"


def svg(graph: FlowGraph, statuses: Mapping[str, str] | None = None) -> str:
    """The graph; with the colours of what its nodes have come to, if that is given."""
    known, links = statuses or {}, links_of(graph)
    rows = ordered(layered(graph, links), links)
    widest = max(len(row) for row in rows)
    width = 2 * MARGIN + widest * WIDTH + (widest - 1) * GAP_X
    height = 2 * MARGIN + len(rows) * HEIGHT + (len(rows) - 1) * GAP_Y
    places: dict[str, tuple[int, int]] = {}
    for at, row in enumerate(rows):
        places |= {name: _place(number, at, len(row), width) for number, name in enumerate(row)}
    drawn = [_line(link, places) for link in links]
    drawn += [_box(node, places[node.name], known.get(node.name, "")) for node in graph.nodes]
    head = (
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {height}' width='{width}' height='{height}' "
        "role='img' aria-label='a workflow'>"
    )
    arrow = (
        "<defs><marker id='arrow' viewBox='0 0 8 8' refX='7' refY='4' markerWidth='7' markerHeight='7' orient='auto'>"
        "<path d='M0,0 L8,4 L0,8 z' fill='#666'/></marker></defs>"
    )
    ground = f"<rect width='{width}' height='{height}' fill='#fff'/>"
    return "\n".join([head, arrow, ground, *drawn, "</svg>"]) + "\n"


def layered(graph: FlowGraph, links: list[Link]) -> list[list[str]]:
    """The nodes in rows: each in the one behind the last of those that it waits for."""
    above: dict[str, list[str]] = {node.name: [] for node in graph.nodes}
    for link in links:
        above[link.target].append(link.source)
    depth: dict[str, int] = {}
    waiting = [node.name for node in graph.nodes]
    while waiting:
        later = [name for name in waiting if any(source not in depth for source in above[name])]
        for name in waiting:
            if name not in later:
                depth[name] = max((depth[source] + 1 for source in above[name]), default=0)
        if len(later) == len(waiting):
            raise ValueError("a graph with a circle cannot be drawn")
        waiting = later
    rows: list[list[str]] = [[] for _ in range(max(depth.values()) + 1)]
    for node in graph.nodes:
        rows[depth[node.name]].append(node.name)
    return rows


def ordered(rows: list[list[str]], links: list[Link]) -> list[list[str]]:
    """The same rows, each in the order of the middle of what its nodes are tied to."""
    ties: dict[str, list[str]] = {name: [] for row in rows for name in row}
    for link in links:
        ties[link.source].append(link.target)
        ties[link.target].append(link.source)
    rows = [list(row) for row in rows]
    for sweep in range(SWEEPS):
        at = {name: (number + 0.5) / len(row) for row in rows for number, name in enumerate(row)}
        for row in rows if sweep % 2 == 0 else reversed(rows):
            middle = {
                name: sum(at[o] for o in ties[name]) / len(ties[name]) if ties[name] else at[name] for name in row
            }
            row.sort(key=middle.__getitem__)
            at.update({name: (number + 0.5) / len(row) for number, name in enumerate(row)})
    return rows


def _place(number: int, row: int, count: int, width: int) -> tuple[int, int]:
    """The upper left corner of a node: each row stands in the middle."""
    taken = count * WIDTH + (count - 1) * GAP_X
    return (width - taken) // 2 + number * (WIDTH + GAP_X), MARGIN + row * (HEIGHT + GAP_Y)


def _line(link: Link, places: Mapping[str, tuple[int, int]]) -> str:
    (x1, y1), (x2, y2) = places[link.source], places[link.target]
    x1, y1, x2 = x1 + WIDTH // 2, y1 + HEIGHT, x2 + WIDTH // 2
    bend = (y2 - y1) // 2
    dashes = " stroke-dasharray='4 3'" if link.optional else ""
    path = f"M{x1},{y1} C{x1},{y1 + bend} {x2},{y2 - bend} {x2},{y2}"
    drawn = f"<path d='{path}' fill='none' stroke='#666' marker-end='url(#arrow)'{dashes}/>"
    if link.label:
        x, y = (x1 + x2) // 2, (y1 + y2) // 2
        drawn += f"<text x='{x}' y='{y}' {FONT} font-size='11' fill='#444'>{escape(short(link.label))}</text>"
    return drawn


def _box(node: FlowNode, place: tuple[int, int], status: str) -> str:
    x, y = place
    middle = x + WIDTH // 2
    round_ = 20 if node.kind in ("gate", "classify") else 6
    below = short(f"{described(node)}") if not status else short(f"{node.kind}, {status}")
    return (
        f"<rect x='{x}' y='{y}' width='{WIDTH}' height='{HEIGHT}' rx='{round_}' fill='{COLOURS.get(status, PLAIN)}' "
        "stroke='#333'/>"
        f"<text x='{middle}' y='{y + 20}' {FONT} font-size='13' fill='#111'>{escape(short(node.name))}</text>"
        f"<text x='{middle}' y='{y + 37}' {FONT} font-size='11' fill='#444'>{escape(below)}</text>"
    )
