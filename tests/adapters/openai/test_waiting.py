"""Requests that wait: for a client that leaves, for a session that parks, and what is said with them."""

from __future__ import annotations

import asyncio
import contextlib
import pathlib
from collections.abc import AsyncIterator
from typing import Any

import openai
import pytest

import windlass
from tests.adapters.served_agents import teller
from tests.server.support import WAIT_S, Running, serving
from windlass.adapters.openai.mount import MOUNT
from windlass.store.base import Key
from windlass.testing.scripted import ScriptedModel, by_history, call

from .test_sdk import client_of, item

WORDS: Any = {"model": "digger", "input": "Dig."}
CHAT: Any = {"model": "digger", "messages": [{"role": "user", "content": "Dig."}]}
PATHS = [("/v1/responses", WORDS), ("/v1/chat/completions", CHAT)]


class Digging:
    """A tool at work until it is told to end."""

    def __init__(self) -> None:
        self.begun, self.go = asyncio.Event(), asyncio.Event()

        @windlass.tool
        async def dig() -> str:
            """Digs."""
            self.begun.set()
            await self.go.wait()
            return "dug"

        model = ScriptedModel(by_history([call("dig"), "It is dug."]))
        self.agent = windlass.Agent("digger", model=model, tools=[dig], policy=windlass.ALLOW_ALL)


@contextlib.asynccontextmanager
async def digging(folder: pathlib.Path) -> AsyncIterator[tuple[Running, Digging]]:
    at_work = Digging()
    async with serving(folder, [at_work.agent], mounts=[MOUNT]) as running:
        try:
            yield running, at_work
        finally:
            at_work.go.set()


async def only_session(running: Running) -> str:
    (row,) = (await running.client().get("/v1/sessions"))["sessions"]
    name: str = row["session"]
    return name


@pytest.mark.parametrize(("path", "body"), PATHS)
async def test_a_request_ends_when_its_client_leaves_and_the_run_goes_on(
    tmp_path: pathlib.Path, path: str, body: dict[str, Any]
):
    async with digging(tmp_path) as (running, at_work):
        client = running.client()
        asking = asyncio.ensure_future(client.ask("POST", path, json=body))
        await at_work.begun.wait()
        asking.cancel()
        answered = f'route="{path}",status="400"'
        async with asyncio.timeout(WAIT_S):
            while answered not in (await client.ask("GET", "/v1/metrics")).body.decode():
                await asyncio.sleep(0.02)
        at_work.go.set()
        result = await client.get(f"/v1/sessions/{await only_session(running)}/result?wait_s=60")
        assert result["result"]["text"] == "It is dug."


@pytest.mark.parametrize(("path", "body"), PATHS)
@pytest.mark.parametrize("stream", [False, True])
async def test_a_request_for_a_session_that_parks_is_told_so(
    tmp_path: pathlib.Path, path: str, body: dict[str, Any], *, stream: bool
):
    async with digging(tmp_path) as (running, at_work):
        client = running.client()
        asking = asyncio.ensure_future(client.ask("POST", path, json={**body, "stream": stream}))
        await at_work.begun.wait()
        runtime = await running.server.tenants.runtime("default")
        runtime.host._slots.park(Key("default", await only_session(running)), "its log cannot be read")
        said = await asking
        assert (said.status == 200) == stream
        assert "is parked: its log cannot be read" in said.body.decode()


async def test_instructions_of_a_later_request_are_told_with_it_and_shown_to_nobody(tmp_path: pathlib.Path):
    async with serving(tmp_path, [teller], mounts=[MOUNT]) as running, client_of(running) as client:
        said: Any = {"model": "teller", "instructions": "Be brief."}
        first = await client.responses.create(**said, input="Hello.")
        assert first.output_text == "heard Hello."
        same = await client.responses.create(**said, input="Again.", previous_response_id=first.id)
        assert same.output_text == "heard Again."
        other = await client.responses.create(
            model="teller", instructions="Be rude.", input="And?", previous_response_id=same.id
        )
        assert other.output_text == "heard Instructions for this answer:\nBe rude.\nAnd?"
        records = await running.client().records(await only_session(running))
        bodies = [one["event"]["body"] for one in records if one["event"]["type"] == "prompt.received"]
        assert [body.get("displayed") for body in bodies] == [None, None, "And?"]


async def test_nobody_can_use_up_the_id_of_somebodys_approval(tmp_path: pathlib.Path):
    async with serving(tmp_path, [teller], mounts=[MOUNT]) as running, client_of(running) as client:
        asked = await client.responses.create(model="teller", input="Pay.")
        request = item(asked, "mcp_approval_request")
        session = await only_session(running)
        driver, prompt = running.client("drive"), {"type": "prompt.received"}
        words = {"body": {"content": [{"type": "text", "text": "Hi"}]}}
        for name in (f"openai.{request.id.rpartition(':')[2]}", f"openai:{request.id.rpartition(':')[2]}"):
            key = {"Idempotency-Key": name}
            await driver.ask("POST", f"/v1/sessions/{session}/commands", json=prompt | words, headers=key)
        yes: Any = [{"type": "mcp_approval_response", "approval_request_id": request.id, "approve": True}]
        paid = await client.responses.create(model="teller", input=yes)
        assert item(paid, "mcp_call").output == "paid 3"
        with pytest.raises(openai.NotFoundError):
            await client.responses.retrieve("resp_x.1.1")
