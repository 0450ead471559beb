"""Diagrams of machines, drawn from the definition alone: Mermaid text, and SVG."""

from __future__ import annotations

from collections.abc import Sequence
from xml.sax.saxutils import escape

from windlass.events.values.machines import MachineSpec, MachineState
from windlass.kernel.parts.machines.states import follow
from windlass.runtime.diagrams.boxes import COLOURS, PLAIN, Link, short
from windlass.runtime.diagrams.svg import FONT, GAP_X, GAP_Y, HEIGHT, MARGIN, WIDTH, ordered

SHAPES = {
    "poll": ("([", "])"),
    "timer": ("([", "])"),
    "park": ("{", "}"),
    "script": ("[/", "/]"),
    "terminal": ("((", "))"),
}
"""What encloses the words of a state, by its kind; square brackets otherwise."""
CURRENT = "working"
LOOP_ROOM = 60
"""Room at the right for the ways that lead back."""
LANE, LANES = 6, 7
"""How far from each other they go up there, and how many beside each other."""


def links_of(spec: MachineSpec) -> list[Link]:
    """The ways between states that are written down. Of a state that any may follow, only its failure is drawn."""
    states = {one.name: one for one in spec.states}
    links = []
    for one in spec.states:
        if one.kind == "terminal":
            continue
        links += [Link(one.name, name) for name in follow(one, states)] if one.next else []
        if one.on_failure and one.on_failure not in one.next:
            links.append(Link(one.name, one.on_failure, "failed", True))
    return links


def described(one: MachineState) -> str:
    """What happens in a state, beside its name."""
    if one.kind == "terminal":
        return one.outcome
    if one.kind == "poll" and one.every_ms is not None:
        return f"poll every {_duration(one.every_ms)}"
    if one.kind == "timer":
        return f"timer: {_duration(one.after_ms)}" if one.after_ms is not None else "timer: a date"
    return "a person decides" if one.kind == "park" else one.kind


def _duration(ms: int) -> str:
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000)):
        if ms % size == 0:
            return f"{ms // size}{unit}"
    return f"{ms}ms"


def mermaid(spec: MachineSpec, current: str = "") -> str:
    """The machine as Mermaid text, with the current state filled."""
    lines = ["flowchart TD"]
    for one in spec.states:
        begin, end = SHAPES.get(one.kind, ("[", "]"))
        free = "<br/>(the agent chooses)" if not one.next and one.kind != "terminal" else ""
        lines.append(f'    {_id(one.name)}{begin}"{one.name}<br/>{described(one)}{free}"{end}')
    lines.append(f"    begin(( )) --> {_id(spec.first)}")
    for link in links_of(spec):
        arrow = "-.->|failed|" if link.optional else "-->"
        lines.append(f"    {_id(link.source)} {arrow} {_id(link.target)}")
    if current:
        lines += [f"    classDef current fill:{COLOURS[CURRENT]}", f"    class {_id(current)} current"]
    return "\n".join(lines) + "\n"


def _id(name: str) -> str:
    return f"s_{name.replace('-', '__')}"


def svg(spec: MachineSpec, current: str = "") -> str:
    """The machine as SVG: each state below the first that leads to it, ways back at the side."""
    links = links_of(spec)
    rows = ordered(_layered(spec, links), [link for link in links if link.source != link.target])
    widest = max(len(row) for row in rows)
    width = 2 * MARGIN + widest * WIDTH + (widest - 1) * GAP_X + LOOP_ROOM
    height = 2 * MARGIN + len(rows) * HEIGHT + (len(rows) - 1) * GAP_Y
    places = {name: _place(number, at, row, width) for at, row in enumerate(rows) for number, name in enumerate(row)}
    head = (
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {height}' width='{width}' height='{height}' "
        "role='img' aria-label='a state machine'>"
    )
    arrow = (
        "<defs><marker id='arrow' viewBox='0 0 8 8' refX='7' refY='4' markerWidth='7' markerHeight='7' orient='auto'>"
        "<path d='M0,0 L8,4 L0,8 z' fill='#666'/></marker></defs>"
    )
    drawn = [_line(link, places, width - MARGIN - number % LANES * LANE) for number, link in enumerate(links)]
    drawn += [_box(one, places[one.name], filled=one.name == current) for one in spec.states]
    return "\n".join([head, arrow, f"<rect width='{width}' height='{height}' fill='#fff'/>", *drawn, "</svg>"]) + "\n"


def _layered(spec: MachineSpec, links: Sequence[Link]) -> list[list[str]]:
    """The states in rows by how many steps lead to each; those that only an agent's choice leads to stand last."""
    depth = {spec.first: 0}
    line = [spec.first]
    while line:
        name = line.pop(0)
        for link in links:
            if link.source == name and link.target not in depth:
                depth[link.target] = depth[name] + 1
                line.append(link.target)
    last = max(depth.values()) + 1
    rows: list[list[str]] = [[] for _ in range(last + 1)]
    for one in spec.states:
        rows[depth.get(one.name, last)].append(one.name)
    return [row for row in rows if row]


def _place(number: int, row: int, names: Sequence[str], width: int) -> tuple[int, int]:
    taken = len(names) * WIDTH + (len(names) - 1) * GAP_X
    return (width - LOOP_ROOM - taken) // 2 + number * (WIDTH + GAP_X), MARGIN + row * (HEIGHT + GAP_Y)


def _line(link: Link, places: dict[str, tuple[int, int]], lane: int) -> str:
    """A line from state to state. One that leads back stays at the right of both if nothing else stands there, else it
    goes around all states: below its own row, up the lane at the side, and into what it leads to from above."""
    (x1, y1), (x2, y2) = places[link.source], places[link.target]
    dashes = " stroke-dasharray='4 3'" if link.optional else ""
    if y2 > y1:
        x1, y1, x2 = x1 + WIDTH // 2, y1 + HEIGHT, x2 + WIDTH // 2
        bend = (y2 - y1) // 2
        path = f"M{x1},{y1} C{x1},{y1 + bend} {x2},{y2 - bend} {x2},{y2}"
    elif y1 == y2 or any(x > min(x1, x2) and y2 <= y <= y1 for x, y in _others(link, places)):
        x1, y1, x2 = x1 + WIDTH // 2, y1 + HEIGHT, x2 + WIDTH // 2
        below, above = y1 + MARGIN, y2 - MARGIN
        path = (
            f"M{x1},{y1} C{x1},{below} {lane},{below} {lane},{y1} L{lane},{y2} C{lane},{above} {x2},{above} {x2},{y2}"
        )
    else:
        side = max(x1, x2) + WIDTH + LOOP_ROOM - 16
        x1, x2, middle1, middle2 = x1 + WIDTH, x2 + WIDTH, y1 + HEIGHT // 2, y2 + HEIGHT // 2
        path = f"M{x1},{middle1} C{side},{middle1} {side},{middle2} {x2},{middle2}"
    return f"<path d='{path}' fill='none' stroke='#666' marker-end='url(#arrow)'{dashes}/>"


def _others(link: Link, places: dict[str, tuple[int, int]]) -> list[tuple[int, int]]:
    return [place for name, place in places.items() if name not in (link.source, link.target)]


def _box(one: MachineState, place: tuple[int, int], *, filled: bool) -> str:
    x, y = place
    middle, round_ = x + WIDTH // 2, 20 if one.kind in ("park", "terminal") else 6
    colour = COLOURS[CURRENT] if filled else COLOURS["done"] if one.kind == "terminal" else PLAIN
    colour = COLOURS["failed"] if one.kind == "terminal" and one.outcome != "completed" else colour
    return (
        f"<rect x='{x}' y='{y}' width='{WIDTH}' height='{HEIGHT}' rx='{round_}' fill='{colour}' stroke='#333'/>"
        f"<text x='{middle}' y='{y + 20}' {FONT} font-size='13' fill='#111'>{escape(short(one.name))}</text>"
        f"<text x='{middle}' y='{y + 37}' {FONT} font-size='11' fill='#444'>{escape(short(described(one)))}</text>"
    )
