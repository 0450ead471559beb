"""`windlass copilot`: what it prints, what it refuses, and that nothing but messages reaches a client's stream."""

from __future__ import annotations

import json
import pathlib
import signal
import subprocess
from typing import Any

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
TOKEN = "COPILOT_CONNECTION_TOKEN"


@pytest.fixture(autouse=True)
def folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv(TOKEN, raising=False)
    (tmp_path / "agents.py").write_text(AGENTS, encoding="utf-8")
    return tmp_path


def framed(**message: Any) -> bytes:
    body = json.dumps({"jsonrpc": "2.0", **message}).encode()
    return b"Content-Length: %d\r\n\r\n%s" % (len(body), body)


def ran(folder: pathlib.Path, sent: bytes, *words: str) -> tuple[int, bytes]:
    """What the server says on stdout to a client that says this and leaves."""
    line = [*PROGRAM, "copilot", "agents.py", "--store", "s.db", "--stdio", *words]
    done = subprocess.run(line, cwd=folder, input=sent, capture_output=True, timeout=200, check=False)
    return done.returncode, done.stdout


@proves("copilot", "empty")
def test_a_client_that_says_nothing_is_told_nothing(folder):
    flags = ("--headless", "--no-auto-update", "--log-level", "info", "--no-auto-login")
    code, said = ran(folder, b"", *flags)
    assert (code, said) == (0, b"")


def test_only_messages_reach_the_client_and_a_method_that_is_not_there_is_refused(folder):
    code, said = ran(folder, framed(id=1, method="sideways", params={}))
    error = {"code": -32601, "message": "there is no method 'sideways' here"}
    assert code == 0
    header, _, body = said.partition(b"\r\n\r\n")
    assert header == b"Content-Length: %d" % len(body)
    assert json.loads(body) == {"jsonrpc": "2.0", "id": 1, "error": error}


def test_what_is_no_message_ends_the_conversation_with_an_error(folder):
    code, said = ran(folder, b"Content-Length: x\r\n\r\n{}")
    assert code == 0
    assert json.loads(said.partition(b"\r\n\r\n")[2])["error"]["code"] == -32700


@proves("copilot", "normal")
def test_over_tcp_it_says_its_port_and_stops_on_sigterm(folder, monkeypatch):
    monkeypatch.setenv(TOKEN, "hunter2")
    line = [*PROGRAM, "copilot", "agents.py", "--store", "s.db"]
    with subprocess.Popen(line, cwd=folder, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "loaded\n"
            words = process.stdout.readline().split()
            assert words[:3] == ["listening", "on", "port"]
            assert 0 < int(words[3]) < 65536
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=200) == 143
        finally:
            process.kill()


@proves("copilot", "error")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["agents.py"], "set COPILOT_CONNECTION_TOKEN to a secret"),
        (["agents.py", "--port", "99999"], "give a number from 0 to 65535"),
        (["none.py"], "there is no file 'none.py'"),
    ],
)
def test_what_it_refuses(words, said, capsys, monkeypatch):
    if "token" not in said.lower():
        monkeypatch.setenv(TOKEN, "hunter2")
    assert main(["copilot", *words, "--store", "s.db"]) == 2
    assert said in capsys.readouterr().err
