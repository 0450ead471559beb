"""`windlass serve --stdio`: a client in another process, over pipes: JSON-RPC 2.0, one object per line."""

from __future__ import annotations

import json
import pathlib
import signal
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cli.terminal import PROGRAM

from .support import PROMPT

CLERK = """
print("printed while it is loaded")
import sys
import windlass
from windlass.testing.scripted import ScriptedModel, by_history, call

@windlass.tool
def pay(amount: int) -> str:
    "Pays an amount."
    print("printed by a tool")
    return f"paid {amount}, read {sys.stdin.read()!r}"

model = ScriptedModel(by_history([call("pay", amount=3), "It is paid."]))
clerk = windlass.Agent("clerk", model=model, tools=[pay], policy=windlass.Policy(rules=(windlass.ask("pay"),)))
"""


class Client:
    """The program that started the server."""

    def __init__(self, folder: pathlib.Path) -> None:
        words = [*PROGRAM, "serve", "clerk.py", "--stdio", "--store", "work.db"]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(words, cwd=folder, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL)
        self.events: list[dict[str, Any]] = []
        self._count = 0

    def write(self, line: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def line(self) -> dict[str, Any]:
        """The next line that is no heartbeat."""
        assert self.process.stdout is not None
        while (read := self.process.stdout.readline()) != b"":
            found: dict[str, Any] = json.loads(read)
            assert found["jsonrpc"] == "2.0"
            if found.get("method") != "heartbeat":
                return found
        raise AssertionError("the server has ended")

    def answer(self) -> dict[str, Any]:
        """The next answer; events that come before it are kept."""
        while "method" in (found := self.line()):
            self.events.append(found["params"])
        return found

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        self._count += 1
        self.write(json.dumps({"jsonrpc": "2.0", "id": self._count, "method": method, "params": params}).encode())
        answer = self.answer()
        assert answer["id"] == self._count
        return answer

    def result(self, method: str, **params: Any) -> Any:
        answer = self.ask(method, **params)
        assert "error" not in answer, answer
        return answer["result"]

    def event(self) -> dict[str, Any]:
        """The next event."""
        if not self.events:
            found = self.line()
            assert found["method"] in ("event", "ended")
            self.events.append(found["params"])
        return self.events.pop(0)

    def until(self, kind: str) -> list[dict[str, Any]]:
        """The records up to the first of a kind."""
        found: list[dict[str, Any]] = []
        while not found or found[-1]["event"]["type"] != kind:
            told = self.event()
            if told["kind"] == "record":
                found.append(told["data"])
        return found

    def end(self) -> int:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        code = self.process.wait(timeout=300)
        self.process.stdout.close()
        return code


@pytest.fixture
def client(tmp_path: pathlib.Path) -> Iterator[Client]:
    (tmp_path / "clerk.py").write_text(CLERK)
    client = Client(tmp_path)
    yield client
    if client.process.poll() is None:
        client.process.kill()
        client.end()


def test_a_client_begins_prompts_approves_and_follows_over_pipes(client: Client):
    assert client.result("listAgents") == {"agents": [{"name": "clerk", "tools": ["pay"]}]}
    begun = client.result("createSession", body={"agent": "clerk", "session_id": "march"})
    assert begun["session"]["session"] == "march"
    followed = client.result("followEvents", session_id="march")
    assert followed == {"subscription": 1}
    sent = client.result("sendCommand", session_id="march", key="pay-march", body=PROMPT)
    assert sent == {"command_id": "pay-march", "session_id": "march", "seq": 2}
    assert client.result("sendCommand", session_id="march", key="pay-march", body=PROMPT) == sent
    records = client.until("run.asked")
    (asked,) = client.result("listRequests", session_id="march")["permissions"]
    yes = {"decision": "approve", "digest": asked["digest"]}
    client.result("answerRequest", session_id="march", request_id=asked["request_id"], body=yes)
    late = client.ask("answerRequest", session_id="march", request_id=asked["request_id"], body=yes)
    assert (late["error"]["code"], late["error"]["data"]["code"]) == (-32000, "not_open")
    records += client.until("run.completed")
    assert [record["seq"] for record in records] == list(range(1, records[-1]["seq"] + 1))
    again = client.result("followEvents", session_id="march", after=records[3]["cursor"])
    assert again == {"subscription": 2}
    behind = [record["seq"] for record in client.until("run.completed")]
    assert behind == [record["seq"] for record in records[4:]]
    assert client.result("unfollow", subscription=2) is None
    assert client.ask("unfollow", subscription=2)["error"]["code"] == -32602
    page = client.result("listRecords", session_id="march", limit=2)
    assert [record["seq"] for record in page["records"]] == [1, 2]
    assert "read ''" in json.dumps(records)
    assert client.end() == 0


def test_a_late_client_is_told_what_is_open_and_nothing_that_was_accepted_is_lost(client: Client, tmp_path):
    client.result("createSession", body={"agent": "clerk", "session_id": "march"})
    client.result("sendCommand", session_id="march", body=PROMPT)
    client.result("getResult", session_id="march", wait_s=60)
    client.process.kill()
    client.end()
    late = Client(tmp_path)
    try:
        late.result("followEvents", session_id="march", live=False)
        told = late.event()
        assert (told["kind"], [ask["tool"] for ask in told["data"]["permissions"]]) == ("requests", ["pay"])
    finally:
        late.process.send_signal(signal.SIGTERM)
        assert late.end() == 143


def test_garbage_and_lines_that_are_too_long_are_answered_and_not_fatal(client: Client):
    wrong = {
        b"{": -32700,
        b"\xff\xfe": -32700,
        b"[]": -32700,
        b'{"a":1,"a":2}': -32700,
        b"{}": -32600,
        b'{"jsonrpc":"1.0","id":7,"method":"listAgents"}': -32600,
        b'{"jsonrpc":"2.0","id":7,"method":"nothing"}': -32601,
        b'{"jsonrpc":"2.0","id":7,"method":"getSession","params":{"session_id":7}}': -32602,
        b'{"jsonrpc":"2.0","id":7,"method":"getSession","params":{"session_id":"../up"}}': -32000,
        b'{"jsonrpc":"2.0","id":7,"method":"listSessions","params":{"limit":[1]}}': -32602,
        b'{"jsonrpc":"2.0","id":7,"method":"listSessions","params":{"colour":"red"}}': -32000,
        b"[" * 100_000: -32700,
        b"x" * 3_000_000: -32600,
    }
    for line, code in wrong.items():
        client.write(line)
        answer = client.answer()
        assert answer["error"]["code"] == code, (line[:60], answer)
        assert answer["id"] == (7 if b'"id":7' in line else None)
    client.write(b"")
    client.write(b'{"jsonrpc":"2.0","method":"listAgents"}')  # wants no answer
    assert client.result("getHealth")["status"] == "ok"
    assert client.end() == 0


NAMED = {"type": "prompt.received", "body": {"content": [{"type": "text", "text": "/deploy now"}]}}


def slash_named(client: Client) -> dict[str, Any]:
    """Brings a command, names it, and gives what the client is asked: the answer to the prompt waits."""
    client.result("createSession", body={"agent": "clerk", "session_id": "march"})
    client.result("followEvents", session_id="march", commands=json.dumps([{"name": "deploy"}]))
    params = {"session_id": "march", "key": "k1", "body": NAMED}
    client.write(json.dumps({"jsonrpc": "2.0", "id": "named", "method": "sendCommand", "params": params}).encode())
    while (told := client.event())["kind"] != "slash":
        continue
    found: dict[str, Any] = told["data"]
    return found


def test_a_client_of_pipes_brings_slash_commands_and_answers_them(client: Client):
    asked = slash_named(client)
    assert (asked["name"], asked["args"], asked["status"]) == ("deploy", "now", "open")
    params = {"session_id": "march", "request_id": asked["request_id"], "body": {"handled": True}}
    client.write(
        json.dumps({"jsonrpc": "2.0", "id": "mine", "method": "answerSlashCommand", "params": params}).encode()
    )
    answers = {said["id"]: said for said in (client.answer(), client.answer())}
    assert answers["mine"]["result"]["status"] == "answered"
    assert answers["named"]["result"] == {"command_id": "k1", "session_id": "march", "handled_by": "stdio"}
    assert client.end() == 0


def test_a_pipe_that_ends_waits_for_no_slash_command(client: Client):
    slash_named(client)
    assert client.process.stdin is not None
    client.process.stdin.close()
    said = client.answer()
    assert (said["id"], said["error"]["data"]["code"]) == ("named", "no_client")
    assert client.end() == 0
