"""`windlass acp` as a program: what is no message, what comes too early, and what means nothing."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from .support import ROOT, command


@contextmanager
def started(words: list[str]) -> Iterator[subprocess.Popen[str]]:
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(words, cwd=ROOT, text=True, **pipes) as process:
        try:
            yield process
        finally:
            process.kill()


def asked(process: subprocess.Popen[str], line: str) -> dict[str, Any]:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(line + "\n")
    process.stdin.flush()
    read: dict[str, Any] = json.loads(process.stdout.readline())
    return read


def request(number: int, method: str, **params: Any) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params})


def test_bad_input_is_answered_with_an_error_and_the_conversation_goes_on(tmp_path):
    with started(command(tmp_path)) as process:
        early = asked(process, request(1, "session/new", cwd="/", mcpServers=[]))["error"]
        assert (early["code"], "initialize" in early["message"]) == (-32600, True)
        refused = asked(process, request(2, "initialize", protocolVersion="one"))["error"]
        assert (refused["code"], "protocolVersion" in refused["message"]) == (-32602, True)
        assert asked(process, "{ no json")["error"]["code"] == -32700
        assert asked(process, "[]")["error"]["code"] == -32600
        assert asked(process, request(3, "initialize", protocolVersion=1))["result"]["protocolVersion"] == 1
        for params, place in (
            ({"cwd": "work", "mcpServers": []}, "cwd"),
            ({"cwd": str(tmp_path / "none"), "mcpServers": []}, "cwd"),
            ({"cwd": str(tmp_path), "mcpServers": [{"name": "x", "type": "ws"}]}, "mcpServers"),
            ({"cwd": str(tmp_path), "mcpServers": "all"}, "mcpServers"),
            ({"cwd": str(tmp_path), "mcpServers": [], "additionalDirectories": ["/"]}, "additionalDirectories"),
        ):
            error = asked(process, request(4, "session/new", **params))["error"]
            assert (error["code"], place in error["message"]) == (-32602, True), params
        made = asked(process, request(5, "session/new", cwd=str(tmp_path), mcpServers=[]))["result"]
        assert process.stdout is not None
        json.loads(process.stdout.readline())  # which commands there are
        for prompt in ([], "words", [{"type": "audio", "data": "", "mimeType": "audio/wav"}], [{"type": "x"}], [1]):
            error = asked(process, request(6, "session/prompt", sessionId=made["sessionId"], prompt=prompt))["error"]
            assert (error["code"], "prompt" in error["message"]) == (-32602, True), prompt
        unnamed = json.dumps({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": "none"}})
        listed = asked(process, unnamed + "\n" + request(7, "session/list"))
        assert [one["sessionId"] for one in listed["result"]["sessions"]] == [made["sessionId"]]


def until(process: subprocess.Popen[str], is_it: Callable[[dict[str, Any]], bool], told: list[dict[str, Any]]) -> Any:
    """Reads messages up to one, which it gives; those before it are kept."""
    assert process.stdout is not None
    while True:
        read = json.loads(process.stdout.readline())
        if is_it(read):
            return read
        told.append(read)


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ({"result": {}}, "selects none of allow, "),
        ({"result": {"outcome": "allow"}}, "selects none of allow, "),
        ({"result": {"outcome": {"outcome": "selected", "optionId": "whatever"}}}, "whatever"),
        ({"error": {"code": -32601, "message": "no such method"}}, "no such method"),
    ],
)
def test_an_answer_of_the_editor_that_is_none_ends_the_turn_and_says_who_can_answer(tmp_path, answer, why):
    told: list[dict[str, Any]] = []
    with started(command(tmp_path)) as process:
        assert process.stdin is not None
        asked(process, request(1, "initialize", protocolVersion=1))
        made = asked(process, request(2, "session/new", cwd=str(tmp_path), mcpServers=[]))["result"]["sessionId"]
        prompt = [{"type": "text", "text": 'call weigh {"thing": "x"}'}]
        process.stdin.write(request(3, "session/prompt", sessionId=made, prompt=prompt) + "\n")
        process.stdin.flush()
        wish = until(process, lambda one: one.get("method") == "session/request_permission", told)
        process.stdin.write(json.dumps({"jsonrpc": "2.0", "id": wish["id"], **answer}) + "\n")
        process.stdin.flush()
        end = until(process, lambda one: one.get("id") == 3, told)
    assert end["result"]["stopReason"] == "end_turn"
    said = [
        one["params"]["update"].get("content", {}).get("text", "") for one in told if "update" in one.get("params", {})
    ]
    (words,) = [text for text in said if "windlass approve" in text]
    assert why in words
    assert f"windlass deny {made} " in words
