"""`windlass acp`: what it prints, what it refuses, and that nothing but messages reaches an editor's stream."""

from __future__ import annotations

import json
import pathlib
import signal
import subprocess

import pytest

from windlass.cli.main import main

from .screens import proves
from .terminal import PROGRAM

AGENTS = """
import windlass
from windlass.testing.scripted import ScriptedModel

print("loaded")
clerk = windlass.Agent("clerk", model=ScriptedModel(["hello"]))
"""
TWO = "import windlass\none = windlass.Agent('one')\ntwo = windlass.Agent('two')\n"
HELLO = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1}}) + "\n"
LINE = [*PROGRAM, "acp", "agents.py", "--store", "s.db"]


@pytest.fixture(autouse=True)
def folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "agents.py").write_text(AGENTS, encoding="utf-8")
    (tmp_path / "two.py").write_text(TWO, encoding="utf-8")
    (tmp_path / "empty.py").write_text("x = 1\n", encoding="utf-8")
    return tmp_path


@proves("acp", "empty")
def test_an_editor_that_says_nothing_is_told_nothing(folder):
    done = subprocess.run(LINE, cwd=folder, input="", capture_output=True, text=True, timeout=200, check=False)
    assert (done.returncode, done.stdout, "loaded" in done.stderr) == (0, "", True)


@proves("acp", "normal")
def test_only_messages_reach_the_editor_and_a_signal_ends_it(folder):
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(LINE, cwd=folder, text=True, **pipes) as process:  # type: ignore[call-overload]
        try:
            process.stdin.write(HELLO)
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["result"]["agentInfo"]["title"] == "clerk"
            process.send_signal(signal.SIGTERM)
            said, printed = process.communicate(timeout=200)
            assert (process.returncode, said, "loaded" in printed) == (143, "", True)
        finally:
            process.kill()


@proves("acp", "error")
@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["none.py"], "there is no file 'none.py'"),
        (["empty.py"], "has no agent in it"),
        (["two.py"], "there are one, two: write FILE.py:NAME"),
    ],
)
def test_what_it_refuses(words, told, folder):
    line = [*PROGRAM, "acp", *words, "--store", "s.db"]
    done = subprocess.run(line, cwd=folder, input="", capture_output=True, text=True, timeout=200, check=False)
    assert (done.returncode, done.stdout, told in done.stderr) == (2, "", True), done.stderr


def test_a_terminal_or_a_file_is_no_editor(folder, capsys):
    with (folder / "agents.py").open() as file:
        done = subprocess.run(LINE, cwd=folder, stdin=file, capture_output=True, text=True, timeout=200, check=False)
    assert (done.returncode, "must be pipes" in done.stderr) == (2, True), done.stderr
    assert main(["acp", "--help"]) == 0
    assert "windlass acp" in capsys.readouterr().out
