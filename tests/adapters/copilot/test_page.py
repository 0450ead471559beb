"""The table of events in the docs says what was proven, and nothing else."""

from __future__ import annotations

import re

from windlass.adapters.copilot.view.event_types import EVENT_TYPES, NEVER

from .support import ROOT
from .told_runs import kinds

PAGE = ROOT / "docs" / "tasks" / "copilot.md"
BY_CLIENTS = {
    "session.resume": "a client resumed it (`python_scenarios.py`, `node_scenario.mjs`)",
    "command.queued": "a slash command (`python_scenarios.py`, `node_scenario.mjs`)",
    "command.completed": "as above",
}
"""Those that only a client brings about; the scenarios check each of them."""
UNPROVEN = {"session.handoff": "made of a session that was imported, which no committed log is"}


def rows() -> dict[str, str]:
    made = {}
    for kind in EVENT_TYPES:
        if kind in NEVER:
            made[kind] = f"not told: {NEVER[kind]}"
        elif kind in kinds():
            made[kind] = f"run `{kinds()[kind]}`"
        elif kind in BY_CLIENTS:
            made[kind] = f"client: {BY_CLIENTS[kind]}"
        else:
            made[kind] = f"not produced: {UNPROVEN[kind]}"
    return made


def test_the_table_is_what_the_runs_prove():
    table = dict(re.findall(r"^\| `([a-z_.]+)` \| (.+) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE))
    assert {kind: said for kind, said in table.items() if kind in EVENT_TYPES} == rows()


def test_the_scenarios_check_what_only_clients_bring_about():
    said = "".join((ROOT / "tests" / "adapters" / "copilot" / name).read_text() for name in ("python_scenarios.py",))
    assert '"session.resume"' in said
    assert '"command.completed"' in said
