"""Diagrams: every node and every edge of a graph is in them, none lies on another, and no text breaks out."""

from __future__ import annotations

import itertools
import pathlib
from typing import Any
from xml.etree import ElementTree

from hypothesis import given, settings

from tests.kernel.test_flows import graphs
from windlass.events.values.graphs import FlowGraph, FlowNode
from windlass.runtime.flows.diagrams.links import links_of
from windlass.runtime.flows.diagrams.mermaid import mermaid
from windlass.runtime.flows.diagrams.svg import HEIGHT, WIDTH, svg

SVG = "{http://www.w3.org/2000/svg}"
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


def test_the_picture_in_the_docs_is_what_is_drawn():
    tasks = pathlib.Path(__file__).parents[2] / "docs" / "tasks"
    code = (tasks / "workflows.md").read_text().split("```python\n")[1].partition("\n\nasync def main")[0]
    made: dict[str, Any] = {}
    exec(code, made)
    assert svg(made["flow"].graph) == (tasks / "workflows.svg").read_text()
