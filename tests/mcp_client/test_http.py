"""Servers over HTTP, streamable and with server-sent events: the official server package behind uvicorn, on loopback."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import pathlib
import socket
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import pytest

import windlass
from tests.mcp_client.conftest import PATIENCE_S, PATIENT_MS
from tests.mcp_client.loopback import listener, origin_of, running
from tests.mcp_client.test_connection import agreed, nothing, said
from windlass.events.tools.calls import ToolFinished
from windlass.events.tools.mcp import McpConnected
from windlass.mcp.connection import Connection, Lost, NotConnected
from windlass.mcp.reach import transports
from windlass.mcp.reach.bounded_http import Messages
from windlass.mcp.reach.server_process import TooLong
from windlass.mcp.server import McpServer
from windlass.testing.scripted import ScriptedModel, call
from windlass.tools.named_secrets import NamedSecrets

if TYPE_CHECKING:
    from tests.mcp_client.office import Office


def unheeded(why: str | None) -> None:
    """Nobody listens to the end of a connection."""


def new_office() -> Office:
    from tests.mcp_client.office import Office

    return Office()


@contextlib.asynccontextmanager
async def serving(office: Office, kind: str, port: int = 0) -> AsyncIterator[tuple[str, Any]]:
    """The address of a server that runs, and what stops it."""
    listening = listener(port)
    path = "/mcp" if kind == "http" else "/sse"
    async with running(office.app(kind), listening) as server:
        yield f"{origin_of(listening)}{path}", server


@pytest.mark.parametrize("kind", ["http", "sse"])
async def test_a_server_over_http_is_listed_and_called(kind: Any) -> None:
    office = new_office()
    async with serving(office, kind) as (url, _):
        server = McpServer(
            name="office", transport=kind, url=url, start_timeout_ms=PATIENT_MS, headers={"X-Token": "${token}"}
        )
        connection = await agreed(server, secrets=NamedSecrets({"token": "a-secret-for-the-office"}))
        assert connection.listing is not None
        assert set(connection.listing.by_name) == {"office__add", "office__counts", "office__hangs"}
        assert said(await connection.call("office__add", {"a": 2, "b": 3}, nothing)) == "5"
        heard: list[Any] = []

        async def progressed(done: float, total: float | None, message: str | None) -> None:
            heard.append((done, total, message))

        assert said(await connection.call("office__counts", {}, progressed)) == "counted"
        assert heard == [(1, 2, "half")]
        assert {headers.get("x-token") for headers in office.headers} == {"a-secret-for-the-office"}
        assert {headers.get("accept-encoding") for headers in office.headers} == {"identity"}
        await connection.close()


@pytest.mark.parametrize("kind", ["http", "sse"])
async def test_a_call_over_http_that_is_given_up_is_cancelled_at_the_server(kind: Any) -> None:
    office = new_office()
    async with serving(office, kind) as (url, _):
        connection = await agreed(McpServer(name="office", transport=kind, url=url, start_timeout_ms=PATIENT_MS))
        calling = asyncio.ensure_future(connection.call("office__hangs", {}, nothing))
        async with asyncio.timeout(PATIENCE_S):
            await office.begun.wait()
            calling.cancel()
            with pytest.raises(asyncio.CancelledError):
                await calling
            await office.cancelled.wait()
        await connection.close()


async def test_a_server_over_http_that_goes_away_is_lost_and_not_there_again() -> None:
    office = new_office()
    async with serving(office, "http") as (url, _):
        connection = await agreed(McpServer(name="office", transport="http", url=url, start_timeout_ms=PATIENT_MS))
        assert said(await connection.call("office__add", {"a": 1, "b": 1}, nothing)) == "2"
    with pytest.raises(Lost):
        await connection.call("office__add", {"a": 1, "b": 1}, nothing)
    with pytest.raises(NotConnected, match="ConnectError"):
        await connection.connect()
    await connection.close()


async def test_nobody_at_an_address_is_said_in_words() -> None:
    free = socket.socket()
    free.bind(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{free.getsockname()[1]}/mcp"
    for kind in ("http", "sse"):
        connection = Connection(McpServer(name="none", transport=kind, url=url, start_timeout_ms=PATIENT_MS))
        with pytest.raises(NotConnected, match="ConnectError: All connection attempts failed"):
            await connection.connect()
        await connection.close()
    free.close()


async def test_a_session_calls_a_server_over_http(tmp_path: pathlib.Path) -> None:
    async with serving(new_office(), "http") as (url, _):
        model = ScriptedModel([call("office__add", a=20, b=22), "done"])
        agent = windlass.Agent(
            "clerk", model, policy=windlass.ALLOW_ALL, mcp={"office": {"url": url, "startTimeout": PATIENT_MS}}
        )
        async with windlass.open(str(tmp_path / "work.db"), agents=[agent]) as runtime:
            session = await runtime.session(agent, "one")
            await session.prompt("add")
            await session.wait_idle()
            found = [record.event async for record in session.records()]
    (connected,) = [event for event in found if isinstance(event, McpConnected)]
    assert (connected.status, connected.transport, connected.tools) == ("connected", "http", 5)
    (finished,) = [event for event in found if isinstance(event, ToolFinished)]
    assert finished.ok
    assert "42" in str(finished.body)


async def test_an_answer_that_is_packed_all_the_same_is_not_read() -> None:
    packed = gzip.compress(b"{}")
    head = (
        f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\nContent-Length: {len(packed)}"
    )

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(f"{head}\r\nConnection: close\r\n\r\n".encode() + packed)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as listening:
        port = listening.sockets[0].getsockname()[1]
        async with transports._http_client({}, unheeded) as client:
            with pytest.raises(Exception, match=r"it packed its answer \(gzip\)"):
                await client.get(f"http://127.0.0.1:{port}/mcp")


@contextlib.asynccontextmanager
async def answering(kind: str, pieces: Any) -> AsyncIterator[str]:
    """The address of a server that answers each request with these pieces, for as long as somebody reads them."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nConnection: close\r\n\r\n".encode())
        with contextlib.suppress(ConnectionError):
            for piece in pieces():
                writer.write(piece)
                await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as listening:
        yield f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/mcp"


def endless() -> Any:
    while True:
        yield b"x" * 65_536


@pytest.mark.parametrize("kind", ["application/json", "text/event-stream"])
async def test_an_answer_without_an_end_is_not_read_to_its_end(kind: str) -> None:
    async with answering(kind, endless) as url, transports._http_client({}, unheeded) as client:
        with pytest.raises(Exception, match="it sent a message of more than 16777216 bytes"):
            async with asyncio.timeout(PATIENCE_S):
                await client.get(url)


async def test_a_stream_may_have_any_number_of_events_that_are_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("windlass.mcp.reach.bounded_http.LINE_BYTES_MAX", 100)
    events = [b"data: " + b"y" * 60 + b"\n", b"\n"] * 50
    async with answering("text/event-stream", lambda: events) as url, transports._http_client({}, unheeded) as client:
        assert len((await client.get(url)).content) == sum(map(len, events))


LONG = "a message that is too long"


@pytest.mark.parametrize(
    ("pieces", "whole"),
    [
        ([b"a" * 100], [b""]),
        ([b"a" * 101], [LONG]),
        ([b"a" * 60, b"\n\n" + b"b" * 60], [b"", b"a" * 60 + b"\n\n"]),
        ([b"a" * 60 + b"\n", b"\n" + b"b" * 99], [b"", b"a" * 60 + b"\n\n"]),
        ([b"a" * 60, b"\r\n\r\n", b"b" * 101], [b"", b"a" * 60 + b"\r\n\r\n", LONG]),
        ([b"a" * 90, b"b" * 20 + b"\n\n"], [b"", LONG]),
        ([b"a\r", b"\n\r", b"\nb\n", b"\n"], [b"", b"", b"a\r\n\r\n", b"b\n\n"]),
    ],
)
def test_events_are_measured_and_given_on_one_by_one(
    monkeypatch: pytest.MonkeyPatch, pieces: list[bytes], whole: list[Any]
) -> None:
    monkeypatch.setattr("windlass.mcp.reach.bounded_http.LINE_BYTES_MAX", 100)
    messages, found = Messages(events=True), list[Any]()
    for piece in pieces:
        try:
            found.append(messages.whole(piece))
        except TooLong:
            found.append(LONG)
    assert found == whole
