"""The model server's Responses side, seen by the vendor's own client."""

from __future__ import annotations

import json
from typing import Any

import openai
import pydantic
import pytest
from openai.types.responses import FunctionToolParam

from windlass.testing.model_server import Answer, Call, Decline, ModelServer, Picture, Say, ServerCall, Think, call

MODEL = "gpt-5-test"
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
ADD: FunctionToolParam = {
    "type": "function",
    "name": "add",
    "strict": False,
    "parameters": {"type": "object", "properties": {"x": {"type": "integer"}}},
}


def client(server: ModelServer) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=server.url("responses"), api_key="key", max_retries=0)


async def ask(api: openai.AsyncOpenAI, given: Any, stream: bool, **more: Any) -> Any:
    if not stream:
        return await api.responses.create(model=MODEL, input=given, **more)
    async with api.responses.stream(model=MODEL, input=given, **more) as events:
        return await events.get_final_response()


@pytest.mark.parametrize("stream", [False, True])
async def test_text(stream: bool):
    async with ModelServer(script=["héllo — 猫"]) as server, client(server) as api:
        reply = await ask(api, "hello", stream)
        assert reply.output_text == "héllo — 猫"
        assert reply.status == "completed"
        assert reply.usage.total_tokens == reply.usage.input_tokens + reply.usage.output_tokens
        assert server.last.prompt == "hello"


def sent_back(reply: Any) -> list[Any]:
    """A reply's items as a client without server state sends them back."""
    return [item.model_dump(exclude_none=True, exclude={"parsed_arguments"}) for item in reply.output]


@pytest.mark.parametrize("stream", [False, True])
async def test_tools_round_trip_without_server_state(stream: bool):
    turn = Answer(parts=(Think(text="I should add"), Call(name="add", args={"x": 1}), Call(name="add", args={"x": 2})))
    more: Any = {"tools": [ADD], "store": False, "include": ["reasoning.encrypted_content"]}
    async with ModelServer(script=[turn, "done"]) as server, client(server) as api:
        first = await ask(api, "hello", stream, **more)
        assert [item.type for item in first.output] == ["reasoning", "function_call", "function_call"]
        calls = first.output[1:]
        assert [json.loads(item.arguments) for item in calls] == [{"x": 1}, {"x": 2}]
        image = {"type": "input_image", "image_url": f"data:image/png;base64,{PIXEL}", "detail": "auto"}
        outputs = [
            {"type": "function_call_output", "call_id": calls[0].call_id, "output": "1"},
            {"type": "function_call_output", "call_id": calls[1].call_id, "output": [image]},
        ]
        hello = {"role": "user", "content": "hello"}
        last = await ask(api, [hello, *sent_back(first), *outputs], stream, **more)
        assert last.output_text == "done"
        assert [each.images for each in server.last.results] == [0, 1]
        with pytest.raises(openai.BadRequestError, match="without its required 'reasoning' item"):
            await ask(api, [hello, *sent_back(first)[1:], *outputs], stream, **more)
        with pytest.raises(openai.BadRequestError, match="No tool output found"):
            await ask(api, [hello, *sent_back(first), outputs[0]], stream, **more)


@pytest.mark.parametrize("stream", [False, True])
async def test_tools_round_trip_with_server_state(stream: bool):
    turn = Answer(parts=(Think(text="I should add"), Call(name="add", args={"x": 1})))
    async with ModelServer(script=[turn, "done"]) as server, client(server) as api:
        first = await ask(api, "hello", stream, tools=[ADD])
        output = {"type": "function_call_output", "call_id": first.output[1].call_id, "output": "1"}
        last = await ask(api, [output], stream, tools=[ADD], previous_response_id=first.id)
        assert last.output_text == "done"
        roles = [message.role for message in server.last.messages]
        assert roles == ["user", "assistant", "assistant", "tool"]
        with pytest.raises(openai.BadRequestError) as missing:
            await ask(api, "x", stream, previous_response_id="resp_nowhere")
        assert missing.value.code == "previous_response_not_found"


async def test_images_in_and_out_searches_and_refusals():
    script = [
        Answer(parts=(Picture(data=PIXEL), ServerCall(query="cats"), Say(text="here"))),
        Answer(parts=(Decline(text="I will not"),)),
        Answer(parts=(Say(text="half"),), finish="length"),
        Answer(parts=(Call(name="grep", args="a+b", custom=True),)),
    ]
    async with ModelServer(script=script) as server, client(server) as api:
        content = [
            {"type": "input_text", "text": "look"},
            {"type": "input_image", "image_url": f"data:image/png;base64,{PIXEL}", "detail": "auto"},
        ]
        made = await ask(api, [{"role": "user", "content": content}], True)
        assert [item.type for item in made.output] == ["image_generation_call", "web_search_call", "message"]
        assert made.output[0].result == PIXEL
        assert server.last.messages[0].images == 1
        refused = await ask(api, "x", True)
        assert refused.output[0].content[0].refusal == "I will not"
        cut = await ask(api, "x", False)
        assert (cut.status, cut.incomplete_details.reason) == ("incomplete", "max_output_tokens")
        custom = await ask(api, "x", True, tools=[{"type": "custom", "name": "grep"}])
        assert (custom.output[0].type, custom.output[0].input) == ("custom_tool_call", "a+b")


class Invoice(pydantic.BaseModel):
    total: int


async def test_structured_output():
    async with ModelServer(script=['{"total": 45}']) as server, client(server) as api:
        reply = await api.responses.parse(model=MODEL, input="hello", text_format=Invoice)
        assert reply.output_parsed == Invoice(total=45)
        assert (server.last.output_schema or {})["properties"]["total"]["type"] == "integer"


async def test_reasoning_that_was_not_kept_cannot_be_referred_to():
    turn = Answer(parts=(Think(text="hm"), Call(name="add", args={})))
    async with ModelServer(script=[turn, call("add", {})]) as server, client(server) as api:
        first = await ask(api, "hello", False, tools=[ADD], store=False)
        output = {"type": "function_call_output", "call_id": first.output[1].call_id, "output": "1"}
        history = [{"role": "user", "content": "hello"}, *sent_back(first), output]
        with pytest.raises(openai.BadRequestError, match="not persisted when `store` is set to false"):
            await ask(api, history, False, tools=[ADD], store=False)
