"""No known secret is written or given to a model, whoever says it: a provider, a tool, a client or a person."""

from __future__ import annotations

import base64
import json
import pathlib

import msgspec
import pytest
from aiohttp import web

import windlass
from windlass.events.live import CallDelta
from windlass.events.stored import known_secrets
from windlass.events.values.blocks import Data, Text
from windlass.models.catalogue.endpoints import ENDPOINTS, connect
from windlass.runtime.drive.shown_deltas import ShownDeltas
from windlass.runtime.streams.subscribers import Hub
from windlass.testing.scripted import ScriptedModel, call
from windlass.tools.planes.large_output import LARGE_BYTES

KEY = "Zq7-unlike-any-known-prefix-41d9"


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch):
    """Secrets of one test are no secrets of the next."""
    secrets = known_secrets.KnownSecrets()
    for name in (
        "windlass.tools.planes.results",
        "windlass.runtime.owner.secret_filter",
        "windlass.runtime.commands.sender",
    ):
        monkeypatch.setattr(f"{name}.SECRETS", secrets)
    monkeypatch.setattr(known_secrets, "SECRETS", secrets)
    monkeypatch.setattr("windlass.runtime.drive.shown_deltas.SECRETS", secrets)
    monkeypatch.setattr("windlass.models.transport.http_model.SECRETS", secrets)
    monkeypatch.setattr("windlass.models.catalogue.credentials.SECRETS", secrets)


def stored(folder: pathlib.Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())


def chunk(**delta: object) -> dict[str, object]:
    return {"id": "r1", "object": "chat.completion.chunk", "model": "m", "choices": [{"index": 0, "delta": delta}]}


def streamed(*chunks: dict[str, object], headers: dict[str, str] | None = None, finish: str = "stop") -> web.Response:
    last = {**chunk(), "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]}
    lines = [f"data: {json.dumps(one)}\n\n" for one in (*chunks, last)]
    return web.Response(
        text="".join(lines) + "data: [DONE]\n\n", content_type="text/event-stream", headers=headers or {}
    )


def error(status: int = 400, headers: dict[str, str] | None = None, **fields: object) -> web.Response:
    return web.json_response({"error": {"message": "no", **fields}}, status=status, headers=headers)


def tool_call(name: str, arguments: str, call_id: str = "c1") -> dict[str, object]:
    return chunk(tool_calls=[{"index": 0, "id": call_id, "function": {"name": name, "arguments": arguments}}])


ECHOES = {
    "text": lambda: streamed(chunk(content=f"your key is {KEY}.")),
    "text in two deltas": lambda: streamed(chunk(content=KEY[:9]), chunk(content=KEY[9:])),
    "base64 in text": lambda: streamed(chunk(content=base64.b64encode(KEY.encode()).decode())),
    "reasoning": lambda: streamed(chunk(reasoning_content=KEY), chunk(content="x")),
    "refusal": lambda: streamed(chunk(refusal=KEY)),
    "response id": lambda: streamed({**chunk(content="x"), "id": KEY}),
    "model name": lambda: streamed({**chunk(content="x"), "model": KEY}),
    "request id header": lambda: streamed(chunk(content="x"), headers={"x-request-id": KEY}),
    "arguments": lambda: streamed(tool_call("echo", json.dumps({"text": KEY})), finish="tool_calls"),
    "argument name": lambda: streamed(tool_call("echo", json.dumps({KEY: 1})), finish="tool_calls"),
    "broken arguments": lambda: streamed(tool_call("echo", '{"text": "' + KEY), finish="tool_calls"),
    "tool name": lambda: streamed(tool_call(KEY, "{}"), finish="tool_calls"),
    "call id": lambda: streamed(tool_call("echo", '{"text": "x"}', KEY), finish="tool_calls"),
    "error message": lambda: error(message=f"Incorrect API key provided: {KEY}"),
    "error code": lambda: error(code=KEY),
    "error type": lambda: error(type=KEY),
    "error detail": lambda: error(metadata={"raw": {"headers": [f"Authorization: {KEY}"]}}),
    "error detail name": lambda: error(metadata={KEY: "x"}),
    "error header": lambda: error(headers={"x-request-id": KEY}),
    "401": lambda: error(401, message=KEY),
    "page": lambda: web.Response(status=502, text=f"<html>proxy: {KEY}</html>", content_type="text/html"),
    "in a stream": lambda: streamed({"error": {"message": KEY, "code": KEY}}),
    "no json": lambda: web.Response(text=f"data: {KEY}\n\n", content_type="text/event-stream"),
}


@windlass.tool(contract="pure")
def echo(text: str) -> str:
    "Says it again."
    return text


@pytest.mark.parametrize("way", ECHOES)
async def test_a_key_that_a_provider_echoes_is_not_written(way: str, tmp_path: pathlib.Path):
    answers = [ECHOES[way]]

    async def answer(request: web.Request) -> web.Response:
        await request.read()
        return answers.pop()() if answers else streamed(chunk(content="done"))

    app = web.Application()
    app.router.add_post("/{tail:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
        endpoint = msgspec.structs.replace(ENDPOINTS["openai"], base_url=url)
        model = connect(endpoint, "m", credential=KEY)
        agent = windlass.Agent(name="a", model=model, tools=[echo])
        async with windlass.open(tmp_path / "store.db", agents=[agent]) as runtime:
            session = await runtime.session(agent, "s")
            await session.prompt("Hello.")
            await session.result()
            shown = msgspec.json.encode([record.event async for record in session.records()])
        await model.close()
    finally:
        await runner.cleanup()
    assert KEY.encode() not in shown
    assert KEY.encode() not in stored(tmp_path)
    assert base64.b64encode(KEY.encode()).rstrip(b"=") not in stored(tmp_path)


RESULTS = {
    "text": lambda: f"the key is {KEY}",
    "data": lambda: {"env": {"KEY": KEY}, "n": 1},
    "name in data": lambda: {KEY: 1},
    "list": lambda: [1, KEY],
    "blocks": lambda: [Text(text=KEY), Data(value={"k": KEY}), KEY],
    "large text": lambda: "x" * LARGE_BYTES + KEY + "y" * LARGE_BYTES,
    "large data": lambda: {"pad": "x" * LARGE_BYTES, "k": KEY},
    "bytes": lambda: b"\xff" + KEY.encode(),
    "large blocks": lambda: [Text(text="x" * LARGE_BYTES), Text(text=KEY)],
}


@pytest.mark.parametrize("way", RESULTS)
async def test_a_secret_in_a_result_reaches_neither_the_log_nor_the_model(way: str, tmp_path: pathlib.Path):
    known_secrets.SECRETS.add(KEY)

    @windlass.tool(contract="pure")
    def leak() -> object:
        "Says too much."
        return RESULTS[way]()

    model = ScriptedModel([call("leak"), "Done."])
    agent = windlass.Agent(name="a", model=model, tools=[leak])
    async with windlass.open(tmp_path / "store.db", agents=[agent]) as runtime:
        session = await runtime.session(agent, "s")
        await session.prompt("Go.")
        assert (await session.result()).text == "Done."
    assert KEY not in repr(model.requests[-1].items)
    assert known_secrets.HIDDEN in repr(model.requests[-1].items) or way.startswith("large")
    assert KEY.encode() not in stored(tmp_path)


async def test_a_secret_in_an_error_a_prompt_or_a_title_is_not_written(tmp_path: pathlib.Path):
    known_secrets.SECRETS.add(KEY)

    @windlass.tool(contract="pure")
    def fail() -> str:
        "Fails."
        raise RuntimeError(f"401 for {KEY}")

    model = ScriptedModel([call("fail"), f"It was {KEY}."])
    agent = windlass.Agent(name="a", model=model, tools=[fail])
    async with windlass.open(tmp_path / "store.db", agents=[agent]) as runtime:
        session = await runtime.session(agent, "s", title=f"with {KEY}", metadata={"k": KEY})
        await session.prompt(f"Use {KEY}.")
        result = await session.result()
    assert result.text == f"It was {known_secrets.HIDDEN}."
    assert KEY not in repr(model.requests)
    assert KEY.encode() not in stored(tmp_path)


async def test_a_secret_in_a_command_for_another_process_is_not_left_in_its_inbox(tmp_path: pathlib.Path):
    known_secrets.SECRETS.add(KEY)
    agent = windlass.Agent(name="a", model=ScriptedModel(["One.", "Two."]))
    async with windlass.open(tmp_path / "store.db", agents=[agent]) as owner:
        session = await owner.session(agent, "s")
        await session.prompt("Hello.")
        await session.result()
        async with windlass.open(tmp_path / "store.db", agents=[]) as other:
            await (await other.get("s")).prompt(f"Use {KEY}.")
            assert KEY.encode() not in stored(tmp_path)


async def test_a_secret_in_the_arguments_of_a_call_is_hidden_while_they_come_in_and_the_rest_is_shown() -> None:
    known_secrets.SECRETS.add(KEY)
    hub, said = Hub(), list(f'{{"note": "the key is {KEY}, say it"}}')
    reader = hub.subscribe()
    shown = ShownDeltas(hub)
    for piece in said:
        shown.show([CallDelta(request_id="r", ordinal=0, fragment=piece)])
    shown.end()
    seen = ""
    while (told := reader.at_hand()) is not None:
        assert isinstance(told, CallDelta)
        seen += told.fragment
    assert seen == f'{{"note": "the key is {known_secrets.HIDDEN}, say it"}}'
