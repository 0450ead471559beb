"""Where no connection comes about, in every format, streamed and whole: a typed failure that may be tried again, told
apart from an answer that is late, and never a hang."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator

import msgspec
import pytest

from windlass.events.blocks import Text
from windlass.events.failures import Failure
from windlass.events.items import UserItem
from windlass.models.base import Request
from windlass.models.endpoints import ENDPOINTS
from windlass.models.timeouts import Timeouts
from windlass.testing.model_server import Format, ModelServer, closed_port

from .wire_support import ADD, ENDPOINT_OF, FORMATS, asked, numbers, offline_model

WATCHDOG_S = 10.0
CONNECT_S = 0.2
QUEUED_MAX = 16
"""How many connections the fullest of queues may take, before a further one has to wait."""
SOON = Timeouts(connect=CONNECT_S, headers=5, first_output=5, idle=5, total=8)
PATHS: dict[Format, str] = {"anthropic": "", "openai": "/v1", "responses": "/v1", "gemini": ""}

each_way = pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
each_form = pytest.mark.parametrize("form", FORMATS)


async def failed(form: Format, root: str, *, stream: bool) -> Failure:
    """What a request to an address ends in; it hands on nothing before."""
    endpoint = msgspec.structs.replace(ENDPOINTS[ENDPOINT_OF[form]], base_url=root + PATHS[form])
    model = offline_model(endpoint, credential=f"sk-connect-{next(numbers):08}", timeouts=SOON)
    request = Request(model="m", items=[UserItem(content=(Text(text="q"),))], tools=(ADD,), stream=stream)
    try:
        async with asyncio.timeout(WATCHDOG_S):
            deltas, end = await asked(model, request)
    finally:
        await model.close()
    assert deltas == []
    assert isinstance(end, Failure)
    assert "sk-connect" not in msgspec.json.encode(end).decode()
    return end


@contextlib.contextmanager
def full_port() -> Iterator[int]:
    """A port whose queue of connections is full: a further one is neither taken nor refused."""
    with contextlib.ExitStack() as held:
        listening = held.enter_context(socket.socket())
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        for _ in range(QUEUED_MAX):
            queued = held.enter_context(socket.socket())
            queued.settimeout(CONNECT_S)
            try:
                queued.connect(listening.getsockname())
            except TimeoutError:
                break
        else:
            pytest.fail(f"the queue took {QUEUED_MAX} connections and more: it cannot be filled here")
        yield listening.getsockname()[1]


@each_way
@each_form
async def test_a_refused_connection(form: Format, stream: bool) -> None:
    end = await failed(form, f"http://127.0.0.1:{closed_port()}", stream=stream)
    assert (end.kind, end.retryable) == ("connect_failed", True)


@each_way
@each_form
async def test_a_name_that_nobody_has(form: Format, stream: bool) -> None:
    end = await failed(form, "http://models.invalid", stream=stream)
    assert (end.kind, end.retryable) == ("connect_failed", True)


@each_way
@each_form
async def test_a_server_that_speaks_no_tls(form: Format, stream: bool) -> None:
    async with ModelServer() as server:
        end = await failed(form, f"https://127.0.0.1:{server.port}", stream=stream)
        assert not server.requests
    assert (end.kind, end.retryable) == ("connect_failed", True)


@each_way
@each_form
async def test_a_connection_that_is_never_taken(form: Format, stream: bool) -> None:
    with full_port() as port:
        end = await failed(form, f"http://127.0.0.1:{port}", stream=stream)
    assert (end.kind, end.retryable) == ("connect_timeout", True)


@each_way
@each_form
async def test_a_connection_that_is_taken_but_not_answered_is_another_failure(form: Format, stream: bool) -> None:
    soon = msgspec.structs.replace(SOON, headers=0.2, first_output=0.1)
    async with asyncio.timeout(WATCHDOG_S), ModelServer() as server:
        server.inject("headers_late")
        endpoint = msgspec.structs.replace(ENDPOINTS[ENDPOINT_OF[form]], base_url=server.url(form))
        model = offline_model(endpoint, credential=f"sk-connect-{next(numbers):08}", timeouts=soon)
        _, end = await asked(model, Request(model="m", items=[UserItem(content=(Text(text="q"),))], stream=stream))
        await model.close()
    assert isinstance(end, Failure)
    assert (end.kind, end.retryable) == ("headers_timeout", True)
