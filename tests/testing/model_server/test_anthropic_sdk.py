"""The model server's Anthropic side, seen by the vendor's own client."""

from __future__ import annotations

from typing import Any

import anthropic
import pydantic
import pytest
from anthropic.types import MessageParam, ToolParam, ToolResultBlockParam

from windlass.testing.model_server import Answer, Call, Decline, ModelServer, Say, ServerCall, Think, Tokens, call, seal

MODEL = "claude-test"
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
ADD: ToolParam = {
    "name": "add",
    "description": "Adds.",
    "input_schema": {"type": "object", "properties": {"x": {"type": "integer"}}},
}
HELLO: list[MessageParam] = [{"role": "user", "content": "hello"}]


def client(server: ModelServer, key: str = "key") -> anthropic.AsyncAnthropic:
    return anthropic.AsyncAnthropic(base_url=server.url("anthropic"), api_key=key, max_retries=0)


async def test_text_whole_and_streamed_is_the_same():
    async with ModelServer(script=["héllo — 猫", "héllo — 猫"]) as server, client(server) as api:
        whole = await api.messages.create(model=MODEL, max_tokens=100, messages=HELLO)
        async with api.messages.stream(model=MODEL, max_tokens=100, messages=HELLO) as stream:
            pieces = [text async for text in stream.text_stream]
            streamed = await stream.get_final_message()
        assert "".join(pieces) == "héllo — 猫"
        assert [block.model_dump() for block in streamed.content] == [block.model_dump() for block in whole.content]
        assert (whole.stop_reason, streamed.stop_reason) == ("end_turn", "end_turn")
        assert streamed.usage.output_tokens == whole.usage.output_tokens > 0
        assert server.refusals == []


@pytest.mark.parametrize("stream", [False, True])
async def test_tools_round_trip_with_parallel_calls_and_an_image_in_the_result(stream: bool):
    two = Answer(parts=(Say(text="let me see"), Call(name="add", args={"x": 1}), Call(name="add", args={"x": 2})))
    async with ModelServer(script=[two, "done"]) as server, client(server) as api:
        first = await ask(api, HELLO, stream, tools=[ADD])
        assert first.stop_reason == "tool_use"
        uses = [block for block in first.content if block.type == "tool_use"]
        assert [use.input for use in uses] == [{"x": 1}, {"x": 2}]
        image: Any = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}
        results: list[ToolResultBlockParam] = [
            {"type": "tool_result", "tool_use_id": uses[0].id, "content": "1"},
            {"type": "tool_result", "tool_use_id": uses[1].id, "content": [{"type": "text", "text": "see"}, image]},
        ]
        history: Any = [*HELLO, {"role": "assistant", "content": first.content}, {"role": "user", "content": results}]
        last = await ask(api, history, stream, tools=[ADD])
        assert last.content[0].text == "done"
        parsed = server.last
        assert [(each.call_id, each.text, each.images) for each in parsed.results] == [
            (uses[0].id, "1", 0),
            (uses[1].id, "see", 1),
        ]


async def ask(api: anthropic.AsyncAnthropic, messages: Any, stream: bool, **more: Any) -> Any:
    if not stream:
        return await api.messages.create(model=MODEL, max_tokens=4_000, messages=messages, **more)
    async with api.messages.stream(model=MODEL, max_tokens=4_000, messages=messages, **more) as events:
        return await events.get_final_message()


@pytest.mark.parametrize("stream", [False, True])
async def test_thinking_is_signed_and_must_come_back(stream: bool):
    turn = Answer(parts=(Think(text="hm, add"), Think(text="secret", redacted=True), Call(name="add", args={"x": 1})))
    thinking = {"type": "enabled", "budget_tokens": 2_000}
    async with ModelServer(script=[turn, "done"]) as server, client(server) as api:
        first = await ask(api, HELLO, stream, tools=[ADD], thinking=thinking)
        assert [block.type for block in first.content] == ["thinking", "redacted_thinking", "tool_use"]
        assert first.content[0].signature == seal("hm, add")
        result = {"type": "tool_result", "tool_use_id": first.content[2].id, "content": "1"}
        bare: Any = [
            *HELLO,
            {"role": "assistant", "content": first.content[2:]},
            {"role": "user", "content": [result]},
        ]
        with pytest.raises(anthropic.BadRequestError, match="must start with a thinking block"):
            await ask(api, bare, stream, tools=[ADD], thinking=thinking)
        changed = [{**first.content[0].model_dump(), "thinking": "hm, subtract"}, *first.content[1:]]
        forged: Any = [*HELLO, {"role": "assistant", "content": changed}, {"role": "user", "content": [result]}]
        with pytest.raises(anthropic.BadRequestError, match="Invalid `signature`"):
            await ask(api, forged, stream, tools=[ADD], thinking=thinking)
        whole: Any = [*HELLO, {"role": "assistant", "content": first.content}, {"role": "user", "content": [result]}]
        last = await ask(api, whole, stream, tools=[ADD], thinking=thinking)
        assert last.content[0].text == "done"


async def test_images_and_documents_are_taken():
    async with ModelServer() as server, client(server) as api:
        content: Any = [
            {"type": "text", "text": "look"},
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}},
            {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0xLjQ="}},
        ]
        reply = await api.messages.create(model=MODEL, max_tokens=10, messages=[{"role": "user", "content": content}])
        assert reply.content[0].type == "text"
        parsed = server.last
        assert (parsed.messages[0].images, parsed.messages[0].documents) == (1, 1)


class Invoice(pydantic.BaseModel):
    total: int


async def test_structured_output_by_schema():
    async with ModelServer(script=['{"total": 45}']) as server, client(server) as api:
        reply = await api.messages.parse(model=MODEL, max_tokens=10, messages=HELLO, output_format=Invoice)
        assert reply.parsed_output == Invoice(total=45)
        parsed = server.last
        assert parsed.output_schema is not None
        assert parsed.output_schema["properties"]["total"]["type"] == "integer"


async def test_cached_usage_refusals_and_server_tools():
    script = [
        Answer(parts=(Say(text="hi"),), tokens=Tokens(input=100, output=7, cache_read=60, cache_write=20)),
        Answer(parts=(Decline(text="no"),)),
        Answer(parts=(ServerCall(query="weather", result="sunny"), Say(text="it is sunny"))),
    ]
    async with ModelServer(script=script) as server, client(server) as api:
        usage = (await api.messages.create(model=MODEL, max_tokens=9, messages=HELLO)).usage
        assert (usage.input_tokens, usage.cache_read_input_tokens, usage.cache_creation_input_tokens) == (20, 60, 20)
        assert usage.output_tokens == 7
        assert (await api.messages.create(model=MODEL, max_tokens=9, messages=HELLO)).stop_reason == "refusal"
        searched = await ask(api, HELLO, True)
        assert [block.type for block in searched.content] == ["server_tool_use", "web_search_tool_result", "text"]
        again: Any = [*HELLO, {"role": "assistant", "content": searched.content}, {"role": "user", "content": "and?"}]
        server.say("more")
        assert (await ask(api, again, False)).content[0].text == "more"


async def test_a_key_is_demanded_and_a_window_kept():
    async with ModelServer(key="right", window_tokens=50) as server:
        async with client(server, "wrong") as api:
            with pytest.raises(anthropic.AuthenticationError):
                await api.messages.create(model=MODEL, max_tokens=9, messages=HELLO)
        async with client(server, "right") as api:
            assert (await api.messages.create(model=MODEL, max_tokens=9, messages=HELLO)).content[0].type == "text"
            with pytest.raises(anthropic.BadRequestError, match="prompt is too long") as refused:
                await api.messages.create(model=MODEL, max_tokens=9, messages=[{"role": "user", "content": "x" * 400}])
            assert refused.value.response.headers["request-id"].startswith("req_")


async def test_a_script_can_be_a_function_of_the_request():
    def agent(request):
        if request.results:
            return f"the sum is {request.results[0].text}"
        return call("add", {"x": 3})

    async with ModelServer(script=agent) as server, client(server) as api:
        first = await ask(api, HELLO, False, tools=[ADD])
        result = {"type": "tool_result", "tool_use_id": first.content[0].id, "content": "45"}
        history: Any = [*HELLO, {"role": "assistant", "content": first.content}, {"role": "user", "content": [result]}]
        assert (await ask(api, history, False, tools=[ADD])).content[0].text == "the sum is 45"
        assert server.last.turn == 1
