"""The public `openai` client, unchanged, against a server on loopback."""

from __future__ import annotations

import pathlib
from typing import Any

import openai
import pytest

import windlass
from tests.server.support import Running, clerk, serving
from windlass.adapters.openai.mount import MOUNT
from windlass.testing.scripted import ScriptedModel, by_history, call


def client_of(running: Running, *roles: str) -> openai.AsyncOpenAI:
    known = running.client(*roles)
    return openai.AsyncOpenAI(base_url=f"{known.url}/v1", api_key=str(known.token), max_retries=0, timeout=300)


def yes(request_id: str) -> Any:
    return [{"type": "mcp_approval_response", "approval_request_id": request_id, "approve": True}]


def item(response: Any, kind: str) -> Any:
    (found,) = [one for one in response.output if one.type == kind]
    return found


async def test_a_call_is_approved_in_another_server_than_the_one_that_asked(tmp_path: pathlib.Path):
    async with serving(tmp_path, [clerk()], mounts=[MOUNT]) as running, client_of(running) as client:
        assert [model.id async for model in client.models.list()] == ["clerk"]
        asked = await client.responses.create(model="clerk", input="Pay the invoice.")
        assert asked.status == "completed"
        request = item(asked, "mcp_approval_request")
        assert (request.name, request.arguments, request.server_label) == ("pay", '{"amount":3}', "clerk")
    async with serving(tmp_path, [clerk()], mounts=[MOUNT]) as running, client_of(running) as client:
        paid = await client.responses.create(model="clerk", previous_response_id=asked.id, input=yes(request.id))
        assert paid.output_text == "It is paid."
        assert item(paid, "mcp_call").output == "paid 3"
        again = await client.responses.create(model="clerk", previous_response_id=asked.id, input=yes(request.id))
        assert (again.id, again.output) == (paid.id, paid.output)
        assert (await client.responses.retrieve(paid.id)).output == paid.output


async def test_a_stream_adds_up_to_the_response_that_is_kept(tmp_path: pathlib.Path):
    async with serving(tmp_path, [clerk(ask=False)], mounts=[MOUNT]) as running, client_of(running) as client:
        stream = await client.responses.create(model="clerk", input="Pay the invoice.", stream=True)
        events = [event async for event in stream]
        assert events[0].type == "response.created"
        assert [event.sequence_number for event in events] == list(range(len(events)))
        end = events[-1]
        assert end.type == "response.completed"
        text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
        assert text == end.response.output_text == "It is paid."
        assert (await client.responses.retrieve(end.response.id)).output == end.response.output


async def test_what_is_wrong_is_said_in_their_form(tmp_path: pathlib.Path):
    async with serving(tmp_path, [clerk()], mounts=[MOUNT]) as running, client_of(running) as client:
        with pytest.raises(openai.NotFoundError) as no_model:
            await client.responses.create(model="nobody", input="Hi")
        assert no_model.value.code == "no_agent"
        with pytest.raises(openai.NotFoundError):
            await client.responses.retrieve("resp_march.1.1")
        with pytest.raises(openai.BadRequestError) as kept:
            await client.responses.create(model="clerk", input="Hi", store=False)
        assert (kept.value.param, kept.value.type) == ("store", "invalid_request_error")
        stranger = openai.AsyncOpenAI(base_url=str(client.base_url), api_key="wl_nobody", max_retries=0)
        with pytest.raises(openai.AuthenticationError) as unknown:
            await stranger.models.list()
        await stranger.close()
        assert unknown.value.code == "token"
        asked = await client.responses.create(model="clerk", input="Pay the invoice.")
        driver = client_of(running, "drive")
        with pytest.raises(openai.PermissionDeniedError):
            await driver.responses.create(model="clerk", input=yes(item(asked, "mcp_approval_request").id))
        await driver.close()


async def test_a_function_of_the_client_is_run_by_it_and_the_same_session_goes_on(tmp_path: pathlib.Path):
    model = ScriptedModel(by_history([call("look_up", name="x"), "Found."]))
    agent = windlass.Agent("seeker", model=model, policy=windlass.ALLOW_ALL)
    tools: Any = [{"type": "function", "name": "look_up", "parameters": {"type": "object", "properties": {}}}]
    async with serving(tmp_path, [agent], mounts=[MOUNT]) as running, client_of(running) as client:
        asked = await client.responses.create(model="seeker", input="Seek.", tools=tools)
        wanted = item(asked, "function_call")
        assert (wanted.name, wanted.arguments) == ("look_up", '{"name":"x"}')
        given: Any = [{"type": "function_call_output", "call_id": wanted.call_id, "output": "here"}]
        found = await client.responses.create(model="seeker", input=given, tools=tools)
        assert [one.type for one in found.output] == ["message"]
        assert found.output_text == "Found."


@pytest.mark.parametrize("depth", [60, 200])
async def test_a_function_whose_schema_is_too_deep_is_refused_in_words(tmp_path: pathlib.Path, depth: int):
    schema: Any = {}
    for _ in range(depth):
        schema = {"properties": {"more": schema}}
    function = {"type": "function", "name": "deep", "parameters": {"type": "object", **schema}}
    async with serving(tmp_path, [clerk(ask=False)], mounts=[MOUNT]) as running:
        body = {"model": "clerk", "input": "Pay.", "tools": [function]}
        said = await running.client().ask("POST", "/v1/responses", json=body)
        assert (said.status, said.code) == (400, "usage")
        assert "tool 'deep': its parameters are no valid JSON Schema" in said.json["error"]["message"]
