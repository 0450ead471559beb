"""Boxes as SVG: each below what it hangs from, in rows that are ordered so that few lines cross.

A line that skips rows has a lane of its own in each of them, between the boxes: no line crosses one that it does not
belong to.
"""

from __future__ import annotations

import itertools
from collections.abc import Container, Sequence
from xml.sax.saxutils import escape, quoteattr

from .boxes import COLOURS, PLAIN, Box, Link, short

WIDTH, HEIGHT = 180, 48
GAP_X, GAP_Y, MARGIN = 24, 48, 16
LANE = 8
"""The room of a line in a row that it skips."""
SWEEPS = 4
"""How often rows are put in the order of what they hang from, and of what hangs from them."""
FONT = "font-family='sans-serif' text-anchor='middle'"


def svg(boxes: Sequence[Box], links: Sequence[Link], what: str) -> str:
    """The picture. `what` is told to those who cannot see it. Raises `ValueError` if the links go round in a circle."""
    rows, ways = with_lanes(layered([box.name for box in boxes], links), links)
    steps = [Link(*step) for way in ways for step in itertools.pairwise(way)]
    rows = ordered(rows, steps)
    lanes = {name for way in ways for name in way[1:-1]}
    width = 2 * MARGIN + max(taken(row, lanes) for row in rows)
    height = 2 * MARGIN + len(rows) * HEIGHT + (len(rows) - 1) * GAP_Y
    places: dict[str, tuple[int, int]] = {}
    for at, row in enumerate(rows):
        places |= _placed(row, lanes, at, width)
    drawn = [_line(link, [places[name] for name in way]) for link, way in zip(links, ways, strict=True)]
    drawn += [_box(box, places[box.name]) for box in boxes]
    head = (
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {height}' width='{width}' height='{height}' "
        f"role='img' aria-label={_quoted(what)}>"
    )
    arrow = (
        "<defs><marker id='arrow' viewBox='0 0 8 8' refX='7' refY='4' markerWidth='7' markerHeight='7' orient='auto'>"
        "<path d='M0,0 L8,4 L0,8 z' fill='#666'/></marker></defs>"
    )
    ground = f"<rect width='{width}' height='{height}' fill='#fff'/>"
    return "\n".join([head, arrow, ground, *drawn, "</svg>"]) + "\n"


def _quoted(text: str) -> str:
    return "'" + quoteattr(text)[1:-1].replace("'", "&apos;") + "'"


def layered(names: Sequence[str], links: Sequence[Link]) -> list[list[str]]:
    """The boxes in rows: each in the one behind the last of those that lead to it."""
    above: dict[str, list[str]] = {name: [] for name in names}
    for link in links:
        above[link.target].append(link.source)
    depth: dict[str, int] = {}
    waiting = list(names)
    while waiting:
        later = [name for name in waiting if any(source not in depth for source in above[name])]
        for name in waiting:
            if name not in later:
                depth[name] = max((depth[source] + 1 for source in above[name]), default=0)
        if len(later) == len(waiting):
            raise ValueError("a graph with a circle cannot be drawn")
        waiting = later
    rows: list[list[str]] = [[] for _ in range(max(depth.values()) + 1)]
    for name in names:
        rows[depth[name]].append(name)
    return rows


def with_lanes(rows: Sequence[Sequence[str]], links: Sequence[Link]) -> tuple[list[list[str]], list[list[str]]]:
    """The rows with a lane for each link in those that it skips, and the way of each link through them."""
    depth = {name: at for at, row in enumerate(rows) for name in row}
    wide, ways = [list(row) for row in rows], []
    for number, link in enumerate(links):
        skipped = range(depth[link.source] + 1, depth[link.target])
        lanes = [f"{number}\0{at}" for at in skipped]
        for at, lane in zip(skipped, lanes, strict=True):
            wide[at].append(lane)
        ways.append([link.source, *lanes, link.target])
    return wide, ways


def taken(row: Sequence[str], lanes: Container[str]) -> int:
    """How wide a row is."""
    return sum(LANE if name in lanes else WIDTH for name in row) + (len(row) - 1) * GAP_X


def ordered(rows: list[list[str]], links: Sequence[Link]) -> list[list[str]]:
    """The same rows, each in the order of the middle of what its boxes are tied to."""
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


def _placed(row: Sequence[str], lanes: Container[str], at: int, width: int) -> dict[str, tuple[int, int]]:
    """For each box and lane of a row, which stands in the middle: the middle of its upper edge."""
    x, y = (width - taken(row, lanes)) // 2, MARGIN + at * (HEIGHT + GAP_Y)
    places = {}
    for name in row:
        size = LANE if name in lanes else WIDTH
        places[name] = (x + size // 2, y)
        x += size + GAP_X
    return places


def _line(link: Link, way: Sequence[tuple[int, int]]) -> str:
    """A line from box to box: it bends between rows, and goes straight down through each that it skips."""
    dashes = " stroke-dasharray='4 3'" if link.optional else ""
    path = f"M{way[0][0]},{way[0][1] + HEIGHT}"
    for number, ((x1, y1), (x2, y2)) in enumerate(itertools.pairwise(way)):
        y1 += HEIGHT
        bend = (y2 - y1) // 2
        path += f"{f' L{x1},{y1}' if number else ''} C{x1},{y1 + bend} {x2},{y2 - bend} {x2},{y2}"
    drawn = f"<path d='{path}' fill='none' stroke='#666' marker-end='url(#arrow)'{dashes}/>"
    if link.label:
        (x1, y1), (x2, y2) = way[:2]
        x, y = (x1 + x2) // 2, (y1 + HEIGHT + y2) // 2
        drawn += f"<text x='{x}' y='{y}' {FONT} font-size='11' fill='#444'>{escape(short(link.label))}</text>"
    return drawn


def _box(box: Box, place: tuple[int, int]) -> str:
    middle, y = place
    x, round_ = middle - WIDTH // 2, 20 if box.shape == "round" else 6
    return (
        f"<rect x='{x}' y='{y}' width='{WIDTH}' height='{HEIGHT}' rx='{round_}' "
        f"fill='{COLOURS.get(box.status, PLAIN)}' stroke='#333'/>"
        f"<text x='{middle}' y='{y + 20}' {FONT} font-size='13' fill='#111'>{escape(short(box.title))}</text>"
        f"<text x='{middle}' y='{y + 37}' {FONT} font-size='11' fill='#444'>{escape(short(box.below))}</text>"
    )
