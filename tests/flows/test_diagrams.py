"""Diagrams: every node and every edge of a graph is in them, none lies on another, and no text breaks out."""

from __future__ import annotations

import itertools
import pathlib
import re
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernel.test_flows import graphs
from windlass.events.values.graphs import FlowGraph, FlowNode
from windlass.events.values.machines import MachineSpec, MachineState
from windlass.runtime.diagrams.svg import HEIGHT, WIDTH
from windlass.runtime.flows.diagrams.links import links_of
from windlass.runtime.flows.diagrams.mermaid import mermaid
from windlass.runtime.flows.diagrams.svg import svg
from windlass.runtime.machines.diagrams import svg as machine_svg

SVG = "{http://www.w3.org/2000/svg}"
STEPS = 40
HOSTILE = '"]<script>&\n'


def test_mermaid_names_every_node_and_edge():
    graph = FlowGraph(
        nodes=(
            FlowNode(name="kind", kind="classify", agent="judge", branches={"a": ("one",), "b": ("two",)}),
            FlowNode(name="one", needs=("kind",), agent="w"),
            FlowNode(name="two", kind="tool", tool="add", needs=("kind",)),
            FlowNode(name="end", kind="reduce", reducer="concat", needs=("one",), optional=("two",)),
        )
    )
    assert mermaid(graph, {"kind": "done", "one": "working"}) == (
        "flowchart TD\n"
        '    n_kind{{"kind<br/>classify: judge<br/>done"}}\n'
        '    n_one["one<br/>spawn: w<br/>working"]\n'
        '    n_two[/"two<br/>tool: add"/]\n'
        '    n_end[["end<br/>reduce: concat"]]\n'
        '    n_kind -->|"a"| n_one\n'
        '    n_kind -->|"b"| n_two\n'
        "    n_one --> n_end\n"
        "    n_two -.-> n_end\n"
        "    classDef done fill:#d7f0dc\n"
        "    class n_kind done\n"
        "    classDef working fill:#fff3cd\n"
        "    class n_one working\n"
    )


def test_no_text_of_a_graph_breaks_out_of_its_diagram():
    graph = FlowGraph(
        nodes=(
            FlowNode(name="a", agent=HOSTILE, kind="classify", branches={HOSTILE: ("b",)}),
            FlowNode(name="b", needs=("a",)),
        )
    )
    texts = [text.text for text in ElementTree.fromstring(svg(graph)).iter(f"{SVG}text")]
    assert any(text is not None and HOSTILE.split("\n")[0] in text for text in texts)
    assert "<script>" not in mermaid(graph)
    assert len(mermaid(graph).splitlines()) == 4


@settings(max_examples=30)
@given(graphs())
def test_every_node_has_a_place_of_its_own_below_what_it_waits_for(drawn):
    graph = FlowGraph(nodes=drawn[0])
    picture = ElementTree.fromstring(svg(graph))
    boxes = [(int(box.attrib["x"]), int(box.attrib["y"])) for box in picture.iter(f"{SVG}rect") if "x" in box.attrib]
    assert len(boxes) == len(graph.nodes)
    for (x1, y1), (x2, y2) in itertools.combinations(boxes, 2):
        assert abs(x1 - x2) >= WIDTH or abs(y1 - y2) >= HEIGHT
    place = dict(zip([node.name for node in graph.nodes], boxes, strict=True))
    for link in links_of(graph):
        assert place[link.source][1] < place[link.target][1]
    lines = [path for path in picture.iter(f"{SVG}path") if "stroke" in path.attrib]
    assert len(lines) == len(links_of(graph))
    width, height = int(picture.attrib["width"]), int(picture.attrib["height"])
    assert all(0 <= x <= width - WIDTH and 0 <= y <= height - HEIGHT for x, y in boxes)


def points_of(path: str) -> Iterator[tuple[float, float]]:
    """Points along a path of straight lines and curves, close to each other."""
    x, y = 0.0, 0.0
    for command, numbers in re.findall(r"([MLC])([^MLC]*)", path):
        ends = [tuple(map(float, pair.split(","))) for pair in numbers.split()]
        for at in range(1, STEPS + 1) if command != "M" else ():
            t = at / STEPS
            if command == "L":
                yield x + (ends[0][0] - x) * t, y + (ends[0][1] - y) * t
                continue
            weights = ((1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t**2 * (1 - t), t**3)
            corners = ((x, y), *ends)
            along = list(zip(weights, corners, strict=True))
            yield sum(w * corner[0] for w, corner in along), sum(w * corner[1] for w, corner in along)
        x, y = ends[-1]


def check_lines(drawn: str) -> None:
    """No line crosses a box, and none leaves the picture."""
    picture = ElementTree.fromstring(drawn)
    width, height = int(picture.attrib["width"]), int(picture.attrib["height"])
    boxes = [(int(box.attrib["x"]), int(box.attrib["y"])) for box in picture.iter(f"{SVG}rect") if "x" in box.attrib]
    for line in [path for path in picture.iter(f"{SVG}path") if "stroke" in path.attrib]:
        for x, y in points_of(line.attrib["d"]):
            assert 0 <= x <= width, line.attrib["d"]
            assert 0 <= y <= height, line.attrib["d"]
            crossed = [box for box in boxes if box[0] < x < box[0] + WIDTH and box[1] < y < box[1] + HEIGHT]
            assert crossed == [], line.attrib["d"]


def test_a_line_that_skips_a_row_goes_around_what_stands_there():
    nodes = (
        FlowNode(name="a", agent="w"),
        FlowNode(name="b", agent="w", needs=("a",)),
        FlowNode(name="c", agent="w", needs=("b", "a")),
    )
    check_lines(svg(FlowGraph(nodes=nodes)))


@settings(max_examples=40, deadline=None)
@given(graphs())
def test_no_line_of_a_workflow_crosses_a_node(drawn):
    check_lines(svg(FlowGraph(nodes=drawn[0])))


@settings(max_examples=40, deadline=None)
@given(
    st.integers(1, 7).flatmap(lambda n: st.lists(st.sets(st.integers(0, n - 1), max_size=3), min_size=n, max_size=n))
)
def test_no_line_of_a_machine_crosses_a_state(ways):
    states = tuple(
        MachineState(name=f"s{n}", kind="park", next=tuple(f"s{to}" for to in sorted(way)))
        for n, way in enumerate(ways)
    )
    check_lines(machine_svg(MachineSpec(name="m", first="s0", states=states)))


def test_the_picture_in_the_docs_is_what_is_drawn():
    tasks = pathlib.Path(__file__).parents[2] / "docs" / "tasks"
    code = (tasks / "workflows.md").read_text().split("```python\n")[1].partition("\n\nasync def main")[0]
    made: dict[str, Any] = {}
    exec(code, made)
    assert svg(made["flow"].graph) == (tasks / "workflows.svg").read_text()
