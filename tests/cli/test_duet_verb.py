"""`windlass duet`: what it prints and what it refuses. Its turns are tried in `tests/adapters/duet`."""

from __future__ import annotations

import json
import pathlib
import subprocess

import pytest

from .screens import proves
from .terminal import PROGRAM

AGENTS = """
import windlass
from windlass.testing.scripted import ScriptedModel

print("loaded")
clerk = windlass.Agent("clerk", model=ScriptedModel(["hello"]))
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "agents.py").write_text(AGENTS, encoding="utf-8")
    return tmp_path


def ran(folder: pathlib.Path, sent: bytes, *words: str) -> tuple[int, list[str], bytes]:
    """What the process tells a caller that says this and leaves, and what it says to people."""
    line = [*PROGRAM, "duet", *words]
    done = subprocess.run(line, cwd=folder, input=sent, capture_output=True, timeout=200, check=False)
    return done.returncode, [json.loads(line)["type"] for line in done.stdout.splitlines()], done.stderr


@proves("duet", "normal", "empty")
def test_nothing_but_events_reaches_the_caller(folder):
    words = ("agents.py", "--store", "s.db")
    assert ran(folder, b"", *words) == (0, [], b"loaded\n")
    said = b'{"type":"start"}\n{"type":"prompt","message":"hi","behavior":"steer"}\n'
    code, told, _ = ran(folder, said, *words)
    assert (code, told[0], told[-1]) == (0, "turn_started", "complete")


@proves("duet", "error")
def test_a_file_without_agents_is_said_to_be_one(folder):
    (folder / "empty.py").write_text("")
    code, told, said = ran(folder, b"", "empty.py")
    assert (code, told) == (2, [])
    assert b"empty.py has no agent in it" in said
