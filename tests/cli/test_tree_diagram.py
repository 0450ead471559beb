"""Trees of sessions, drawn from the process table."""

from __future__ import annotations

import pathlib
from xml.etree import ElementTree

import windlass
from tests.operate.test_process_table import tree
from windlass.cli.screen.graphs.tree_diagram import mermaid, svg
from windlass.runtime.operate.process_table import Process

TASKS = pathlib.Path(__file__).parents[2] / "docs" / "tasks"


async def resting(tmp_path: pathlib.Path) -> list[Process]:
    lead = tree()
    async with windlass.open(tmp_path / "s.db", agents=[lead]) as rt:
        session = await rt.session(lead, "s")
        await session.prompt("go")
        assert (await session.result()).status == "asked"
        return await session.processes()


async def test_the_picture_in_the_docs_is_what_is_drawn(tmp_path):
    assert svg(await resting(tmp_path)) == (TASKS / "sub-agents.svg").read_text()


async def test_each_session_is_drawn_below_its_parent_with_what_it_waits_for(tmp_path):
    assert mermaid(await resting(tmp_path)) == (
        "flowchart TD\n"
        '    n0(["s lead<br/>blocked: child"])\n'
        '    n1["c6.0 middle<br/>blocked: child, child"]\n'
        '    n2["c6.0 payer<br/>blocked: permission"]\n'
        '    n3["c6.1 sleeper<br/>suspended: timer"]\n'
        '    n4["c6.2 thinker<br/>done (completed)"]\n'
        "    n0 --> n1\n"
        "    n1 --> n2\n"
        "    n1 --> n3\n"
        "    n1 --> n4\n"
        "    classDef done fill:#d7f0dc\n"
        "    class n4 done\n"
    )


def test_no_name_breaks_out_of_a_diagram():
    hostile = Process(session="s", parent=None, scope="", depth=0, agent='"]<script>&\n', state="ready")
    below = Process(session="s~c1", parent="s", scope="c1", depth=1, agent="'/>", state="done", ended="failed")
    assert "<script>" not in mermaid([hostile, below])
    texts = [
        text.text for text in ElementTree.fromstring(svg([hostile, below])).iter("{http://www.w3.org/2000/svg}text")
    ]
    assert texts == ['s "]<script>&', "ready", "c1 '/>", "done (failed)"]
