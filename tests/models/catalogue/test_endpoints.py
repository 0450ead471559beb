"""Compatible endpoints: each quirk is kept, and is needed, since its profile refuses the request without it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.models.history_strategies import histories
from tests.models.wire_support import ADD, PNG, as_item, asked, numbers, offline_model
from windlass.events.errors import UsageError
from windlass.events.values.blocks import Image, Text
from windlass.events.values.failures import Failure
from windlass.events.values.items import HistoryItem, ModelSettings, ResultItem, UserItem
from windlass.models.base import Reply, Request
from windlass.models.catalogue.endpoints import ENDPOINTS, Endpoint, Quirks, connect
from windlass.testing.model_server import PROFILES, Answer, Call, ModelServer, Say, Think

MODELS = {
    "deepseek": "deepseek-chat",
    "qwen": "qwen3-max",
    "moonshot": "kimi-k2.5",
    "xai": "grok-4",
    "azure": "my-deployment",
}
NAMES = [name for name, endpoint in ENDPOINTS.items() if endpoint.wire == "openai_chat" and name in PROFILES]
TALK = Answer(parts=(Think(text="hm"), Say(text="I add."), Call(name="add", args={"x": 1, "y": 2})))


def at(server: ModelServer, name: str, quirks: Quirks | None = None) -> Endpoint:
    endpoint = ENDPOINTS[name]
    base = server.url("openai", profile=name)
    if endpoint.base_url_suffix == "/openai/v1":
        base = base.removesuffix("/v1") + "/openai/v1"
    return msgspec.structs.replace(endpoint, base_url=base, quirks=quirks or endpoint.quirks)


async def conversed(
    name: str, quirks: Quirks | None = None, *, model: str = "", stream: bool = True, **settings: Any
) -> tuple[list[str], Reply | Failure]:
    """Two turns with a call, a result with a picture, a word after it and a task state; why it was refused, if it was."""
    async with ModelServer(script=[TALK, "done"]) as server:
        wire = offline_model(
            at(server, name, quirks), model=model or MODELS.get(name, "model-x"), credential=f"k-{next(numbers)}"
        )
        items: list[HistoryItem] = [UserItem(content=(Text(text="q"),))]
        ask = Request(model="m", items=items, tools=(ADD,), stream=stream, settings=ModelSettings(**settings))
        _, end = await asked(wire, ask)
        if isinstance(end, Reply):
            content = (Text(text="3"), Image(media_type="image/png", data=PNG))
            result = ResultItem(call_id="session:2/0", tool="add", content=content)
            item = as_item(end, "session:2/0")
            calls = [
                msgspec.structs.replace(part, call_id="session:2/0") if hasattr(part, "call_id") else part
                for part in item.content
            ]
            ask.items += [msgspec.structs.replace(item, content=tuple(calls)), result]
            ask.task_state = "one left"
            _, end = await asked(wire, ask)
        await wire.close()
        return list(server.refusals), end


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("name", NAMES)
async def test_a_conversation_is_accepted(name: str, stream: bool) -> None:
    for chosen in (
        {},
        {"thinking": "low"},
        {"thinking": "off"},
        {"max_output_tokens": 500, "stop": ("END",), "seed": 1},
    ):
        refusals, end = await conversed(name, stream=stream, **chosen)
        assert refusals == [], chosen
        assert isinstance(end, Reply)


@pytest.mark.guard(900)
@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=25)
@given(items=histories(ended=False), state=st.sampled_from(("", "now")), stream=st.booleans())
async def test_any_valid_history_is_accepted(name: str, items: list[HistoryItem], state: str, stream: bool) -> None:
    async with ModelServer(script=lambda request: "fine") as server:
        wire = offline_model(at(server, name), model=MODELS.get(name, "model-x"), credential=f"k-{next(numbers)}")
        _, end = await asked(wire, Request(model="m", items=items, tools=(ADD,), task_state=state, stream=stream))
        await wire.close()
        assert server.refusals == []
    assert isinstance(end, Reply)


NEEDED: list[tuple[str, dict[str, Any], str, dict[str, Any]]] = [
    ("mistral", {"call_ids": "free"}, "", {}),
    ("mistral", {"assistant_after_tool": False}, "", {}),
    ("mistral", {"max_tokens_field": "max_completion_tokens"}, "", {"max_output_tokens": 5}),
    ("deepseek", {"no_tools_models": ()}, "deepseek-reasoner", {}),
    ("deepseek", {"reasoning_back": "never"}, "", {"thinking": "low"}),
    ("qwen", {"thinks_streamed_only": False}, "", {"stream": False}),
    ("moonshot", {"reasoning_back": "never"}, "", {}),
    ("moonshot", {"thinks_unforced_only": False}, "", {"tool_choice": "required"}),
    ("minimax", {"body": {}}, "", {}),
    ("cerebras", {"reasoning_back": "always"}, "", {}),
    ("groq", {"reasoning_back": "always"}, "", {}),
    ("xai", {"stop": True}, "", {"stop": ("END",)}),
    ("xai", {"effort_models": ("*",)}, "", {"thinking": "low"}),
]


@pytest.mark.parametrize(("name", "without", "model", "settings"), NEEDED)
async def test_a_quirk_is_needed_and_enough(
    name: str, without: dict[str, Any], model: str, settings: dict[str, Any]
) -> None:
    plain = msgspec.structs.replace(ENDPOINTS[name].quirks, **without)
    refusals, _ = await conversed(name, plain, model=model, **settings)
    assert refusals, "the profile accepts the request without the quirk"
    refusals, end = await conversed(name, model=model, **settings)
    assert refusals == []
    assert isinstance(end, Reply)


async def test_a_model_without_tools_says_that_they_were_left_out() -> None:
    async with ModelServer(script=["hello"]) as server:
        wire = offline_model(at(server, "deepseek"), model="deepseek-reasoner", credential="k-tools")
        _, end = await asked(wire, Request(model="m", tools=(ADD,)))
        await wire.close()
    assert isinstance(end, Reply)
    assert end.warnings == ("this model takes no tools; they are left out",)


async def test_reasoning_in_pieces_goes_back_as_one_list() -> None:
    async with ModelServer(script=[TALK, "done"]) as server:
        wire = offline_model(at(server, "minimax"), credential="k-details")
        ask = Request(model="m", items=[UserItem(content=(Text(text="q"),))], tools=(ADD,))
        _, reply = await asked(wire, ask)
        assert isinstance(reply, Reply)
        ask.items += [as_item(reply, "a"), ResultItem(call_id="a:0", tool="add", content=(Text(text="3"),))]
        await asked(wire, ask)
        await wire.close()
        details = server.requests[-1].body["messages"][1]["reasoning_details"]
    assert "".join(each["text"] for each in details) == "hm"


async def test_a_key_goes_where_the_endpoint_wants_it() -> None:
    for name in ("azure", "groq", "ollama"):
        async with ModelServer(script=["fine"], key="the-key") as server:
            wire = offline_model(at(server, name), credential="the-key" if name != "ollama" else None)
            _, end = await asked(wire, Request(model="m"))
            await wire.close()
            assert isinstance(end, Reply), (name, end)


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("http://api.example.com/v1", "plain http"),
        ("http://8.8.8.8/v1", "plain http"),
        ("ftp://api.example.com", "must be http:// or https://"),
        ("https://", "with a host"),
        ("http://[::1", "malformed"),
        ("https://api.example.com:99999/v1", "malformed"),
        ("https://api.example.com/v1\n", "control characters"),
    ],
)
def test_an_address_that_cannot_be_used_is_refused_when_the_model_is_made(url, says):
    endpoint = msgspec.structs.replace(ENDPOINTS["openai"], base_url=url)
    with pytest.raises(UsageError, match=f"endpoint 'openai': .*{says}.*OPENAI_BASE_URL"):
        connect(endpoint, "m", credential="k")


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "192.168.1.7", "proxy", "proxy.internal"])
def test_a_key_may_go_in_the_clear_within_a_private_network(host):
    connect(msgspec.structs.replace(ENDPOINTS["openai"], base_url=f"http://{host}:8000/v1"), "m", credential="k")


def test_no_key_may_go_anywhere_in_the_clear():
    connect(msgspec.structs.replace(ENDPOINTS["vllm"], base_url="http://gpu.example.com/v1"), "m", credential=None)
