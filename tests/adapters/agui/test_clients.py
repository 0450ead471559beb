"""The published AG-UI client, unchanged and in a process of its own, against a server that is killed in between; and the
published types, which parse every event."""

from __future__ import annotations

import pathlib
import shutil

import pytest

from tests.adapters.agui.support import parsed
from tests.adapters.served import MODULES, talked

CHECKS = 20


@pytest.mark.skipif(
    shutil.which("node") is None or not (MODULES / "@ag-ui" / "client").exists(),
    reason="node is missing, or npm may not install the client of locks/node",
)
def test_the_node_client_has_a_conversation_over_servers_that_are_killed(tmp_path):
    script = pathlib.Path(__file__).parent / "node_scenario.mjs"
    lines = talked(tmp_path, "agui", ["node", str(script), str(MODULES)])
    checks = [line for line in lines if "check" in line]
    assert [check for check in checks if not check["ok"]] == []
    assert len(checks) >= CHECKS
    kinds = {parsed(line["event"]) for line in lines if "event" in line}
    assert {"REASONING_START", "STATE_DELTA", "MESSAGES_SNAPSHOT", "TOOL_CALL_RESULT", "STEP_FINISHED"} <= kinds
