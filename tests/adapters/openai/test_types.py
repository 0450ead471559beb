"""All that is answered, held to the types of the published `openai` client, which itself reads with more leniency."""

from __future__ import annotations

import pathlib
from typing import Any

import openai
import pytest
from openai.types import Model
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from tests.adapters.served_agents import teller
from tests.server.support import Client, serving
from windlass.adapters.openai.mount import MOUNT

from .test_sdk import client_of, item

RESPONSE: TypeAdapter[Any] = TypeAdapter(Response)
EVENT: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
COMPLETION: TypeAdapter[Any] = TypeAdapter(ChatCompletion)
CHUNK: TypeAdapter[Any] = TypeAdapter(ChatCompletionChunk)
LOOK_UP: Any = {"name": "look_up", "parameters": {"type": "object", "properties": {}}}
WORDS = ["Hello.", "Pay.", "Ask.", "Note.", "Fail."]


async def frames(client: Client, path: str, body: Any) -> list[bytes]:
    """The data of each event that is streamed."""
    said = await client.ask("POST", path, json={**body, "stream": True})
    assert said.status == 200, said
    data = [line[6:] for line in said.body.split(b"\n") if line.startswith(b"data: ")]
    return [one for one in data if one != b"[DONE]"]


@pytest.mark.parametrize("words", WORDS)
@pytest.mark.parametrize("tools", [[], [{"type": "function", **LOOK_UP}]], ids=["plain", "with a function"])
async def test_a_response_and_each_of_its_events_are_as_their_types_say(
    tmp_path: pathlib.Path, words: str, tools: list[Any]
):
    body = {"model": "teller", "input": words, "tools": tools}
    async with serving(tmp_path, [teller], mounts=[MOUNT]) as running:
        client = running.client()
        whole = await client.ask("POST", "/v1/responses", json=body)
        made = RESPONSE.validate_json(whole.body)
        kept = await client.ask("GET", f"/v1/responses/{made.id}")
        assert RESPONSE.validate_json(kept.body) == made
        events = [EVENT.validate_json(one) for one in await frames(client, "/v1/responses", body)]
        assert events[-1].type == f"response.{made.status}"
        kinds = [one.type for one in made.output]
        assert [one.type for one in events[-1].response.output] == kinds
        assert [one.item.type for one in events if one.type == "response.output_item.done"] == kinds


@pytest.mark.parametrize("words", WORDS[:-1])
async def test_a_completion_and_each_of_its_chunks_are_as_their_types_say(tmp_path: pathlib.Path, words: str):
    body = {"model": "teller", "messages": [{"role": "user", "content": words}]}
    streamed = {**body, "stream_options": {"include_usage": True}, "user": "another"}
    async with serving(tmp_path, [teller], mounts=[MOUNT]) as running:
        client = running.client()
        made = COMPLETION.validate_json((await client.ask("POST", "/v1/chat/completions", json=body)).body)
        chunks = [CHUNK.validate_json(one) for one in await frames(client, "/v1/chat/completions", streamed)]
        assert chunks[-1].usage == made.usage
        assert chunks[-2].choices[0].finish_reason == made.choices[0].finish_reason


async def test_reasoning_is_told_as_a_summary_before_the_words_that_follow_it(tmp_path: pathlib.Path):
    async with serving(tmp_path, [teller], mounts=[MOUNT]) as running, client_of(running) as client:
        async with client.responses.stream(model="teller", input="Pay.") as stream:
            thought = [event.delta async for event in stream if event.type == "response.reasoning_summary_text.delta"]
            told = await stream.get_final_response()
        assert "".join(thought) == "Let me see."
        assert [one.type for one in told.output] == ["reasoning", "message", "mcp_approval_request"]
        assert item(told, "reasoning").summary[0].text == "Let me see."


async def test_settings_of_the_client_are_passed_over_and_what_would_mean_another_thing_is_refused(
    tmp_path: pathlib.Path,
):
    passed: dict[str, Any] = {
        "reasoning": {"effort": "low"},
        "text": {"verbosity": "low", "format": {"type": "text"}},
        "include": ["reasoning.encrypted_content"],
        "stream_options": {"include_obfuscation": False},
        "service_tier": "auto",
        "prompt_cache_key": "k",
        "safety_identifier": "s",
        "truncation": "auto",
        "max_output_tokens": 9,
        "max_tool_calls": 9,
        "temperature": 0.1,
        "top_p": 0.1,
        "top_logprobs": 1,
        "metadata": {"a": "b"},
        "parallel_tool_calls": False,
        "tool_choice": "auto",
        "store": True,
        "user": "u",
        "background": False,
        "conversation": None,
        "prompt": None,
    }
    refused: dict[str, Any] = {
        "background": True,
        "conversation": "conv_1",
        "prompt": {"id": "pmpt_1"},
        "store": False,
        "text": {"format": {"type": "json_schema", "name": "n", "schema": {"type": "object"}}},
    }
    async with serving(tmp_path, [teller], mounts=[MOUNT]) as running, client_of(running) as client:
        said = await client.responses.create(model="teller", input="Hello.", **passed)
        assert said.output_text == "heard Hello."
        for name, value in refused.items():
            more: Any = {name: value}
            with pytest.raises(openai.BadRequestError) as error:
                await client.responses.create(model="teller", input="Hello.", **more)
            assert str(error.value.param).startswith(name)
        assert len((await running.client().get("/v1/sessions"))["sessions"]) == 1


async def test_an_agent_is_found_as_a_model_and_nobody_else_is(tmp_path: pathlib.Path):
    async with serving(tmp_path, [teller], mounts=[MOUNT]) as running, client_of(running) as client:
        wanted = Model(id="teller", created=0, object="model", owned_by="windlass")
        assert (await client.models.retrieve("teller")).to_dict() == wanted.to_dict()
        with pytest.raises(openai.NotFoundError, match="no agent 'nobody'"):
            await client.models.retrieve("nobody")


async def test_what_the_developer_says_among_the_messages_is_an_instruction(tmp_path: pathlib.Path):
    said: Any = [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": "Hello."}]
    async with serving(tmp_path, [teller], mounts=[MOUNT]) as running, client_of(running) as client:
        first = await client.responses.create(model="teller", input=said, instructions="Be kind.")
        assert first.output_text == "heard Hello."
        (session,) = (await running.client().get("/v1/sessions"))["sessions"]
        records = await running.client().records(session["session"])
        told = [one["event"]["body"]["text"] for one in records if one["event"]["type"] == "instructions.rendered"]
        assert told == ["You are a teller.\n\nBe kind.\n\nBe brief."]


async def test_a_client_that_repeats_the_history_before_the_result_of_a_call_continues_its_session(
    tmp_path: pathlib.Path,
):
    tools: Any = [{"type": "function", **LOOK_UP}]
    history: list[Any] = [{"role": "user", "content": "Pay."}]
    async with serving(tmp_path, [teller], mounts=[MOUNT]) as running, client_of(running) as client:
        asked = await client.responses.create(model="teller", input=history, tools=tools)
        history += [one.model_dump(exclude_unset=True) for one in asked.output]
        call = item(asked, "function_call").call_id
        history.append({"type": "function_call_output", "call_id": call, "output": "ours"})
        more = await client.responses.create(model="teller", input=history, tools=tools)
        history += [one.model_dump(exclude_unset=True) for one in more.output]
        request = item(more, "mcp_approval_request").id
        history.append({"type": "mcp_approval_response", "approval_request_id": request, "approve": True})
        paid = await client.responses.create(model="teller", input=history, tools=tools)
        assert paid.output_text == "It is so: paid 3."
        (session,) = (await running.client().get("/v1/sessions"))["sessions"]
        kinds = [one["event"]["type"] for one in await running.client().records(session["session"])]
        assert kinds.count("prompt.received") == 1
        history += [one.model_dump(exclude_unset=True) for one in paid.output]
        history.append({"role": "user", "content": "Thanks."})
        with pytest.raises(openai.BadRequestError, match="previous_response_id"):
            await client.responses.create(model="teller", input=history, tools=tools)
