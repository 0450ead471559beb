"""The published clients, unchanged, each in a process of its own: `COPILOT_CLI_PATH` names our server."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import sys
from typing import Any

import pytest

from .support import PROGRAM_S, ROOT, Launcher, client_types

MODULES = pathlib.Path(sys.prefix) / "node" / "node_modules"


def ran(argv: list[str], folder: pathlib.Path, *, unknown: bool = True, **env: str) -> list[dict[str, Any]]:
    """What a program has printed: what it checked, and what it was told. It must have come to its end. Unless something
    may be `unknown` to our server, it has asked for nothing that is not there."""
    environ = {**os.environ, "XDG_STATE_HOME": str(folder / "state"), **env}
    done = subprocess.run(argv, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=PROGRAM_S, check=False)
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith(('{"check"', '{"event"'))]
    assert done.returncode == 0, (lines[-1:], done.stderr[-3000:])
    assert unknown or "there is no method" not in done.stderr, done.stderr[-3000:]
    return lines


@pytest.mark.parametrize(("program", "least"), [("python_scenarios", 60), ("more_scenarios", 40)])
def test_the_python_client(program, least, tmp_path):
    argv = [sys.executable, "-m", f"tests.adapters.copilot.{program}", str(tmp_path)]
    checks = ran(argv, tmp_path, unknown=False)
    assert [one for one in checks if not one["ok"]] == []
    assert len(checks) >= least


@pytest.mark.skipif(
    shutil.which("node") is None or not (MODULES / "@github" / "copilot-sdk").exists(),
    reason="node is missing, or npm may not install the client of locks/node",
)
def test_the_node_client(tmp_path):
    script, pid = pathlib.Path(__file__).parent / "node_scenario.mjs", tmp_path / "pid"
    argv = ["node", str(script), str(MODULES), str(tmp_path), str(pid)]
    (tmp_path / "tcp").mkdir()
    with Launcher(tmp_path / "tcp").listening("hunter2-hunter2") as port:
        lines = ran([*argv, str(port)], tmp_path, COPILOT_CLI_PATH=str(Launcher(tmp_path).path))
    checks = [one for one in lines if "check" in one]
    assert [one for one in checks if not one["ok"]] == []
    assert len(checks) >= 40
    for event in (one["event"] for one in lines if "event" in one):
        read = client_types().session_event_from_dict(event)
        assert read.type.value in (event["type"], "unknown")
