"""What goes out: recorded bytes for each format, every setting in its place, and nothing that a caller may not set."""

from __future__ import annotations

import json
import os
import pathlib
from typing import Any

import msgspec
import pytest

from tests.models.wire_support import ADD, ENDPOINT_OF, FORMATS, PDF, PNG, offline_model
from windlass.events.errors import UsageError
from windlass.events.values.blocks import (
    Data,
    Document,
    Image,
    Reasoning,
    Refusal,
    ResourceLink,
    ServerTool,
    Terminal,
    Text,
)
from windlass.events.values.items import (
    AssistantItem,
    CallPart,
    HistoryItem,
    ImagePart,
    ModelSettings,
    OutputSchema,
    ResultItem,
    ServerToolSchema,
    ToolSchema,
    UserItem,
)
from windlass.models.base import ModelInfo, Request
from windlass.models.catalogue.endpoints import ENDPOINTS, OTHER_NAMES, configured, connect, full_url, key_from
from windlass.models.transport.http_model import WireModel
from windlass.models.wires.plain_blocks import alnum9, wire_call_id, wire_tool_name
from windlass.testing.model_server import Format

GOLDEN = pathlib.Path(__file__).with_name("golden")
UPDATE = "WINDLASS_UPDATE_GOLDEN"
OUTPUT = OutputSchema(
    name="result", json_schema={"type": "object", "properties": {"b": {"type": "string"}, "a": {"type": "null"}}}
)


def conversation(provider: str) -> list[HistoryItem]:
    """Everything that a history can hold, in the words of one provider."""
    search = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "dots"}}
    return [
        UserItem(
            key="1",
            content=(
                Text(text='Say "hällo" to 世界.\n'),
                Image(media_type="image/png", data=PNG, detail="low"),
                Document(media_type="application/pdf", data=PDF, name="a.pdf"),
                ResourceLink(uri="https://docs.test/a", name="a", description="A page"),
            ),
        ),
        UserItem(key="2", content=(Data(value={"z": [1, 2.5, None, True], "a": "ü"}),), origin="steer"),
        AssistantItem(
            key="3",
            provider=provider,
            content=(
                Reasoning(text="thought", opaque="sealed", provider=provider, reasoning_id="rs_1"),
                Reasoning(text="foreign", opaque="other", provider="elsewhere"),
                ServerTool(name="web_search", provider=provider, content=search),
                Text(text="I will add and read."),
                CallPart(
                    call_id="march:7/0", tool="add", args={"y": 2, "x": 1}, provider_data={"thoughtSignature": "s"}
                ),
                CallPart(call_id="march-7-1", tool="no such/tool", args={}, malformed='{"x":'),
                CallPart(call_id="march-7-2", tool="patch", text="*** begin"),
            ),
        ),
        ResultItem(
            key="4", call_id="march:7/0", tool="add", content=(Text(text="3"), Image(media_type="image/png", data=PNG))
        ),
        ResultItem(
            key="5", call_id="march-7-1", tool="no such/tool", content=(Text(text="no such tool"),), is_error=True
        ),
        ResultItem(key="6", call_id="march-7-2", tool="patch", content=(Terminal(text="done", exit_code=0),)),
        UserItem(key="7", content=(Text(text="And now?"),)),
        AssistantItem(key="8", content=(Refusal(text="No."), ImagePart(media_type="image/png", note="(a drawing)"))),
        UserItem(key="9", content=()),
    ]


def full_request(provider: str) -> Request:
    patch = ToolSchema(
        name="patch", description="Applies a patch.", grammar={"syntax": "lark", "definition": "start: X"}
    )
    return Request(
        model="m",
        instructions="Be exact.",
        knowledge=("The sky is blue.",),
        items=conversation(provider),
        task_state="2 of 3 done",
        tools=(ADD, patch),
        server_tools=(ServerToolSchema(name="web_search", config={"max_uses": 2}),),
        settings=ModelSettings(
            max_output_tokens=4_000,
            temperature=0.5,
            top_p=0.9,
            stop=("END",),
            seed=7,
            tool_choice="auto",
            parallel_calls=False,
            extra={"zeta": 1, "alpha": {"b": 1, "a": 2}},
        ),
        session="march",
    )


@pytest.mark.parametrize("name", ENDPOINTS)
def test_the_bytes_of_a_request_are_the_recorded_ones(name: str) -> None:
    body = offline_model(ENDPOINTS[name]).render(full_request(name)).body
    json.loads(body)
    recorded = GOLDEN / f"{name}.json"
    if os.environ.get(UPDATE):
        recorded.write_bytes(body + b"\n")
    assert body + b"\n" == recorded.read_bytes(), f"set {UPDATE}=1 to record anew, then read the difference"


def body_of(name: str, *, model: str = "model-x", info: dict[str, Any] | None = None, **fields: Any) -> Any:
    wire = offline_model(ENDPOINTS[name], model=model, **(info or {}))
    request = msgspec.structs.replace(Request(model="m", items=[UserItem(content=(Text(text="q"),))]), **fields)
    return json.loads(wire.render(request).body)


CHOICES: list[tuple[Format, str, Any]] = [
    ("openai", "required", "required"),
    ("openai", "none", "none"),
    ("openai", "add", {"type": "function", "function": {"name": "add"}}),
    ("responses", "required", "required"),
    ("responses", "none", "none"),
    ("responses", "add", {"type": "function", "name": "add"}),
    ("anthropic", "required", {"type": "any"}),
    ("anthropic", "none", {"type": "none"}),
    ("anthropic", "add", {"type": "tool", "name": "add"}),
    ("gemini", "required", {"functionCallingConfig": {"mode": "ANY"}}),
    ("gemini", "none", {"functionCallingConfig": {"mode": "NONE"}}),
    ("gemini", "add", {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["add"]}}),
]


@pytest.mark.parametrize(("form", "choice", "said"), CHOICES)
def test_a_tool_choice_is_said_in_each_formats_words(form: Format, choice: str, said: Any) -> None:
    field = "toolConfig" if form == "gemini" else "tool_choice"
    name = ENDPOINT_OF[form]
    assert body_of(name, tools=(ADD,), settings=ModelSettings(tool_choice=choice))[field] == said
    assert field not in body_of(name, tools=(ADD,))
    assert field not in body_of(name, settings=ModelSettings(tool_choice=choice))


THINKING: list[tuple[str, str, dict[str, Any], dict[str, Any]]] = [
    ("openai", "gpt-5", {"thinking": "minimal"}, {"reasoning_effort": "minimal"}),
    ("openai", "gpt-5", {"thinking": "off"}, {"reasoning_effort": "none"}),
    ("openai-responses", "gpt-5", {"thinking": "high"}, {"reasoning": {"effort": "high", "summary": "auto"}}),
    ("anthropic", "claude-3-7", {"thinking": "low"}, {"thinking": {"type": "enabled", "budget_tokens": 2048}}),
    (
        "anthropic",
        "claude-3-7",
        {"thinking_budget_tokens": 5000},
        {"thinking": {"type": "enabled", "budget_tokens": 5000}},
    ),
    (
        "anthropic",
        "claude-3-7",
        {"thinking_budget_tokens": 5},
        {"thinking": {"type": "enabled", "budget_tokens": 1024}},
    ),
    (
        "anthropic",
        "claude-opus-4-6",
        {"thinking": "high"},
        {"thinking": {"type": "adaptive"}, "output_config": {"effort": "high"}},
    ),
    (
        "gemini",
        "gemini-2.5-pro",
        {"thinking": "low"},
        {"generationConfig": {"thinkingConfig": {"includeThoughts": True, "thinkingBudget": 1024}}},
    ),
    (
        "gemini",
        "gemini-3-pro",
        {"thinking": "low"},
        {"generationConfig": {"thinkingConfig": {"includeThoughts": True, "thinkingLevel": "low"}}},
    ),
    (
        "gemini",
        "gemini-2.5-pro",
        {"thinking": "off"},
        {"generationConfig": {"thinkingConfig": {"includeThoughts": False, "thinkingBudget": 0}}},
    ),
    ("qwen", "qwen3-max", {"thinking": "low"}, {"enable_thinking": True, "thinking_budget": 1024}),
    ("moonshot", "kimi-k2.5", {"thinking": "off"}, {"thinking": {"type": "disabled"}}),
    ("openrouter", "any/model", {"thinking": "low"}, {"reasoning": {"effort": "low"}}),
    ("openrouter", "any/model", {"thinking_budget_tokens": 900}, {"reasoning": {"max_tokens": 900}}),
    ("vllm", "qwen", {"thinking": "off"}, {"chat_template_kwargs": {"enable_thinking": False}}),
]


@pytest.mark.parametrize(("name", "model", "settings", "said"), THINKING)
def test_thinking_is_said_in_each_endpoints_words(
    name: str, model: str, settings: dict[str, Any], said: dict[str, Any]
) -> None:
    body = body_of(name, model=model, settings=ModelSettings(**settings))
    assert {field: body.get(field) for field in said} == said
    plain = body_of(name, model=model)
    assert not any(field in plain for field in said)


def test_room_for_thinking_is_added_to_the_answers() -> None:
    body = body_of("anthropic", model="claude-3-7", settings=ModelSettings(thinking="high"))
    assert body["max_tokens"] > body["thinking"]["budget_tokens"]
    small = body_of("anthropic", model="claude-3-7", settings=ModelSettings(thinking="high", max_output_tokens=3_000))
    assert (small["max_tokens"], small["thinking"]["budget_tokens"]) == (3_000, 2_999)
    tiny = body_of("anthropic", model="claude-3-7", settings=ModelSettings(thinking="high", max_output_tokens=500))
    assert "thinking" not in tiny


OUTPUTS: list[tuple[str, dict[str, Any]]] = [
    (
        "openai",
        {
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "result", "schema": OUTPUT.json_schema, "strict": True},
            }
        },
    ),
    (
        "openai-responses",
        {"text": {"format": {"type": "json_schema", "name": "result", "schema": OUTPUT.json_schema, "strict": True}}},
    ),
    ("anthropic", {"output_config": {"format": {"type": "json_schema", "schema": OUTPUT.json_schema}}}),
    (
        "gemini",
        {"generationConfig": {"responseMimeType": "application/json", "responseJsonSchema": OUTPUT.json_schema}},
    ),
    ("deepseek", {"response_format": {"type": "json_object"}}),
]


@pytest.mark.parametrize(("name", "said"), OUTPUTS)
def test_structured_output_is_native_where_it_is_offered(name: str, said: dict[str, Any]) -> None:
    body = body_of(name, output=OUTPUT)
    assert {field: body.get(field) for field in said} == said
    assert "tools" not in body


def test_structured_output_is_a_forced_tool_or_a_prompt_elsewhere() -> None:
    by_tool = body_of("minimax", output=OUTPUT, tools=(ADD,))
    assert [tool["function"]["name"] for tool in by_tool["tools"]] == ["add", "result"]
    assert by_tool["tool_choice"] == "required"
    older = body_of("gemini", model="gemini-2.5-pro", output=OUTPUT, tools=(ADD,))
    assert [each["name"] for each in older["tools"][0]["functionDeclarations"]] == ["add", "result"]
    assert "generationConfig" not in older
    prompt = body_of("deepseek", model="deepseek-reasoner", output=OUTPUT, tools=(ADD,))
    assert "tools" not in prompt
    assert "JSON Schema" in prompt["messages"][0]["content"]


OWNED: list[tuple[str, dict[str, Any]]] = [
    ("openai", {"messages": []}),
    ("openai", {"stream": False}),
    ("openai", {"tools": []}),
    ("anthropic", {"system": "x"}),
    ("anthropic", {"max_tokens": 1}),
    ("openai-responses", {"store": True}),
    ("openai-responses", {"previous_response_id": "x"}),
    ("gemini", {"contents": []}),
    ("gemini", {"generationConfig": {"temperature": 1}}),
]


@pytest.mark.parametrize(("name", "extra"), OWNED)
def test_extra_settings_cannot_override_our_own(name: str, extra: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="set by windlass"):
        body_of(name, settings=ModelSettings(extra=extra))


def test_extra_settings_are_passed_on() -> None:
    assert body_of("openai", settings=ModelSettings(extra={"service_tier": "flex"}))["service_tier"] == "flex"
    config = body_of("gemini", settings=ModelSettings(extra={"generationConfig": {"topK": 5}}))["generationConfig"]
    assert config == {"topK": 5}


def test_a_tool_name_that_providers_refuse_is_refused_first() -> None:
    for name in ("has space", "", "9lives", "x" * 65):
        with pytest.raises(UsageError, match="tool name"):
            body_of("openai", tools=(ToolSchema(name=name, description=""),))
    with pytest.raises(UsageError, match="two tools"):
        body_of("openai", tools=(ADD, ADD))


def test_markers_stand_on_the_system_text_and_on_the_last_words_only() -> None:
    marked = {"type": "ephemeral"}
    body = body_of("anthropic", instructions="a", knowledge=("b",), task_state="now")
    assert [part.get("cache_control") for part in body["system"]] == [None, marked]
    assert [part.get("cache_control") for part in body["messages"][-1]["content"]] == [marked, None]
    without = json.dumps(body_of("anthropic", instructions="a", settings=ModelSettings(cache=False)))
    assert "cache_control" not in without


def test_opaque_reasoning_goes_back_to_its_provider_only() -> None:
    for name in ENDPOINTS:
        body = offline_model(ENDPOINTS[name]).render(full_request("anthropic")).body
        assert (b"sealed" in body) == (name == "anthropic"), name
        assert b"foreign" not in body
        assert b'"other"' not in body


@pytest.mark.parametrize("form", FORMATS)
def test_a_model_that_spoke_last_is_asked_to_go_on(form: Format) -> None:
    items: list[HistoryItem] = [UserItem(content=(Text(text="q"),)), AssistantItem(content=(Text(text="half "),))]
    body = offline_model(ENDPOINTS[ENDPOINT_OF[form]]).render(Request(model="m", items=items)).body
    assert b"Continue." in body


def test_a_paused_turn_is_sent_as_it_is() -> None:
    paused = ServerTool(name="web_search", provider="anthropic", content={"type": "server_tool_use", "id": "s"})
    items: list[HistoryItem] = [UserItem(content=(Text(text="q"),)), AssistantItem(content=(paused,))]
    body = offline_model(ENDPOINTS["anthropic"]).render(Request(model="m", items=items)).body
    assert json.loads(body)["messages"][-1]["role"] == "assistant"


def test_call_ids_are_legal_unique_and_the_same_everywhere() -> None:
    ids = ["plain-1", "march:7/0", "ü", "", "x" * 41, "x" * 42, "march:7/1"]
    made = [wire_call_id(each) for each in ids]
    assert made[0] == "plain-1"
    assert len(set(made)) == len(ids)
    assert all(
        0 < len(each) <= 40 and each.replace("-", "").replace("_", "").isalnum() and each.isascii() for each in made
    )
    nine = [alnum9(each) for each in ids]
    assert len(set(nine)) == len(ids)
    assert all(len(each) == 9 and each.isalnum() and each.isascii() for each in nine)


def test_a_made_up_tool_name_becomes_a_legal_one() -> None:
    assert wire_tool_name("read_file") == "read_file"
    assert [wire_tool_name(each) for each in ("a b", "", "9x", "ü")] == ["a_b", "_", "_9x", "_"]
    assert len(wire_tool_name("x" * 500)) == 64


def test_the_environment_moves_endpoints_and_holds_keys() -> None:
    assert configured(ENDPOINTS["openai"], {"OPENAI_BASE_URL": "http://x/v1/"}).base_url == "http://x/v1"
    assert configured(ENDPOINTS["ollama"], {"OLLAMA_HOST": "0.0.0.0:9"}).base_url == "http://127.0.0.1:9/v1"
    assert configured(ENDPOINTS["ollama"], {"OLLAMA_HOST": "box"}).base_url == "http://box/v1"
    azure = configured(ENDPOINTS["azure"], {"AZURE_OPENAI_ENDPOINT": "https://r.example/"})
    assert azure.base_url == "https://r.example/openai/v1"
    assert configured(ENDPOINTS["groq"], {}) is ENDPOINTS["groq"]
    assert key_from(ENDPOINTS["gemini"], {"GOOGLE_API_KEY": "g"}) == "g"
    assert key_from(ENDPOINTS["gemini"], {}) is None
    assert full_url("http://h/v1", "/v1") == "http://h/v1"
    assert set(OTHER_NAMES.values()) <= ENDPOINTS.keys()


def test_connect_gives_a_model_and_opens_nothing() -> None:
    model = connect(ENDPOINTS["groq"], "llama", credential="k")
    assert isinstance(model, WireModel)
    assert model.info == ModelInfo(name="groq/llama", provider="groq", model="llama")
    with pytest.raises(UsageError, match="model id"):
        connect(ENDPOINTS["groq"], "", credential="k")
