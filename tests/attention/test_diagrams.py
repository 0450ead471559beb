"""Attention drawn: where signals of each urgency lead, and what the session is busy with then."""

from __future__ import annotations

import pathlib
from xml.etree import ElementTree

from windlass.signals import Attention, WhileBusy, always, mermaid, svg

TASKS = pathlib.Path(__file__).parents[2] / "docs" / "tasks"


def test_the_picture_in_the_docs_is_the_default_as_it_is_drawn():
    assert svg(Attention()) == (TASKS / "signals.svg").read_text()
    assert ElementTree.fromstring(svg(Attention())).tag.endswith("svg")


def test_each_urgency_leads_to_what_becomes_of_it_and_only_that_is_drawn():
    late = WhileBusy(resting="next_turn", sleeping="observe", model="observe", tools="queue", people="observe")
    table = Attention(critical=always("interrupt"), high=late, normal=always("drop"), low=always("drop"))
    assert mermaid(table).split("    classDef")[0] == (
        "flowchart TD\n"
        '    n0(["critical<br/>a signal comes"])\n'
        '    n1(["high<br/>a signal comes"])\n'
        '    n2(["normal<br/>a signal comes"])\n'
        '    n3(["low<br/>a signal comes"])\n'
        '    n4["interrupt<br/>cut off, asked again"]\n'
        '    n5["next turn<br/>it brings a turn"]\n'
        '    n6["queue<br/>with the next turn"]\n'
        '    n7["observe<br/>beside the task"]\n'
        '    n8["drop<br/>on record alone"]\n'
        "    n0 --> n4\n"
        '    n1 -->|"resting"| n5\n'
        '    n1 -->|"not resting, calls run"| n7\n'
        '    n1 -->|"calls run"| n6\n'
        "    n2 --> n8\n"
        "    n3 --> n8\n"
    )
