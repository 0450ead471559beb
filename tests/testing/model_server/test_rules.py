"""Histories that a vendor would refuse are refused, each for its reason and in the vendor's own shape.

The data lies in `broken/`: per format one valid request and what becomes of it when broken by hand in one place.
"""

from __future__ import annotations

import json
import pathlib
import re
from typing import Any

import aiohttp
import pytest

from windlass.testing.model_server import FORMATS, Answer, Format, ModelServer, Say, Think, call, why_refused

DATA = pathlib.Path(__file__).parent / "broken"
PATHS: dict[str, str] = {
    "anthropic": "/v1/messages",
    "openai": "/v1/chat/completions",
    "responses": "/v1/responses",
    "gemini": "/v1beta/models/gemini-3-test:generateContent",
}
LEAST_BROKEN = 10


def loaded(format: str) -> Any:
    return json.loads((DATA / f"{format}.json").read_text("utf-8"))


BROKEN = [pytest.param(f, case, id=f"{f}: {case['name']}") for f in FORMATS for case in loaded(f)["broken"]]


async def post(server: ModelServer, path: str, body: Any, **headers: str) -> tuple[int, Any]:
    sent = {"anthropic-version": "2023-06-01", **headers}
    async with aiohttp.ClientSession() as session, session.post(server.root + path, json=body, headers=sent) as reply:
        return reply.status, await reply.json()


def test_enough_is_broken():
    assert all(len(loaded(f)["broken"]) >= LEAST_BROKEN for f in FORMATS)
    assert sum(len(loaded(f)["broken"]) for f in FORMATS) >= 40


@pytest.mark.parametrize("format", FORMATS)
async def test_what_was_broken_is_valid_when_whole(format: Format):
    async with ModelServer(script=["fine"]) as server:
        status, body = await post(server, PATHS[format], loaded(format)["valid"])
        assert (status, server.refusals) == (200, []), body


@pytest.mark.parametrize(("format", "case"), BROKEN)
async def test_broken_history_is_refused_with_its_reason(format: Format, case: dict[str, Any]):
    async with ModelServer(script=["never said"]) as server:
        status, body = await post(server, PATHS[format], case["body"])
        assert status == 400, body
        assert re.search(case["reason"], message_of(format, body)), message_of(format, body)
        assert server.script.left == 1


def message_of(format: Format, body: Any) -> str:
    """The message, where this vendor puts it; fails when the shape is another vendor's."""
    error = body["error"]
    match format:
        case "anthropic":
            assert (body["type"], error["type"]) == ("error", "invalid_request_error")
            assert body["request_id"].startswith("req_")
        case "gemini":
            assert (error["code"], error["status"]) == (400, "INVALID_ARGUMENT")
        case _:
            assert error["type"] == "invalid_request_error"
            assert {"param", "code"} <= set(error)
    return str(error["message"])


@pytest.mark.parametrize(
    ("format", "change"),
    [
        ("anthropic", {"max_tokens": True}),
        ("anthropic", {"temperature": "hot"}),
        ("anthropic", {"stop_sequences": "stop"}),
        ("openai", {"temperature": True}),
        ("openai", {"max_tokens": "10"}),
        ("openai", {"stream": 1}),
        ("responses", {"max_output_tokens": True}),
        ("responses", {"reasoning": "high"}),
        ("gemini", {"generationConfig": {"maxOutputTokens": False}}),
        ("gemini", {"generationConfig": {"max_tokens": 5}}),
        ("gemini", {"safetySettings": {}}),
    ],
)
def test_a_setting_of_the_wrong_kind_is_refused(format: Format, change: dict[str, Any]):
    assert why_refused(format, loaded(format)["valid"], model="gemini-3-test") is None
    reason = why_refused(format, {**loaded(format)["valid"], **change}, model="gemini-3-test")
    assert reason is not None
    assert "a value has the wrong type" not in reason


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("raw", [b"{", b"[]", b"\xff\xfe", b""])
async def test_a_body_that_is_no_object_is_refused(format: Format, raw: bytes):
    async with ModelServer() as server, aiohttp.ClientSession() as session:
        async with session.post(server.root + PATHS[format], data=raw, headers={"anthropic-version": "x"}) as reply:
            assert reply.status == 400
            message_of(format, await reply.json())


async def test_anthropic_wants_its_version_header():
    async with ModelServer() as server, aiohttp.ClientSession() as session:
        body = loaded("anthropic")["valid"]
        async with session.post(server.root + PATHS["anthropic"], json=body) as reply:
            assert "anthropic-version" in (await reply.json())["error"]["message"]


async def test_without_validation_anything_passes():
    async with ModelServer(validate=False) as server:
        for format in FORMATS:
            status, _ = await post(server, PATHS[format], loaded(format)["broken"][-1]["body"])
            assert status == 200


HELLO = [{"role": "user", "content": "hello"}]
TOOLS = [{"type": "function", "function": {"name": "add", "parameters": {"type": "object", "properties": {}}}}]


def called(call_id: str = "call_1", **more: Any) -> list[Any]:
    """A history with one answered call."""
    tool_call = {"id": call_id, "type": "function", "function": {"name": "add", "arguments": "{}"}}
    asked = {"role": "assistant", "content": None, "tool_calls": [tool_call], **more}
    return [*HELLO, asked, {"role": "tool", "tool_call_id": call_id, "content": "1"}]


QUIRKS: list[tuple[str, dict[str, Any], dict[str, Any], int]] = [
    ("deepseek", {"model": "deepseek-reasoner", "tools": TOOLS}, {"model": "deepseek-reasoner"}, 400),
    (
        "deepseek",
        {"model": "deepseek-v4", "thinking": {"type": "enabled"}, "messages": called()},
        {"model": "deepseek-v4", "thinking": {"type": "enabled"}, "messages": called(reasoning_content="hm")},
        400,
    ),
    ("qwen", {"model": "qwen3-32b"}, {"model": "qwen3-32b", "enable_thinking": False}, 400),
    ("moonshot", {"model": "kimi-k2.6", "messages": called()}, {"model": "kimi-k2.6", "messages": called(reasoning_content="")}, 400),
    (
        "moonshot",
        {"model": "kimi-k2.6", "tools": TOOLS, "tool_choice": "required"},
        {"model": "kimi-k2.6", "tools": TOOLS, "tool_choice": "required", "thinking": {"type": "disabled"}},
        400,
    ),
    ("minimax", {"model": "MiniMax-M2"}, {"model": "MiniMax-M2", "reasoning_split": True}, 400),
    ("cerebras", {"model": "gpt-oss-120b", "messages": called(reasoning_content="hm")}, {"model": "gpt-oss-120b", "messages": called(reasoning="hm")}, 400),
    ("cerebras", {"model": "gpt-oss-120b", "store": False}, {"model": "gpt-oss-120b"}, 400),
    ("groq", {"model": "gpt-oss-20b", "messages": called(reasoning_content="hm")}, {"model": "gpt-oss-20b", "messages": called()}, 400),
    ("mistral", {"model": "m", "messages": called("call_1")}, {"model": "m", "messages": called("abcDEF123")}, 400),
    ("mistral", {"model": "m", "messages": [*called("abcDEF123"), *HELLO]}, {"model": "m", "messages": [*called("abcDEF123"), {"role": "assistant", "content": "so"}, *HELLO]}, 400),
    ("mistral", {"model": "m", "max_completion_tokens": 5}, {"model": "m", "max_tokens": 5}, 422),
    ("xai", {"model": "grok-4", "reasoning_effort": "low"}, {"model": "grok-3-mini", "reasoning_effort": "low"}, 400),
    ("xai", {"model": "grok-4", "stop": ["x"]}, {"model": "grok-4"}, 400),
    ("vllm-without-tools", {"model": "m", "tools": TOOLS}, {"model": "m", "tools": TOOLS, "tool_choice": "required"}, 400),
]  # fmt: skip


@pytest.mark.parametrize(("profile", "without", "within", "status"), QUIRKS)
async def test_a_profile_refuses_a_request_without_its_quirk(profile: str, without: Any, within: Any, status: int):
    async with ModelServer(script=["fine"]) as server:
        path = f"/p/{profile}/v1/chat/completions"
        refused, body = await post(server, path, {"messages": HELLO, **without})
        assert refused == status, body
        accepted, body = await post(server, path, {"messages": HELLO, **within})
        assert accepted == 200, body


async def test_profiles_have_their_own_error_shapes_and_call_ids():
    async with ModelServer(script=[call("add"), call("add")], profile="mistral") as server:
        _, body = await post(server, "/v1/chat/completions", {"model": "m", "messages": called("x"), "tools": TOOLS})
        assert (body["object"], body["code"], body["type"]) == ("error", "3280", "invalid_function_call")
        _, body = await post(server, "/v1/chat/completions", {"model": "m", "messages": HELLO, "tools": TOOLS})
        assert re.fullmatch("[A-Za-z0-9]{9}", body["choices"][0]["message"]["tool_calls"][0]["id"])
        _, body = await post(server, "/p/xai/v1/chat/completions", {"model": "g", "messages": HELLO, "stop": "x"})
        assert body == {"code": "invalid-argument", "error": "Model g does not support parameter stop."}


async def test_azure_wants_its_version_and_its_own_header():
    async with ModelServer(script=["fine"], key="k") as server:
        path, body = "/p/azure/openai/deployments/d1/chat/completions", {"messages": HELLO}
        assert (await post(server, path, body))[0] == 401
        assert (await post(server, path, body, **{"api-key": "k"}))[0] == 404
        assert (await post(server, path + "?api-version=2024-10-21", body, **{"api-key": "k"}))[0] == 200


async def test_minimax_reasoning_comes_as_details():
    async with ModelServer(script=[Answer(parts=(Think(text="hm"), Say(text="yes")))]) as server:
        body = {"model": "MiniMax-M2", "messages": HELLO, "reasoning_split": True}
        _, reply = await post(server, "/p/minimax/v1/chat/completions", body)
        assert reply["choices"][0]["message"]["reasoning_details"][0]["text"] == "hm"


async def test_an_unknown_path_or_profile_is_a_404():
    async with ModelServer() as server:
        assert (await post(server, "/v1/completions", {}))[0] == 404
        assert (await post(server, "/p/nobody/v1/chat/completions", {}))[0] == 404
