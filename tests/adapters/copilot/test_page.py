"""The table of events in the docs says what was proven, and nothing else."""

from __future__ import annotations

import re

from windlass.adapters.copilot.view.event_types import EVENT_TYPES

from .support import ROOT
from .told_runs import kinds

PAGE = ROOT / "docs" / "tasks" / "copilot.md"
BY_CLIENTS = {
    "session.resume": "a client resumed it (`python_scenarios.py`, `node_scenario.mjs`)",
    "command.queued": "a slash command (`python_scenarios.py`, `node_scenario.mjs`)",
    "command.completed": "as above",
}
"""Those that only a client brings about; the scenarios check each of them."""


def test_the_table_is_what_the_runs_prove():
    table = dict(re.findall(r"^\| `([a-z_.]+)` \| (.+) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE))
    assert set(EVENT_TYPES) <= set(table)
    for kind in EVENT_TYPES:
        run = re.fullmatch(r"run `([a-z_-]+)`", table[kind])
        if run is not None:
            assert run[1] in kinds()[kind], kind
        else:
            assert (kind in kinds(), table[kind]) == (False, f"client: {BY_CLIENTS[kind]}")


def test_the_scenarios_check_what_only_clients_bring_about():
    said = "".join((ROOT / "tests" / "adapters" / "copilot" / name).read_text() for name in ("python_scenarios.py",))
    assert '"session.resume"' in said
    assert '"command.completed"' in said
