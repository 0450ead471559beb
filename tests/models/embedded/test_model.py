"""The embedded model, really run: it streams, it calls a tool under a schema, it stops when left.

What it says is never asserted word for word: a small model at temperature 0 still differs between machines.
"""

from __future__ import annotations

import asyncio
import gc
import importlib.util
import os
import pathlib
import sys
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from windlass.events.errors import UsageError
from windlass.events.values.blocks import Image, Text
from windlass.events.values.failures import Failure
from windlass.events.values.items import (
    AssistantItem,
    CallPart,
    ModelSettings,
    OutputSchema,
    ResultItem,
    ToolSchema,
    UserItem,
)
from windlass.events.values.usage import Usage
from windlass.models.base import CallPartDelta, Model, ModelInfo, Reply, Request, TextPart
from windlass.models.catalogue.names import open_model
from windlass.models.embedded import model as embedded
from windlass.models.embedded.constrained import ConstrainedModel
from windlass.models.embedded.model import (
    EMBEDDED_INFO,
    Answer,
    EmbeddedModel,
    Engine,
    LoadProgress,
    cache_dir,
    chat_body,
    missing,
    model_path,
)
from windlass.models.embedded.pull import pull
from windlass.models.embedded.repetition import ENDLESS

ADD = ToolSchema(
    name="add",
    description="Add two numbers.",
    parameters={
        "type": "object",
        "properties": {"x": {"type": "integer"}, "y": {"type": "integer"}},
        "required": ["x", "y"],
        "additionalProperties": False,
    },
)


PATIENCE_S = 60.0


@pytest.fixture(scope="session")
def model_file() -> pathlib.Path:
    """The real model: from the user's cache, else fetched once into a cache beside the environment's packages."""
    here = {**os.environ, "WINDLASS_CACHE": os.environ.get("WINDLASS_CACHE") or f"{sys.prefix}/windlass-cache"}
    for environ in (os.environ, here):
        if missing(model_path(environ)) is None:
            return model_path(environ)
    return pull(environ=here)


@pytest.fixture
def model(model_file: pathlib.Path) -> EmbeddedModel:
    return EmbeddedModel(model_file)


def said(text: str, limit: int = 16, **more) -> Request:
    return Request(
        model="embedded",
        items=[UserItem(content=(Text(text=text),))],
        settings=ModelSettings(max_output_tokens=limit),
        **more,
    )


async def test_real_prompt_streams_and_reports(model: EmbeddedModel):
    pieces = [piece async for piece in model.stream(said("Say hello.", 8))]
    reply = pieces[-1]
    assert isinstance(model, Model)
    assert isinstance(reply, Reply)
    deltas = [piece.text for piece in pieces[:-1] if isinstance(piece, TextPart)]
    assert len(deltas) == len(pieces) - 1 > 1
    assert reply.blocks == (Text(text="".join(deltas)),)
    assert 1 < reply.usage.output_tokens <= 8
    assert reply.usage.input_tokens > 5
    assert (reply.model, reply.provider) == ("smollm2-135m", "embedded")
    assert reply.first_output_ms is not None
    assert reply.first_output_ms <= reply.duration_ms


async def test_request_without_streaming_gets_only_the_reply(model: EmbeddedModel):
    pieces = [piece async for piece in model.stream(said("Say hello.", 4, stream=False))]
    assert [type(piece) for piece in pieces] == [Reply]
    assert isinstance(pieces[0], Reply)
    assert pieces[0].finish == "length"


async def test_tool_call_under_a_schema_end_to_end(model: EmbeddedModel):
    agent = ConstrainedModel(model)
    request = said("What is 17 + 28?", 60, tools=(ADD,))
    pieces = [piece async for piece in agent.stream(request)]
    reply = pieces[-1]
    assert isinstance(reply, Reply)
    assert pieces[0] == CallPartDelta(ordinal=0, tool="add")
    (call,) = reply.calls
    assert call.args is not None
    assert sorted(call.args) == ["x", "y"]
    assert all(isinstance(value, int) for value in call.args.values())
    request.items += [
        AssistantItem(content=(CallPart(call_id="c1", tool="add", args=call.args),)),
        ResultItem(call_id="c1", tool="add", content=(Text(text="45"),)),
    ]
    end = [piece async for piece in agent.stream(request)][-1]
    assert isinstance(end, Reply)
    assert end.calls or end.blocks
    assert end.usage.cache_read_tokens > 100  # the history before it was not read again


async def test_schema_binds_every_answer(model: EmbeddedModel):
    shape = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    output = OutputSchema(name="city", json_schema=shape)
    end = [piece async for piece in model.stream(said("A city?", 40, output=output))][-1]
    assert isinstance(end, Reply)
    assert isinstance(end.blocks[0], Text)
    assert end.blocks[0].text.lstrip().startswith("{")


@pytest.fixture
def pieces(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Every piece that the engine handed over, on its own thread, whether anybody still listened or not."""
    handed: list[dict[str, Any]] = []
    real = Answer._chunk

    def spied(self: Answer, chunk: dict[str, Any]) -> bool:
        handed.append(chunk)
        return real(self, chunk)

    monkeypatch.setattr(Answer, "_chunk", spied)
    return handed


async def test_leaving_half_way_stops_the_engine(model: EmbeddedModel, pieces: list[dict[str, Any]]):
    stream = model.stream(said("Tell a very long story about the sea.", 1_000))
    for _ in range(3):
        assert isinstance(await anext(stream), TextPart)
    await stream.aclose()  # type: ignore[attr-defined]
    end = [piece async for piece in model.stream(said("Say hello.", 1))][-1]
    assert isinstance(end, Reply)
    assert len(pieces) < 500  # of more than a thousand: the engine's one thread was free long before the story's end


async def test_cancelled_task_stops_while_the_prompt_is_read(model: EmbeddedModel, monkeypatch: pytest.MonkeyPatch):
    reading, cancelled = threading.Event(), threading.Event()
    progress: list[dict[str, int]] = []
    real = Answer._chunk

    def held(self: Answer, chunk: dict[str, Any]) -> bool:
        """The engine stands still after the first part of the prompt until the reader is gone."""
        read = chunk.get("prompt_progress")
        if read is not None and read["processed"] and not cancelled.is_set():
            reading.set()
            cancelled.wait(PATIENCE_S)
        if read is not None:
            progress.append(read)
        return real(self, chunk)

    async def read() -> None:
        async for _ in model.stream(said("bird " * 2_000, 8)):
            pass

    with monkeypatch.context() as patch:
        patch.setattr(Answer, "_chunk", held)
        task = asyncio.create_task(read())
        assert await asyncio.to_thread(reading.wait, PATIENCE_S)
        task.cancel()
        await asyncio.sleep(0)
        cancelled.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert isinstance([piece async for piece in model.stream(said("Hi.", 1))][-1], Reply)
    longest = max(part["total"] for part in progress)
    assert max(part["processed"] for part in progress if part["total"] == longest) < longest


async def test_loop_stays_free_while_the_model_works(model: EmbeddedModel):
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.001)
            ticks += 1

    ticking = asyncio.create_task(tick())
    # While the prompt is read nothing reaches the loop, so that every tick is one that the engine left room for.
    assert isinstance(await anext(model.stream(said("Count to ten. " * 25, 8))), TextPart)
    ticking.cancel()
    assert ticks > 10


async def test_prompt_that_does_not_fit_is_a_typed_failure(model: EmbeddedModel):
    (end,) = [piece async for piece in model.stream(said("word " * 6_000))]
    assert isinstance(end, Failure)
    assert (end.kind, end.limit, end.retryable) == ("context_exceeded", EMBEDDED_INFO.window_tokens, False)
    assert end.requested is not None
    assert end.requested > 6_000


async def test_schema_that_the_engine_cannot_follow_is_a_typed_failure(model: EmbeddedModel):
    output = OutputSchema(name="x", json_schema={"$ref": "#/nowhere"})
    (end,) = [piece async for piece in model.stream(said("hi", output=output))]
    assert isinstance(end, Failure)
    assert (end.kind, end.retryable) == ("invalid_request", False)


async def test_two_models_share_one_engine_and_loading_is_told(model_file: pathlib.Path):
    told: list[LoadProgress] = []
    info = ModelInfo(name="small", provider="embedded", model="small", window_tokens=512)
    first = EmbeddedModel(model_file, info=info, on_load=told.append)
    second = EmbeddedModel(model_file, info=info, on_load=told.append)

    async def end_of(model: EmbeddedModel) -> object:
        return [piece async for piece in model.stream(said("Hi.", 1))][-1]

    assert [type(end) for end in await asyncio.gather(end_of(first), end_of(second))] == [Reply, Reply]
    assert [progress.stage for progress in told] == ["loading", "ready"]
    await first.close()
    assert isinstance(await end_of(second), Reply)
    with pytest.raises(UsageError, match="closed"):
        await end_of(first)
    await second.close()
    async with asyncio.timeout(PATIENCE_S):  # the engine's thread may still be on its way out of the last reply
        while (str(model_file), 512) in Engine._loaded:
            gc.collect()
            await asyncio.sleep(0.01)


async def test_named_embedded_it_is_an_agents_model(model_file: pathlib.Path):
    model = open_model("embedded", environ={"WINDLASS_CACHE": str(model_file.parent.parent)})
    assert isinstance(model, ConstrainedModel)
    assert (model.info.name, model.info.tools, model.info.why) == ("embedded/smollm2-135m", True, "named explicitly")
    assert isinstance([piece async for piece in model.stream(said("Hi.", 1))][-1], Reply)


# --- without the model -------------------------------------------------------------------------------------------


def test_missing_model_names_the_one_command(tmp_path: pathlib.Path):
    with pytest.raises(UsageError, match=r"run 'windlass models pull embedded'"):
        open_model("embedded", environ={"WINDLASS_CACHE": str(tmp_path)})


def test_missing_engine_names_the_extra(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "model.gguf"
    path.touch()
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert missing(path) == "the embedded model needs its engine: pip install 'windlass[embedded]'"


@pytest.mark.parametrize(
    ("environ", "folder"),
    [
        ({"WINDLASS_CACHE": "/c", "XDG_CACHE_HOME": "/x", "HOME": "/h"}, "/c/models"),
        ({"XDG_CACHE_HOME": "/x", "HOME": "/h"}, "/x/windlass/models"),
        ({"HOME": "/h"}, "/h/.cache/windlass/models"),
    ],
)
def test_cache_folder(environ: dict[str, str], folder: str):
    assert cache_dir(environ) == pathlib.Path(folder)


# --- what the engine is told and what it answers -----------------------------------------------------------------


def test_body_carries_the_conversation_and_the_settings():
    request = Request(
        model="embedded",
        instructions="Be brief.",
        knowledge=("Sky is blue.",),
        items=[
            UserItem(content=(Text(text="a"), Image(media_type="image/png", data="AA=="))),
            AssistantItem(content=(Text(text="b"),)),
            UserItem(content=()),
        ],
        task_state="step 2",
        settings=ModelSettings(max_output_tokens=9_999, temperature=0.5, top_p=0.9, seed=7, stop=("END",)),
    )
    body = chat_body(request, EMBEDDED_INFO)
    assert body["messages"] == [
        {"role": "system", "content": "Be brief.\n\nSky is blue."},
        {"role": "user", "content": "a\n(image cannot be shown to this model)"},
        {"role": "assistant", "content": "b"},
        {"role": "user", "content": "..."},
        {"role": "user", "content": "step 2"},
    ]
    wanted = {"max_tokens": 1_024, "temperature": 0.5, "top_p": 0.9, "seed": 7, "stop": ["END"]}
    assert {name: body[name] for name in wanted} == wanted


class Failing:
    """An engine's server that answers with the given chunks, or raises."""

    def __init__(self, *chunks: dict[str, object], error: Exception | None = None) -> None:
        self.chunks = chunks
        self.error = error

    def handle_chat_completions(self, body: object, callback) -> None:
        for chunk in self.chunks:
            callback(chunk)
        if self.error is not None:
            raise self.error


@pytest.mark.parametrize(
    ("server", "kind", "retryable"),
    [
        (Failing(), "truncated_reply", True),
        (Failing({"choices": [{"delta": {}, "finish_reason": "stop"}]}), "empty_reply", True),
        (Failing({"error": {"code": 400, "message": "bad"}}), "invalid_request", False),
        (Failing({"error": {"code": 500, "message": "bad"}}), "server_error", False),
        (Failing(error=RuntimeError("crashed")), "server_error", False),
    ],
)
async def test_engine_that_fails_gives_a_typed_failure(
    server: Failing, kind: str, retryable: bool, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(embedded, "load", lambda path, window: server)
    path = tmp_path / "model.gguf"
    path.touch()

    async def pieces() -> AsyncIterator[object]:
        async for piece in EmbeddedModel(path).stream(said("hi")):
            yield piece

    (end,) = [piece async for piece in pieces()]
    assert isinstance(end, Failure)
    assert (end.kind, end.retryable, end.provider) == (kind, retryable, "embedded")


def piece(text: str | None, count: int) -> dict[str, object]:
    """A chunk as the engine writes it."""
    delta = {} if text is None else {"content": text}
    timings = {"cache_n": 30, "prompt_n": 10, "predicted_n": count}
    return {"choices": [{"delta": delta, "finish_reason": None}], "timings": timings}


class Endless:
    """An engine's server that writes the same sentence until it is told to stop, and counts the pieces it wrote."""

    def __init__(self, opening: str) -> None:
        self.opening = opening
        self.count = 0

    def handle_chat_completions(self, body: object, callback: Callable[[dict[str, object]], bool]) -> None:
        text = self.opening
        while not callback(piece(text, self.count)) and self.count < 1_000:
            self.count, text = self.count + 1, "In Oslo it is 02:42. "


async def test_answer_that_repeats_itself_without_end_is_ended(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch):
    server = Endless('{"tool": "answer", "arguments": {"text": "')
    monkeypatch.setattr(embedded, "load", lambda path, window: server)
    (tmp_path / "model.gguf").touch()
    agent = ConstrainedModel(EmbeddedModel(tmp_path / "model.gguf"), tiny=True)
    pieces = [found async for found in agent.stream(said("What time is it?", tools=(ADD,)))]
    reply = pieces[-1]
    assert isinstance(reply, Reply)
    assert "".join(found.text for found in pieces if isinstance(found, TextPart)) == "In Oslo it is 02:42."
    assert reply.blocks == (Text(text="In Oslo it is 02:42."),)
    assert (reply.finish, reply.warnings) == ("stop", (ENDLESS,))
    assert server.count < 6
    assert reply.usage == Usage(input_tokens=40, output_tokens=server.count, cache_read_tokens=30)
