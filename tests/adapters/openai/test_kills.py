"""The published client, unchanged and in a process of its own, against a server that is killed in between."""

from __future__ import annotations

import sys

from tests.adapters.served import talked

CHECKS = 7


def test_the_published_client_has_its_conversations_over_servers_that_are_killed(tmp_path):
    lines = talked(tmp_path, "openai", [sys.executable, "-m", "tests.adapters.openai.scenario"])
    checks = [line for line in lines if "check" in line]
    assert [check for check in checks if not check["ok"]] == []
    assert len(checks) >= CHECKS
