"""`windlass serve` and `windlass token`: what they print, what they leave, what they refuse, and how a server stops."""

from __future__ import annotations

import asyncio
import json
import pathlib
import signal
import socket
import stat
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.protocol.otlp_receiver import receiving
from windlass.cli import options
from windlass.cli.main import main

from .screens import proves
from .terminal import PROGRAM
from .test_run import ran

AGENTS = """
import asyncio, windlass
from windlass.testing.scripted import ScriptedModel, by_history, call, hang

@windlass.tool(contract="at_most_once")
async def stare() -> str:
    await asyncio.sleep(0.3)
    return "stared"

def agent(name, *turns):
    return windlass.Agent(name, model=ScriptedModel(by_history(list(turns))), tools=[stare], policy=windlass.ALLOW_ALL)

stares = agent("stares", call("stare"), [hang()])
slow = agent("slow", [hang()])
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "agents.py").write_text(AGENTS, encoding="utf-8")
    return tmp_path


class Served:
    """A server in a process of its own."""

    def __init__(self, process: subprocess.Popen[str], folder: pathlib.Path) -> None:
        assert process.stdout is not None
        self.process = process
        self.said = [process.stdout.readline()]
        while not self.said[-1].startswith("listening on"):
            assert self.said[-1], "it ended"
            self.said.append(process.stdout.readline())
        self.url = self.said[-1].split()[-1]
        self._token = (folder / "tokens.first").read_text().strip()

    def ask(self, path: str, body: Any = None) -> Any:
        data = json.dumps(body).encode() if body is not None else None
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        with urllib.request.urlopen(urllib.request.Request(self.url + path, data, headers), timeout=300) as answer:
            return json.load(answer)

    def until_recorded(self, session: str, kind: str) -> None:
        """Waits for a record, by the stream of events."""
        headers = {"Authorization": f"Bearer {self._token}"}
        request = urllib.request.Request(f"{self.url}/v1/sessions/{session}/events", headers=headers)
        with urllib.request.urlopen(request, timeout=300) as stream:
            for line in stream:
                if line.startswith(b"data: ") and json.loads(line[6:]).get("event", {}).get("type") == kind:
                    return
        raise AssertionError(f"no {kind}")

    def stop(self, number: int) -> tuple[int, str]:
        """Asks it to stop; its exit code and what it said then."""
        self.process.send_signal(number)
        said, _ = self.process.communicate(timeout=300)
        return self.process.returncode, said


@contextmanager
def served(folder: pathlib.Path, *words: str) -> Iterator[Served]:
    line = [*PROGRAM, "serve", *words, "--store", "s.db", "--tokens", "tokens.json"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with subprocess.Popen(line, cwd=folder, stdin=subprocess.DEVNULL, text=True, **pipes) as process:  # type: ignore[call-overload]
        try:
            yield Served(process, folder)
        finally:
            process.kill()


def test_it_says_on_stderr_what_failed_and_nothing_of_what_strangers_send(folder):
    with served(folder, "agents.py") as server:
        place = urllib.parse.urlsplit(server.url)
        with socket.create_connection((place.hostname, place.port)) as stranger:
            stranger.sendall(b"\x1b]0;owned\x07 nonsense\r\n\r\n")
            assert stranger.recv(1000).startswith(b"HTTP/1.1 400 ")
        (folder / "tokens.json").write_text("damaged \x1b[2J")
        with pytest.raises(urllib.error.HTTPError, match="503"):
            server.ask("/v1/health")
        _, said = server.stop(signal.SIGTERM)
    failed, *others = said.splitlines()
    assert " windlass.server: no token can be checked: tokens.json: the tokens cannot be read" in failed
    assert others == [options.DRAINING]
    assert "\x1b" not in said


@proves("serve", "normal", "empty")
def test_it_says_what_it_serves_where_and_where_the_token_is_and_drains_on_sigterm(folder):
    with served(folder, "agents.py") as server:
        assert server.said[:2] == ["agents stares, slow · store s.db\n", "token in tokens.first\n"]
        assert server.url.startswith("http://127.0.0.1:")
        assert stat.S_IMODE((folder / "tokens.first").stat().st_mode) == 0o600
        server.ask("/v1/sessions", {"agent": "stares", "session_id": "s"})
        prompt = {"type": "prompt.received", "body": {"content": [{"type": "text", "text": "Go."}]}}
        server.ask("/v1/sessions/s/commands", prompt)
        server.until_recorded("s", "tool.started")
        code, said = server.stop(signal.SIGTERM)
    assert (code, said) == (
        143,
        "(asked to stop: what runs is brought to its end first; a second SIGTERM leaves at once)\n",
    )
    with served(folder) as server:
        assert server.said[0] == "agents none · store s.db\n"
        kinds = [one["event"]["type"] for one in server.ask("/v1/sessions/s/records")["records"]]
        assert kinds.count("tool.finished") == 1
        code, _ = server.stop(signal.SIGINT)
        assert code == 130


def test_where_it_listens_is_written_at_once_also_into_a_pipe(folder, monkeypatch):
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    with served(folder) as server:
        assert server.url.startswith("http://127.0.0.1:")


async def test_spans_and_metrics_go_where_the_environment_says(folder, monkeypatch):
    async with receiving() as receiver:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url)
        await asyncio.to_thread(_one_turn_with_telemetry, folder, receiver.url)
        assert {span.name for span in receiver.spans} == {"chat scripted", "execute_tool stare", "invoke_agent stares"}
        assert receiver.about["service.name"] == "windlass"
        assert "gen_ai.client.operation.duration" in {metric.name for metric in receiver.metrics}


def _one_turn_with_telemetry(folder: pathlib.Path, url: str) -> None:
    with served(folder, "agents.py:stares", "--otel") as server:
        assert f"spans go to {url}/v1/traces\n" in server.said
        server.ask("/v1/sessions", {"agent": "stares", "session_id": "s"})
        prompt = {"type": "prompt.received", "body": {"content": [{"type": "text", "text": "Go."}]}}
        server.ask("/v1/sessions/s/commands", prompt)
        server.until_recorded("s", "tool.finished")
        server.ask("/v1/sessions/s/commands", {"type": "cancel.received"})
        server.until_recorded("s", "run.cancelled")
        assert server.stop(signal.SIGTERM)[0] == 143


def test_a_protocol_that_is_not_spoken_is_refused(folder, monkeypatch, capsys):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
    assert main(["serve", "agents.py", "--otel"]) == 2
    assert "OTEL_EXPORTER_OTLP_PROTOCOL is 'grpc'" in capsys.readouterr().err


def test_a_second_sigterm_does_not_wait(folder):
    with served(folder, "agents.py:slow", "--drain", "600") as server:
        server.ask("/v1/sessions", {"agent": "slow", "session_id": "s"})
        prompt = {"type": "prompt.received", "body": {"content": [{"type": "text", "text": "Go."}]}}
        server.ask("/v1/sessions/s/commands", prompt)
        server.until_recorded("s", "model.requested")
        server.process.send_signal(signal.SIGTERM)
        assert server.process.stdout is not None
        assert server.process.stdout.readline().startswith("(asked to stop")
        with pytest.raises(urllib.error.HTTPError, match="503"):
            server.ask("/v1/ready")
        assert server.stop(signal.SIGTERM)[0] == 143


@proves("serve", "error")
@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["nothing.py"], "there is no file 'nothing.py'"),
        (["empty.py"], "empty.py has no agent in it"),
        (["agents.py", "again.py"], "two agents are named 'stares'"),
        (["agents.py", "--port", "70000"], "--port 70000"),
        (["agents.py", "--drain", "-1"], "--drain -1"),
        (["agents.py", "--socket", "agents.py"], "'agents.py' is there and is no socket"),
    ],
)
def test_what_cannot_be_served_is_refused_by_name(folder, words, complaint, capsys):
    (folder / "empty.py").write_text("x = 1\n")
    (folder / "again.py").write_text(AGENTS)
    assert main(["serve", *words, "--store", "s.db", "--tokens", "tokens.json"]) == 2
    assert complaint in capsys.readouterr().err.replace("\n  ", " ")


def test_tokens_that_others_can_read_stop_it(folder):
    assert ran(folder, "token", "add", "ada", "--tokens", "t.json").returncode == 0
    (folder / "t.json").chmod(0o644)
    done = ran(folder, "serve", "agents.py", "--tokens", "t.json")
    assert (done.returncode, "chmod 600" in done.stderr) == (2, True)


@proves("token", "normal", "empty")
def test_tokens_are_made_listed_and_revoked(capsys):
    assert main(["token", "list"]) == 0
    said = capsys.readouterr()
    assert said.out.startswith("no tokens yet")
    assert main(["token", "add", "ada", "--role", "drive", "--role", "approve"]) == 0
    made = capsys.readouterr().out.strip()
    assert made.startswith("wl_")
    assert main(["token", "add", "bob", "--tenant", "acme", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["name"] == "bob"
    assert main(["token", "list"]) == 0
    assert capsys.readouterr().out == "ada  drive, approve  default\nbob  read            acme\n"
    assert main(["token", "list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert listed[0] == {"name": "ada", "roles": ["drive", "approve"], "tenant": "default"}
    assert made not in str(listed)
    for name in ("ada", "bob"):
        assert main(["token", "revoke", name]) == 0
    assert capsys.readouterr().out == (
        "revoked ada: servers refuse it from now on\nrevoked bob: servers refuse it from now on\n"
    )


@proves("token", "error")
@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["add"], "which token?"),
        (["revoke", "nobody"], "there is no token 'nobody'"),
        (["add", "a b"], "'a b' is no name for a token"),
        (["add", "a", "--tenant", "a/b"], "tenant 'a/b' is not allowed"),
    ],
)
def test_a_token_that_means_nothing_is_refused(words, complaint, capsys):
    assert main(["token", *words, "--tokens", "t.json"]) == 2
    assert complaint in capsys.readouterr().err.replace("\n  ", " ")
