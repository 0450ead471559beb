"""Connections, timeouts and cancellation, against small servers of our own."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import msgspec
import pytest
from aiohttp import web

from tests.models.wire_support import asked, numbers, offline_model
from tests.virtual_time import in_virtual_time
from windlass.events.errors import UsageError
from windlass.events.values.blocks import BlobRef, Image, Text
from windlass.events.values.failures import Failure
from windlass.events.values.items import UserItem
from windlass.models.base import Reply, Request
from windlass.models.catalogue.endpoints import ENDPOINTS
from windlass.models.transport import http
from windlass.models.transport.http_model import WireModel
from windlass.models.transport.timeouts import Timeouts

ASK = Request(model="m", items=[UserItem(content=(Text(text="q"),))])
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def event(value: Any) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def word(text: str) -> bytes:
    return event({"id": "c", "model": "m", "choices": [{"index": 0, "delta": {"content": text}}]})


END = (
    event({"id": "c", "model": "m", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    + b"data: [DONE]\n\n"
)


async def begun(request: web.Request, **headers: str) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream", **headers})
    await response.prepare(request)
    return response


@contextlib.asynccontextmanager
async def served(handler: Handler, *, timeouts: Timeouts | None = None) -> AsyncIterator[WireModel]:
    app = web.Application(client_max_size=1 << 28)
    app.router.add_post("/v1/chat/completions", handler)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    port = runner.addresses[0][1]
    endpoint = msgspec.structs.replace(ENDPOINTS["openai"], base_url=f"http://127.0.0.1:{port}/v1")
    model = offline_model(endpoint, credential=f"k-{next(numbers)}", timeouts=timeouts)
    try:
        yield model
    finally:
        await model.close()
        await runner.cleanup()


async def test_connections_are_used_again() -> None:
    peers: list[Any] = []

    async def handler(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        peers.append(request.transport.get_extra_info("peername"))
        response = await begun(request)
        await response.write(word("hi") + END)
        await asyncio.sleep(0)
        return response

    async with served(handler) as model:
        for _ in range(5):
            _, end = await asked(model, ASK)
            assert isinstance(end, Reply)
    assert len(set(peers)) == 1


@in_virtual_time
async def test_a_server_that_holds_the_connection_after_the_end_does_not_hold_the_reply() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        response = await begun(request)
        await response.write(word("hi") + END)
        await asyncio.sleep(30)
        return response

    async with served(handler) as model:
        async with asyncio.timeout(5):
            _, end = await asked(model, ASK)
    assert isinstance(end, Reply)


@in_virtual_time
async def test_leaving_the_stream_closes_the_connection() -> None:
    left = asyncio.Event()

    async def handler(request: web.Request) -> web.StreamResponse:
        response = await begun(request)
        try:
            for _ in range(10_000):
                await response.write(word("hi "))
                await asyncio.sleep(0.005)
        finally:
            left.set()
        return response

    async with served(handler) as model:
        answers = model.stream(ASK)
        async for _ in answers:
            break
        await answers.aclose()  # type: ignore[attr-defined]
        async with asyncio.timeout(5):
            await left.wait()


@in_virtual_time
async def test_cancelling_the_task_lands_at_once_wherever_it_waits() -> None:
    reached = asyncio.Event()

    async def handler(request: web.Request) -> web.StreamResponse:
        reached.set()
        if request.headers.get("x-late"):
            await asyncio.sleep(60)
        response = await begun(request)
        await response.write(word("hi"))
        await asyncio.sleep(60)
        return response

    async with served(handler) as model:
        for late in ("1", ""):
            reached.clear()
            model.endpoint = msgspec.structs.replace(model.endpoint, headers={"x-late": late} if late else {})
            task = asyncio.create_task(asked(model, ASK))
            await reached.wait()
            await asyncio.sleep(0.02)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                async with asyncio.timeout(5):
                    await task


@in_virtual_time
async def test_a_slow_reader_is_not_the_models_silence() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        response = await begun(request)
        for _ in range(3):
            await response.write(word("hi "))
            await asyncio.sleep(0.02)
        await response.write(END)
        return response

    async with served(handler, timeouts=Timeouts(first_output=0.2, idle=0.2)) as model:
        ends = []
        async for answer in model.stream(ASK):
            await asyncio.sleep(0.35)
            ends.append(answer)
    assert isinstance(ends[-1], Reply)


@in_virtual_time
async def test_the_total_bounds_even_a_stream_that_never_pauses() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        response = await begun(request)
        while True:
            await response.write(word("hi "))
            await asyncio.sleep(0.01)

    async with served(handler, timeouts=Timeouts(total=0.5, idle=0.3)) as model:
        deltas, end = await asked(model, ASK)
    assert isinstance(end, Failure)
    assert end.kind == "total_timeout"
    assert len(deltas) > 5


@in_virtual_time
async def test_steady_output_never_runs_into_the_idle_timeout() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        response = await begun(request)
        for _ in range(20):
            await response.write(word("hi "))
            await asyncio.sleep(0.05)
        await response.write(END)
        return response

    async with served(handler, timeouts=Timeouts(first_output=0.4, idle=0.4)) as model:
        _, end = await asked(model, ASK)
    assert isinstance(end, Reply)


@in_virtual_time
async def test_a_timeout_leaves_the_waiting_task_uncancelled() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(60)
        return web.Response()

    async with served(handler, timeouts=Timeouts(connect=0.1, headers=0.1)) as model:
        _, end = await asked(model, ASK)
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0
    assert isinstance(end, Failure)
    assert end.kind == "headers_timeout"


async def test_a_packed_answer_is_unpacked() -> None:
    packed = gzip.compress(word("grüße") + END)

    async def handler(request: web.Request) -> web.StreamResponse:
        response = await begun(request, **{"Content-Encoding": "gzip"})
        for at in range(0, len(packed), 7):
            await response.write(packed[at : at + 7])
        return response

    async with served(handler) as model:
        _, end = await asked(model, ASK)
    assert isinstance(end, Reply)
    assert end.blocks == (Text(text="grüße"),)


@pytest.mark.parametrize(("encoding", "body"), [("br", b"x"), ("gzip", b"this is not gzip at all")])
async def test_an_unknown_or_damaged_packing_is_a_malformed_reply(encoding: str, body: bytes) -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        response = await begun(request, **{"Content-Encoding": encoding})
        await response.write(body)
        return response

    async with served(handler) as model:
        _, end = await asked(model, ASK)
    assert isinstance(end, Failure)
    assert end.kind == "malformed_reply"


async def test_an_error_that_comes_as_json_with_a_good_status_is_that_error() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        return web.json_response({"error": {"code": 429, "message": "slow down"}})

    async with served(handler) as model:
        _, end = await asked(model, ASK)
    assert isinstance(end, Failure)
    assert end.kind == "rate_limited"


async def test_an_odd_status_is_no_answer() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        return web.json_response({}, status=202)

    async with served(handler) as model:
        _, end = await asked(model, ASK)
    assert isinstance(end, Failure)
    assert end.kind == "malformed_reply"


async def test_a_large_history_is_sent_in_pieces_and_whole() -> None:
    sizes: list[int] = []

    async def handler(request: web.Request) -> web.StreamResponse:
        raw = await request.read()
        sizes.append(len(json.loads(raw)["messages"][0]["content"]))
        assert int(request.headers["Content-Length"]) == len(raw)
        response = await begun(request)
        await response.write(word("ok") + END)
        return response

    text = "x" * 3_000_000
    async with served(handler) as model:
        _, end = await asked(model, Request(model="m", items=[UserItem(content=(Text(text=text),))]))
    assert isinstance(end, Reply)
    assert sizes == [3_000_000]


async def test_the_last_model_to_close_closes_the_shared_session() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        response = await begun(request)
        await response.write(word("hi") + END)
        return response

    async with served(handler) as first, served(handler) as second:
        await asked(first, ASK)
        await asked(second, ASK)
        shared = http.transport()
        session = shared.session()
        await first.close()
        await first.close()
        closed = [session.closed]
        await asked(first, ASK)
        await first.close()
        await second.close()
        closed.append(session.closed)
        assert closed == [False, True]
        _, end = await asked(second, ASK)
        assert isinstance(end, Reply)


async def test_many_streams_at_once_do_not_mix() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        said = (await request.json())["messages"][-1]["content"]
        response = await begun(request)
        for _ in range(5):
            await response.write(word(said))
            await asyncio.sleep(0)
        await response.write(END)
        return response

    async def one(model: WireModel, number: int) -> None:
        ask = Request(model="m", items=[UserItem(content=(Text(text=f"<{number}>"),))], session=f"s{number}")
        _, end = await asked(model, ask)
        assert isinstance(end, Reply)
        assert end.blocks == (Text(text=f"<{number}>" * 5),)

    async with served(handler) as model:
        await asyncio.gather(*(one(model, number) for number in range(200)))


async def test_blobs_are_fetched_once_and_a_gone_one_leaves_a_note() -> None:
    bodies: list[Any] = []

    async def handler(request: web.Request) -> web.StreamResponse:
        bodies.append(await request.json())
        response = await begun(request)
        await response.write(word("hi") + END)
        return response

    fetched: list[str] = []

    async def read(ref: BlobRef) -> bytes | None:
        fetched.append(ref.digest)
        return b"png" if ref.digest == "sha256:here" else None

    def picture(digest: str) -> Image:
        return Image(media_type="image/png", blob=BlobRef(digest=digest, size=3))

    items: list[Any] = [UserItem(content=(picture("sha256:here"), picture("sha256:gone")))]
    async with served(handler) as model:
        for _ in range(3):
            await asked(model, Request(model="m", items=items, session="s", blobs=read))
        with pytest.raises(UsageError, match="blobs"):
            await asked(model, Request(model="m", items=items))
    assert fetched == ["sha256:here", "sha256:gone"]
    parts = bodies[0]["messages"][0]["content"]
    assert parts[0]["image_url"]["url"] == "data:image/png;base64,cG5n"
    assert parts[1] == {"type": "text", "text": "(image is no longer available)"}
    assert bodies[2] == bodies[0]


def test_a_timeout_of_nothing_is_refused() -> None:
    with pytest.raises(UsageError, match="idle"):
        Timeouts(idle=0)


async def test_a_character_that_was_cut_in_two_arrives_whole() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        response = await begun(request)
        for half in (rb"so \ud83d", rb"\ude00 be it"):
            await response.write(word("HALF").replace(b"HALF", half))
        await response.write(END)
        return response

    async with served(handler) as model:
        _, end = await asked(model, ASK)
    assert isinstance(end, Reply)
    assert "".join(block.text for block in end.blocks if isinstance(block, Text)) == "so \U0001f600 be it"


@pytest.mark.parametrize("depth", [80, 5_000, 100_000])
async def test_arguments_without_a_bottom_are_the_models_mistake(depth: int) -> None:
    raw = '{"a":' + "[" * depth + "]" * depth + "}"
    call = {"index": 0, "id": "c1", "type": "function", "function": {"name": "add", "arguments": raw}}

    async def handler(request: web.Request) -> web.StreamResponse:
        response = await begun(request)
        await response.write(event({"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]}))
        await response.write(event({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}))
        await response.write(b"data: [DONE]\n\n")
        return response

    async with served(handler) as model:
        _, end = await asked(model, ASK)
    assert isinstance(end, Reply)
    assert [(found.tool, found.args) for found in end.calls] == [("add", None)]
    assert "nested deeper" in (end.calls[0].error or "")


async def test_a_body_without_a_bottom_is_a_malformed_reply() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        response = await begun(request)
        deep = b"[" * 100_000 + b"]" * 100_000
        await response.write(b'data: {"choices": ' + deep + b"}\n\n" + END)
        return response

    async with served(handler) as model:
        _, end = await asked(model, ASK)
    assert isinstance(end, Failure)
    assert end.kind == "malformed_reply"
