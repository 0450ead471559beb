"""Where no connection comes about, in every format, streamed and whole: a typed failure that may be tried again, told
apart from an answer that is late, and never a hang."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from tests.models.wire_support import ADD, ENDPOINT_OF, FORMATS, asked, numbers, offline_model
from tests.virtual_time import in_virtual_time
from windlass.events.values.blocks import Text
from windlass.events.values.failures import Failure
from windlass.events.values.items import UserItem
from windlass.models.base import Request
from windlass.models.catalogue.endpoints import ENDPOINTS, address_hint
from windlass.models.catalogue.names import open_model
from windlass.models.transport.timeouts import Timeouts
from windlass.testing.model_server import Format, ModelServer, closed_port

WATCHDOG_S = 50.0
QUEUED_MAX = 16
"""How many connections the fullest of queues may take, before a further one has to wait."""
PATIENT = Timeouts(connect=40, headers=40, first_output=40, idle=40, total=45)
SHORT_S = 0.2
PATHS: dict[Format, str] = {"anthropic": "", "openai": "/v1", "responses": "/v1", "gemini": ""}

each_way = pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
each_form = pytest.mark.parametrize("form", FORMATS)


async def failed(form: Format, root: str, *, stream: bool, timeouts: Timeouts = PATIENT) -> Failure:
    """What a request to an address ends in; it hands on nothing before."""
    endpoint = msgspec.structs.replace(ENDPOINTS[ENDPOINT_OF[form]], base_url=root + PATHS[form])
    model = offline_model(endpoint, credential=f"sk-connect-{next(numbers):08}", timeouts=timeouts)
    return await failure_of(model, stream=stream)


async def failure_of(model: Any, *, stream: bool = True) -> Failure:
    """What a request to a model ends in; it hands on nothing before."""
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
            queued.settimeout(SHORT_S)
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


async def test_a_refused_connection_names_the_variable_that_led_there():
    said = f"127.0.0.1:{closed_port()}"
    model = open_model("openai/gpt-5-mini", environ={"OPENAI_BASE_URL": f"http://{said}/v1", "OPENAI_API_KEY": "k"})
    end = await failure_of(model)
    assert end.kind == "connect_failed"
    assert end.message.endswith(f": OPENAI_BASE_URL says http://{said}/v1")
    local = open_model("ollama/qwen3", environ={"OLLAMA_HOST": said})
    assert (await failure_of(local)).message.endswith(f": OLLAMA_HOST says http://{said}/v1")


def test_a_local_server_that_nobody_named_is_asked_about():
    endpoint = msgspec.structs.replace(ENDPOINTS["ollama"], base_url="http://127.0.0.1:1/v1")
    assert address_hint(endpoint) == ": is its server running at http://127.0.0.1:1/v1? OLLAMA_HOST names another"
    assert address_hint(ENDPOINTS["openai"]) == ""


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
        soon = msgspec.structs.replace(PATIENT, connect=SHORT_S)
        end = await failed(form, f"http://127.0.0.1:{port}", stream=stream, timeouts=soon)
    assert (end.kind, end.retryable) == ("connect_timeout", True)


@each_way
@each_form
@in_virtual_time
async def test_a_connection_that_is_taken_but_not_answered_is_another_failure(form: Format, stream: bool) -> None:
    async with ModelServer() as server:
        server.inject("headers_late")
        endpoint = msgspec.structs.replace(ENDPOINTS[ENDPOINT_OF[form]], base_url=server.url(form))
        model = offline_model(endpoint, credential=f"sk-connect-{next(numbers):08}")
        _, end = await asked(model, Request(model="m", items=[UserItem(content=(Text(text="q"),))], stream=stream))
        await model.close()
    assert isinstance(end, Failure)
    assert (end.kind, end.retryable) == ("headers_timeout", True)
