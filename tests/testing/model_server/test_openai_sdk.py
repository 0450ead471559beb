"""The model server's Chat Completions side, seen by the vendor's own client."""

from __future__ import annotations

import json
from typing import Any

import openai
import pydantic
import pytest
from openai.types.chat import ChatCompletionFunctionToolParam, ChatCompletionMessageParam

from windlass.testing.model_server import Answer, Call, Decline, ModelServer, Picture, Say, Think, Tokens

MODEL = "gpt-test"
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
ADD: ChatCompletionFunctionToolParam = {
    "type": "function",
    "function": {"name": "add", "parameters": {"type": "object", "properties": {"x": {"type": "integer"}}}},
}
HELLO: list[ChatCompletionMessageParam] = [{"role": "user", "content": "hello"}]


def client(server: ModelServer, profile: str = "", key: str = "key") -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=server.url("openai", profile), api_key=key, max_retries=0)


async def ask(api: openai.AsyncOpenAI, messages: Any, stream: bool, **more: Any) -> Any:
    """One completion; a streamed one is put together by the vendor's own accumulator."""
    if not stream:
        return await api.chat.completions.create(model=MODEL, messages=messages, **more)
    more = {**more, "stream_options": {"include_usage": True}}
    async with api.chat.completions.stream(model=MODEL, messages=messages, **more) as events:
        return await events.get_final_completion()


@pytest.mark.parametrize("stream", [False, True])
async def test_text(stream: bool):
    async with ModelServer(script=["héllo — 猫"]) as server, client(server) as api:
        reply = await ask(api, HELLO, stream)
        assert reply.choices[0].message.content == "héllo — 猫"
        assert reply.choices[0].finish_reason == "stop"
        assert reply.usage.total_tokens == reply.usage.prompt_tokens + reply.usage.completion_tokens
        assert server.refusals == []


@pytest.mark.parametrize("stream", [False, True])
async def test_tools_round_trip_with_parallel_calls(stream: bool):
    two = Answer(parts=(Say(text="let me see"), Call(name="add", args={"x": 1}), Call(name="add", args={"x": 2})))
    async with ModelServer(script=[two, "done"]) as server, client(server) as api:
        message = (await ask(api, HELLO, stream, tools=[ADD])).choices[0].message
        assert [json.loads(each.function.arguments) for each in message.tool_calls] == [{"x": 1}, {"x": 2}]
        kept = message.model_dump(exclude_none=True, exclude={"parsed"})
        for each in kept["tool_calls"]:
            each["function"].pop("parsed_arguments", None)
            each.pop("index", None)
        results = [{"role": "tool", "tool_call_id": each.id, "content": "ok"} for each in message.tool_calls]
        reply = await ask(api, [*HELLO, kept, *results], stream, tools=[ADD])
        assert reply.choices[0].message.content == "done"
        assert [each.text for each in server.last.results] == ["ok", "ok"]


async def test_images_are_taken_and_made():
    script = [Answer(parts=(Say(text="here"), Picture(data=PIXEL)))] * 2
    async with ModelServer(script=script) as server, client(server) as api:
        content: Any = [
            {"type": "text", "text": "draw like this"},
            {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}},
        ]
        reply = await ask(api, [{"role": "user", "content": content}], False)
        assert reply.choices[0].message.model_extra["images"][0]["image_url"]["url"].endswith(PIXEL)
        assert server.last.messages[0].images == 1
        assert (await ask(api, HELLO, True)).choices[0].message.content == "here"


class Invoice(pydantic.BaseModel):
    total: int


async def test_structured_output_and_refusal():
    script: list[Any] = ['{"total": 45}', Answer(parts=(Decline(text="I will not"),))]
    async with ModelServer(script=script) as server, client(server) as api:
        good = await api.chat.completions.parse(model=MODEL, messages=HELLO, response_format=Invoice)
        assert good.choices[0].message.parsed == Invoice(total=45)
        bad = await api.chat.completions.parse(model=MODEL, messages=HELLO, response_format=Invoice)
        assert bad.choices[0].message.refusal == "I will not"
        assert (server.last.output_schema or {})["properties"]["total"]["type"] == "integer"


@pytest.mark.parametrize(
    ("profile", "field"), [("deepseek", "reasoning_content"), ("groq", "reasoning"), ("openrouter", "reasoning")]
)
async def test_reasoning_is_where_the_endpoint_puts_it(profile: str, field: str):
    script = [Answer(parts=(Think(text="I wonder about this"), Say(text="yes")))] * 2
    async with ModelServer(script=script) as server, client(server, profile) as api:
        whole = (await ask(api, HELLO, False)).choices[0].message
        assert (whole.model_extra[field], whole.content) == ("I wonder about this", "yes")
        chunks = [chunk async for chunk in await api.chat.completions.create(model=MODEL, messages=HELLO, stream=True)]
        deltas = [choice.delta for chunk in chunks for choice in chunk.choices]
        assert "".join((delta.model_extra or {}).get(field, "") for delta in deltas) == "I wonder about this"


async def test_usage_model_and_headers_are_the_scripts():
    answer = Answer(
        parts=(Say(text="x"),),
        tokens=Tokens(input=100, output=7, cache_read=60, reasoning=3),
        model="gpt-other",
        headers={"x-ratelimit-remaining-requests": "7"},
    )
    async with ModelServer(script=[answer]) as server, client(server) as api:
        raw = await api.chat.completions.with_raw_response.create(model=MODEL, messages=HELLO)
        assert raw.headers["x-ratelimit-remaining-requests"] == "7"
        reply: Any = raw.parse()
        assert reply.model == "gpt-other"
        assert (reply.usage.prompt_tokens, reply.usage.completion_tokens) == (100, 7)
        assert reply.usage.prompt_tokens_details.cached_tokens == 60
        assert reply.usage.completion_tokens_details.reasoning_tokens == 3


async def test_queues_and_models_choose_the_script():
    server = ModelServer(
        script=["default"],
        models={"special": ["by model"]},
        queues={"q1": ["by queue"]},
        known_models=(MODEL, "special"),
    )
    async with server, client(server) as api:
        queue = {"x-windlass-script": "q1"}
        by_queue = await api.chat.completions.create(model="special", messages=HELLO, extra_headers=queue)
        by_model = await api.chat.completions.create(model="special", messages=HELLO)
        by_default = await ask(api, HELLO, False)
        said = [each.choices[0].message.content for each in (by_queue, by_model, by_default)]
        assert said == ["by queue", "by model", "default"]
        with pytest.raises(openai.BadRequestError, match="used up"):
            await ask(api, HELLO, False)
        with pytest.raises(openai.NotFoundError) as missing:
            await api.chat.completions.create(model="nothing", messages=HELLO)
        assert missing.value.code == "model_not_found"


async def test_context_length_and_key_errors_have_their_codes():
    async with ModelServer(key="right", window_tokens=50) as server:
        async with client(server, key="wrong") as api:
            with pytest.raises(openai.AuthenticationError):
                await ask(api, HELLO, False)
        async with client(server, key="right") as api:
            with pytest.raises(openai.BadRequestError) as refused:
                await ask(api, [{"role": "user", "content": "x" * 400}], False)
            assert refused.value.code == "context_length_exceeded"


async def test_azure_client_finds_its_deployment():
    async with ModelServer(script=["from azure"], key="k1") as server:
        api = openai.AsyncAzureOpenAI(
            azure_endpoint=f"{server.root}/p/azure", api_key="k1", api_version="2024-10-21", max_retries=0
        )
        async with api:
            reply = await api.chat.completions.create(model="my-deployment", messages=HELLO)
        assert reply.choices[0].message.content == "from azure"
        assert server.last.model == "my-deployment"
        assert server.requests[0].headers["api-key"] == "k1"
