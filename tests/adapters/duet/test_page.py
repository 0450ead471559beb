"""The table of events in the docs says what was proven, and nothing else; and what the commands are."""

from __future__ import annotations

import re

from windlass.adapters.duet.turn_commands import NAMES

from .support import ROOT
from .told_runs import kinds

PAGE = ROOT / "docs" / "tasks" / "duet.md"
STEPS = (
    *("text_delta", "reasoning_delta", "text", "reasoning"),
    *(f"tool_call.{status}" for status in ("pending", "running", "completed", "error")),
    "system",
)
EVENTS = (
    "turn_started",
    *(f"step.{step}" for step in STEPS),
    *("todos", "follow_up_queue", "state_machine", "memory", "system"),
    *(f"complete.{status}" for status in ("completed", "failed", "cancelled")),
    *("ask", "interrupted", "sleep"),
)
"""The events of the protocol, with the statuses that tell them apart."""
NEVER = {"memory": "no memory is kept beyond a session"}


def rows(title: str) -> dict[str, str]:
    section = PAGE.read_text(encoding="utf-8").partition(f"## {title}\n")[2].partition("\n## ")[0]
    return dict(re.findall(r"^\| `([a-z_.]+)` \| (.+) \|$", section, re.MULTILINE))


def test_the_table_is_what_the_runs_prove():
    assert set(kinds()) == set(EVENTS) - set(NEVER)
    assert rows("Events") == {
        kind: f"run `{kinds()[kind]}`" if kind in kinds() else f"not told: {NEVER[kind]}" for kind in EVENTS
    }


def test_every_command_has_a_row():
    assert tuple(rows("Commands")) == NAMES
