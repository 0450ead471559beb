"""Clients that send or take too little, over sockets: none of them holds a connection for long, nor others up."""

from __future__ import annotations

import asyncio
import contextlib
import io
import socket
from collections.abc import AsyncIterator

import pytest

from windlass.server.access.limits import Limits

from .support import WAIT_S, Running, clerk, serving

BLOB_BYTES = 12 * 1024 * 1024
STALL_S = 1.0
SLOW_BYTES = 512 * 1024


class Raw:
    """A client that writes and reads bytes by itself, and takes little from the network before it does."""

    def __init__(self, running: Running, token: str | None = None) -> None:
        host, port = running.server.url.removeprefix("http://").split(":")
        self._place = (host, int(port))
        self.heads = f"Host: {host}\r\n" + (f"Authorization: Bearer {token}\r\n" if token else "")
        self.socket = socket.socket()

    async def connect(self) -> None:
        self.socket.setblocking(False)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        await asyncio.get_running_loop().sock_connect(self.socket, self._place)

    async def send(self, text: str) -> None:
        await asyncio.get_running_loop().sock_sendall(self.socket, text.encode())

    async def ask(self, path: str, *more: str) -> None:
        lines = "".join(f"{line}\r\n" for line in more)
        await self.send(f"GET {path} HTTP/1.1\r\n{self.heads}{lines}\r\n")

    async def take(self, most: int = 65536) -> bytes:
        async with asyncio.timeout(WAIT_S):
            return await asyncio.get_running_loop().sock_recv(self.socket, most)

    async def rest(self) -> bytes:
        """All that comes up to the end of the connection."""
        found = b""
        with contextlib.suppress(ConnectionError):
            while some := await self.take():
                found += some
        return found


@contextlib.asynccontextmanager
async def raw(running: Running, token: str | None = None) -> AsyncIterator[Raw]:
    client = Raw(running, token)
    try:
        await client.connect()
        yield client
    finally:
        client.socket.close()


async def gone(running: Running, left: int = 0) -> None:
    """Waits until no more than so many connections are open."""
    async with asyncio.timeout(WAIT_S):
        while running.server.connections > left:
            await asyncio.sleep(0.02)


async def blob(running: Running, size: int = BLOB_BYTES) -> str:
    """The path of a blob that is larger than what the network keeps for a client."""
    kept = await running.client().ask("POST", "/v1/blobs", data=io.BytesIO(b"x" * size))
    return f"/v1/blobs/{kept.json['digest']}"


async def test_whoever_asks_for_much_and_reads_none_of_it_is_let_go(tmp_path):
    async with serving(tmp_path, [clerk()], limits=Limits(stall_s=STALL_S)) as running:
        path, before = await blob(running), running.server.connections
        async with raw(running, running.client().token) as mute:
            await mute.ask(path)
            assert await mute.take(9) == b"HTTP/1.1 "
            await gone(running, before)
            assert len(await mute.rest()) < BLOB_BYTES
        assert (await running.client().ask("GET", "/v1/health")).status == 200


async def test_whoever_asks_again_and_again_and_reads_nothing_is_let_go(tmp_path):
    async with serving(tmp_path, [clerk()], limits=Limits(stall_s=STALL_S)) as running:
        before = running.server.connections
        async with raw(running, running.client().token) as mute:
            asking = asyncio.ensure_future(mute.send(f"GET /v1/schema HTTP/1.1\r\n{mute.heads}\r\n" * 2_000))
            assert await mute.take(9) == b"HTTP/1.1 "
            await gone(running, before)
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)


async def test_whoever_reads_slowly_gets_all_of_it_however_long_it_takes(tmp_path):
    async with serving(tmp_path, [clerk()], limits=Limits(stall_s=60)) as running:
        path = await blob(running)
        async with raw(running, running.client().token) as slow:
            await slow.ask(path, "Connection: close")
            found = 0
            while some := await slow.take(SLOW_BYTES):
                found += len(some)
                await asyncio.sleep(0)
            assert found > BLOB_BYTES


async def test_what_is_left_of_a_last_answer_that_nobody_takes_is_not_kept_for_ever(tmp_path):
    async with serving(tmp_path, [clerk()], limits=Limits(stall_s=STALL_S)) as running:
        path = await blob(running)
        before = running.server.connections
        async with raw(running, running.client().token) as mute:
            await mute.ask(path, "Connection: close")
            assert await mute.take(9) == b"HTTP/1.1 "
            await gone(running, before)


@pytest.mark.parametrize("stall", ["head", "body"])
async def test_many_that_send_byte_by_byte_are_cut_off_and_hold_nobody_up(tmp_path, stall: str):
    limits = Limits(head_s=2.0, body_s=2.0, connections=50)
    async with serving(tmp_path, [clerk()], limits=limits) as running, contextlib.AsyncExitStack() as stack:
        admin, before = running.client(), running.server.connections
        slow = [await stack.enter_async_context(raw(running, admin.token)) for _ in range(30)]
        begun = "GET /v1/health HTTP/1.1\r\nX-Slow: "
        if stall == "body":
            begun = f"POST /v1/blobs HTTP/1.1\r\n{slow[0].heads}Content-Length: 1000\r\n\r\n"

        async def drip(one: Raw) -> bytes:
            with contextlib.suppress(ConnectionError):
                await one.send(begun)
                for _ in range(1_000):
                    await one.send("x")
                    await asyncio.sleep(0.05)
            return b""

        dripping = [asyncio.ensure_future(drip(one)) for one in slow]
        assert (await admin.ask("GET", "/v1/health")).status == 200
        said = await asyncio.gather(*(one.rest() for one in slow))
        for task in dripping:
            task.cancel()
        await asyncio.gather(*dripping, return_exceptions=True)
        wanted = b"" if stall == "head" else b"HTTP/1.1 408 "
        assert {one[:13] for one in said} <= {wanted, b""}
        await gone(running, before + 1)


async def test_a_client_that_waits_for_leave_to_send_is_refused_at_once(tmp_path):
    async with serving(tmp_path, [clerk()], limits=Limits(body_s=3600)) as running:
        token = running.client().token
        for heads, status in (("", b"401"), (f"Authorization: Bearer {token}\r\n", b"413")):
            async with raw(running) as one:
                about = f"Content-Type: application/json\r\nContent-Length: {10**9}\r\nExpect: 100-continue\r\n"
                await one.send(f"POST /v1/sessions HTTP/1.1\r\n{one.heads}{heads}{about}\r\n")
                said = await one.rest()
                assert (said[:13], said.count(b"HTTP/1.1 ")) == (b"HTTP/1.1 " + status + b" ", 1)
                assert b"connection: close" in said
        async with raw(running, token) as one:
            about = "Content-Type: application/json\r\nContent-Length: 2\r\nExpect: 100-continue\r\n"
            await one.send(f"POST /v1/sessions HTTP/1.1\r\n{one.heads}{about}\r\n")
            assert (await one.take()).startswith(b"HTTP/1.1 100 ")
            await one.send("{}")
            assert b"HTTP/1.1 422 " in await one.take()


async def test_a_body_that_nobody_wanted_is_not_waited_for_once_its_request_is_answered(tmp_path):
    async with serving(tmp_path, [clerk()], limits=Limits(head_s=2.0)) as running:
        async with raw(running, running.client().token) as slow:
            await slow.ask("/v1/health", "Content-Length: 1000000")

            async def drip() -> None:
                with contextlib.suppress(ConnectionError):
                    while True:
                        await slow.send("x")
                        await asyncio.sleep(0.05)

            dripping = asyncio.ensure_future(drip())
            said = await slow.rest()
            dripping.cancel()
            await asyncio.gather(dripping, return_exceptions=True)
            assert (said[:13], said.count(b"HTTP/1.1 ")) == (b"HTTP/1.1 200 ", 1)
