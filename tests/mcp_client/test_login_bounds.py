"""Who gives logins, and whoever comes back from there, may neither hold somebody for ever nor fill the memory."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator

import pytest

from tests.virtual_time import in_virtual_time
from windlass.mcp.login.addresses import LoginError
from windlass.mcp.login.json_requests import BYTES_MAX, TIMEOUT_S, request
from windlass.mcp.login.redirect_listener import AT_ONCE_MAX, HEAD_S, listening

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n"
Pieces = Callable[[], Iterator[bytes]]


def drips() -> Iterator[bytes]:
    yield HEAD + b"\r\n"
    while True:
        yield b" "


def never_begins() -> Iterator[bytes]:
    yield b""
    while True:
        yield b"HTTP/1.1 100 Continue\r\n\r\n"


def names_without_end() -> Iterator[bytes]:
    yield HEAD
    while True:
        yield b"X-More: y\r\n" * 1_000


@contextlib.asynccontextmanager
async def answering(pieces: Pieces, every_s: float) -> AsyncIterator[str]:
    """The address of a server that answers with these pieces, one after a while each."""
    tasks = set[asyncio.Task[None]]()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        with contextlib.suppress(ConnectionError, asyncio.CancelledError, asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
            for piece in pieces():
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(every_s)
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as listener:
        yield f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}/token"
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@pytest.mark.parametrize("pieces", [drips, never_begins])
@in_virtual_time
async def test_an_answer_that_drips_is_waited_for_within_bounds(pieces: Pieces) -> None:
    clock = asyncio.get_running_loop().time
    begun = clock()
    async with answering(pieces, 1.0) as url:
        with pytest.raises(LoginError, match=f"did not answer within {TIMEOUT_S:g} s"):
            await request("GET", url)
    assert clock() - begun <= TIMEOUT_S + 1


async def test_an_answer_whose_headers_have_no_end_is_refused() -> None:
    async with answering(names_without_end, 0) as url:
        with pytest.raises(LoginError, match="cannot be asked: RemoteProtocolError"):
            await request("GET", url)


async def test_an_answer_without_an_end_is_refused() -> None:
    def endless() -> Iterator[bytes]:
        yield HEAD + b"\r\n"
        while True:
            yield b"x" * 65_536

    async with answering(endless, 0) as url:
        with pytest.raises(LoginError, match=f"answered with more than {BYTES_MAX} bytes"):
            await request("GET", url)


@in_virtual_time
async def test_browsers_that_say_nothing_are_let_go_and_others_are_heard() -> None:
    async with listening() as page:
        port = int(page.redirect.split(":")[2].split("/")[0])
        silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(AT_ONCE_MAX)]
        await asyncio.sleep(HEAD_S + 1)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\n\r\n")
        assert (await reader.read()).startswith(b"HTTP/1.1 404")
        for _, each in [*silent, (reader, writer)]:
            each.close()
            await each.wait_closed()
