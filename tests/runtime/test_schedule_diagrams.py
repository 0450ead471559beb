"""Schedules drawn: the plan, the times that come next, what they begin; and nothing that comes from a plan breaks out."""

from __future__ import annotations

import datetime
import pathlib
from xml.etree import ElementTree

from windlass.events.values.plans import SchedulePlan
from windlass.runtime.schedules.diagrams import mermaid, svg

TASKS = pathlib.Path(__file__).parents[2] / "docs" / "tasks"
EVENING_MS = round(datetime.datetime(2026, 3, 27, 20, tzinfo=datetime.UTC).timestamp() * 1000)
"""Two nights before clocks in Berlin go forward."""
NIGHTLY = SchedulePlan(cron="0 2 * * *", timezone="Europe/Berlin", prompt="Write the report of the night.")


def test_the_picture_in_the_docs_is_what_is_drawn():
    page = (TASKS / "schedules.md").read_text()
    for words in (f'cron="{NIGHTLY.cron}"', f'timezone="{NIGHTLY.timezone}"', f'prompt="{NIGHTLY.prompt}"'):
        assert words in page, "the picture is of the schedule on the page"
    assert svg("nightly", NIGHTLY, EVENING_MS) == (TASKS / "schedules.svg").read_text()


def test_the_next_times_are_drawn_in_the_zone_of_the_plan_and_lead_to_what_they_begin():
    assert mermaid("nightly", NIGHTLY, EVENING_MS, last="nightly~o1774573200000") == (
        "flowchart TD\n"
        '    n0(["nightly<br/>0 2 * * * Europe/Berlin"])\n'
        '    n1["2026-03-28 02:00<br/>Europe/Berlin, +01:00"]\n'
        '    n2["2026-03-29 03:00<br/>Europe/Berlin, +02:00"]\n'
        '    n3["2026-03-30 02:00<br/>Europe/Berlin, +02:00"]\n'
        '    n4["a new session each<br/>Write the report of the night."]\n'
        '    n5["nightly~o1774573200000<br/>begun last"]\n'
        '    n0 -->|"missed: once"| n1\n'
        '    n1 -->|"overlap: skip"| n4\n'
        "    n0 --> n2\n"
        "    n2 --> n4\n"
        "    n0 --> n3\n"
        "    n3 --> n4\n"
        "    n4 -.-> n5\n"
        "    classDef done fill:#d7f0dc\n"
        "    class n5 done\n"
    )


def test_a_schedule_that_tells_one_session_something_names_it_and_what_it_is_told():
    plan = SchedulePlan(every_ms=90_000, start_ms=EVENING_MS, session="inbox", signal="tick", overlap="allow")
    assert mermaid("pulse", plan, EVENING_MS - 5_000, last="inbox") == (
        "flowchart TD\n"
        '    n0(["pulse<br/>every 90 s"])\n'
        '    n1["2026-03-27 20:00<br/>UTC, +00:00"]\n'
        '    n2["2026-03-27 20:01:30<br/>UTC, +00:00"]\n'
        '    n3["2026-03-27 20:03<br/>UTC, +00:00"]\n'
        '    n4["session inbox<br/>signal tick"]\n'
        '    n0 -->|"missed: once"| n1\n'
        '    n1 -->|"overlap: allow"| n4\n'
        "    n0 --> n2\n"
        "    n2 --> n4\n"
        "    n0 --> n3\n"
        "    n3 --> n4\n"
    )


def test_a_paused_schedule_has_no_times_that_come():
    assert mermaid("nightly", NIGHTLY, EVENING_MS, status="paused") == (
        "flowchart TD\n"
        '    n0(["nightly (paused)<br/>0 2 * * * Europe/Berlin"])\n'
        '    n1["a new session each<br/>Write the report of the night."]\n'
        "    n0 -.-> n1\n"
        "    classDef pausing fill:#fff3cd\n"
        "    class n0 pausing\n"
    )


def test_no_text_of_a_plan_breaks_out_of_its_diagram():
    plan = SchedulePlan(every_ms=1_000, prompt='"]<script>&\n')
    assert "<script>" not in mermaid("'/><b>", plan, 0)
    texts = [
        text.text for text in ElementTree.fromstring(svg("'/><b>", plan, 0)).iter("{http://www.w3.org/2000/svg}text")
    ]
    assert "'/><b>" in texts
    assert '"]<script>&' in texts
