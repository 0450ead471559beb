"""The published clients, unchanged, each in a process of its own: they start `windlass acp` as an editor does."""

from __future__ import annotations

import json
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
from typing import Any

import pytest

from .support import PROGRAM_S, ROOT, command

ACPX = pathlib.Path(sys.prefix) / "node" / "node_modules" / "acpx" / "dist" / "cli.js"
needs_node = pytest.mark.skipif(
    shutil.which("node") is None or not ACPX.exists(),
    reason="node is missing, or npm may not install the client of locks/node",
)


def test_the_python_client(tmp_path):
    argv = [sys.executable, "-m", "tests.adapters.acp.python_scenarios", str(tmp_path)]
    environ = {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")}
    done = subprocess.run(argv, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=PROGRAM_S, check=False)
    checks = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"check"')]
    assert done.returncode == 0, (checks[-1:], done.stderr[-3000:])
    assert [one for one in checks if not one["ok"]] == []
    assert len(checks) >= 80


class Acpx:
    """`acpx` on the command line of somebody with a home of their own."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.place = folder / "work"
        self.place.mkdir()
        (folder / "home").mkdir()
        self._environ = {
            **os.environ,
            "HOME": str(folder / "home"),
            "XDG_STATE_HOME": str(folder / "state"),
            "PYTHONPATH": str(ROOT),
        }
        self._agent = shlex.join(command(folder))

    def run(self, *words: str) -> list[dict[str, Any]]:
        """The messages of the protocol that went by, both ways. Only `exec` is used: what acpx keeps between its calls
        is a process of its own, for whose start it waits six seconds and no longer."""
        line = ["node", str(ACPX), "--agent", self._agent, "--format", "json", *words]
        done = subprocess.run(
            line,
            cwd=self.place,
            env=self._environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PROGRAM_S,
            check=False,
        )
        assert done.returncode in (0, 5), (done.returncode, done.stdout[-3000:], done.stderr[-3000:])
        return [json.loads(one) for one in done.stdout.splitlines() if one.startswith("{")]


def updates(messages: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    told = [one["params"]["update"] for one in messages if one.get("method") == "session/update"]
    return [update for update in told if update["sessionUpdate"] == kind]


def words(messages: list[dict[str, Any]]) -> str:
    return "".join(update["content"]["text"] for update in updates(messages, "agent_message_chunk"))


def results(messages: list[dict[str, Any]], field: str) -> list[Any]:
    found = [one["result"] for one in messages if isinstance(one.get("result"), dict)]
    return [result[field] for result in found if field in result]


@needs_node
def test_acpx_has_a_tool_approved_and_one_denied(tmp_path):
    acpx = Acpx(tmp_path)
    messages = acpx.run("--approve-all", "exec", 'call weigh {"thing": "gold"}')
    assert results(messages, "stopReason") == ["end_turn"]
    assert words(messages) == "one momentweigh gave gold weighs 4"
    statuses = [update.get("status") for update in updates(messages, "tool_call_update")]
    assert statuses == ["in_progress", "completed"]
    asked = [one for one in messages if one.get("method") == "session/request_permission"]
    assert [one["params"]["toolCall"]["title"] for one in asked] == ["weigh"]

    messages = acpx.run("--deny-all", "exec", 'call weigh {"thing": "gold"}')
    assert [update.get("status") for update in updates(messages, "tool_call_update")] == ["failed"]
    assert "gold weighs 4" not in words(messages)


@needs_node
def test_acpx_is_shown_what_a_call_changes_in_a_file(tmp_path):
    acpx = Acpx(tmp_path)
    messages = acpx.run("--approve-all", "exec", 'call write {"path": "a.txt", "content": "x"}')
    assert (acpx.place / "a.txt").read_text() == "x"
    content = [one for update in updates(messages, "tool_call_update") for one in update.get("content") or ()]
    assert content == [{"type": "diff", "path": str(acpx.place / "a.txt"), "newText": "x"}]
