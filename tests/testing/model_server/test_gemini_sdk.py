"""The model server's Gemini side, seen by the vendor's own client."""

from __future__ import annotations

import base64
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pydantic
import pytest
from google import genai
from google.genai import errors, types

from windlass.testing.model_server import Answer, Call, ModelServer, Picture, Say, Think, Tokens

# The vendor's client subclasses aiohttp's session, which aiohttp discourages.
pytestmark = pytest.mark.filterwarnings("ignore:Inheritance class:DeprecationWarning")

MODEL = "gemini-2.5-test"
THREE = "gemini-3-test"
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
ADD = types.Tool(
    function_declarations=[
        types.FunctionDeclaration(
            name="add",
            description="Adds.",
            parameters=types.Schema(type=types.Type.OBJECT, properties={"x": types.Schema(type=types.Type.INTEGER)}),
        )
    ]
)


@contextlib.asynccontextmanager
async def client(server: ModelServer, key: str = "key") -> AsyncIterator[genai.Client]:
    api = genai.Client(api_key=key, http_options=types.HttpOptions(base_url=server.url("gemini")))
    try:
        yield api
    finally:
        await api.aio.aclose()
        api.close()


async def ask(api: genai.Client, contents: Any, stream: bool, model: str = MODEL, **config: Any) -> list[Any]:
    """The chunks of a reply; a whole one is one chunk."""
    settings = types.GenerateContentConfig(**config)
    if not stream:
        return [await api.aio.models.generate_content(model=model, contents=contents, config=settings)]
    replies = await api.aio.models.generate_content_stream(model=model, contents=contents, config=settings)
    return [chunk async for chunk in replies]


def parts_of(chunks: list[Any]) -> list[Any]:
    return [part for chunk in chunks for part in chunk.candidates[0].content.parts or []]


def text_of(chunks: list[Any]) -> str:
    return "".join(part.text or "" for part in parts_of(chunks) if not part.thought)


@pytest.mark.parametrize("stream", [False, True])
async def test_text(stream: bool):
    async with ModelServer(script=["héllo — 猫, this is long enough"]) as server, client(server) as api:
        chunks = await ask(api, "hello", stream, system_instruction="be kind")
        assert text_of(chunks) == "héllo — 猫, this is long enough"
        assert chunks[-1].candidates[0].finish_reason == types.FinishReason.STOP
        assert chunks[-1].usage_metadata.total_token_count > 0
        assert chunks[-1].model_version == MODEL
        assert (server.last.prompt, server.last.system) == ("hello", "be kind")


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("model", [MODEL, THREE])
async def test_tools_round_trip_with_parallel_calls(stream: bool, model: str):
    two = Answer(parts=(Think(text="hm"), Call(name="add", args={"x": 1}), Call(name="add", args={"x": 2})))
    async with ModelServer(script=[two, "done"]) as server, client(server) as api:
        parts = parts_of(await ask(api, "hello", stream, model, tools=[ADD]))
        called = [part for part in parts if part.function_call]
        assert [part.function_call.args for part in called] == [{"x": 1}, {"x": 2}]
        assert [part.thought_signature is not None for part in called] == [True, False]
        answers = [
            types.Part(
                function_response=types.FunctionResponse(
                    name="add", id=part.function_call.id, response={"result": "ok"}
                )
            )
            for part in called
        ]
        history = [
            types.Content(role="user", parts=[types.Part(text="hello")]),
            types.Content(role="model", parts=called),
            types.Content(role="user", parts=answers),
        ]
        assert text_of(await ask(api, history, stream, model, tools=[ADD])) == "done"
        assert [each.text for each in server.last.results] == ["ok", "ok"]


async def test_gemini_three_wants_its_signature_back():
    async with (
        ModelServer(script=[Answer(parts=(Call(name="add", args={"x": 1}),)), "done"]) as server,
        client(server) as api,
    ):
        (part,) = parts_of(await ask(api, "hello", False, THREE, tools=[ADD]))
        answer = types.Part.from_function_response(name="add", response={"result": "1"})
        for signature, refused in ((None, "thought_signature"), (b"forged", "Corrupted")):
            bad = types.Part(function_call=part.function_call, thought_signature=signature)
            history = [
                types.Content(role="user", parts=[types.Part(text="hello")]),
                types.Content(role="model", parts=[bad]),
                types.Content(role="user", parts=[answer]),
            ]
            with pytest.raises(errors.ClientError, match=refused):
                await ask(api, history, False, THREE, tools=[ADD])
        good = [history[0], types.Content(role="model", parts=[part]), history[2]]
        assert text_of(await ask(api, good, False, THREE, tools=[ADD])) == "done"


async def test_chat_sessions_of_the_sdk_work_through():
    async with ModelServer(script=["one", "two"]) as server, client(server) as api:
        chat = api.aio.chats.create(model=MODEL)
        assert (await chat.send_message("first")).text == "one"
        assert (await chat.send_message("second")).text == "two"
        assert server.last.turn == 1
        assert server.prefix_violations() == []


async def test_images_in_and_out_and_reasoning():
    answer = Answer(parts=(Think(text="I look"), Say(text="here"), Picture(data=PIXEL)))
    async with ModelServer(script=[answer, answer]) as server, client(server) as api:
        picture = types.Part.from_bytes(data=base64.b64decode(PIXEL), mime_type="image/png")
        for stream in (False, True):
            parts = parts_of(await ask(api, ["look", picture], stream))
            assert [part.text for part in parts if part.thought] == ["I look"]
            made = [part.inline_data for part in parts if part.inline_data]
            assert made[0].data == base64.b64decode(PIXEL)
        assert server.last.messages[0].images == 1


class Invoice(pydantic.BaseModel):
    total: int


async def test_structured_output():
    async with ModelServer(script=['{"total": 45}']) as server, client(server) as api:
        (reply,) = await ask(api, "hello", False, response_mime_type="application/json", response_schema=Invoice)
        assert reply.parsed == Invoice(total=45)
        assert (server.last.output_schema or {})["properties"]["total"]["type"] == "INTEGER"


async def test_usage_and_finish_reasons():
    script = [
        Answer(parts=(Say(text="x"),), tokens=Tokens(input=100, output=9, cache_read=60, reasoning=4)),
        Answer(parts=(Say(text="cut"),), finish="length"),
        Answer(parts=(Say(text="bad"),), finish="content_filter"),
        Answer(parts=(Call(name="add", args='{"x": '),)),
    ]
    async with ModelServer(script=script) as server, client(server) as api:
        (reply,) = await ask(api, "x", False)
        usage = reply.usage_metadata
        counts = (usage.prompt_token_count, usage.candidates_token_count, usage.thoughts_token_count)
        assert counts == (100, 5, 4)
        assert usage.cached_content_token_count == 60
        reasons = [(await ask(api, "x", True))[-1].candidates[0].finish_reason.name for _ in range(3)]
        assert reasons == ["MAX_TOKENS", "SAFETY", "MALFORMED_FUNCTION_CALL"]


async def test_a_wrong_key_is_a_400_and_the_window_is_kept():
    async with ModelServer(key="right", window_tokens=50) as server, client(server, "wrong") as wrong:
        with pytest.raises(errors.ClientError, match="API key not valid") as refused:
            await ask(wrong, "hello", False)
        assert refused.value.code == 400
        async with client(server, "right") as right:
            with pytest.raises(errors.ClientError, match="exceeds the maximum number of tokens"):
                await ask(right, "x" * 400, False)
