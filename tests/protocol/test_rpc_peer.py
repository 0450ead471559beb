"""A conversation in JSON-RPC, one message in each line: what is asked, what is only said, and what is neither."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from windlass.protocol.json_rpc.line_frames import LineFrames
from windlass.protocol.json_rpc.rpc_peer import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    NO_METHOD,
    PARSE_ERROR,
    RpcError,
    RpcPeer,
)

MESSAGES = 20_000


class Talk:
    """One end of a connection on which a peer talks: raw lines in, messages out."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self.said: list[tuple[str, dict[str, Any]]] = []
        self.peer: RpcPeer | None = None

    def write(self, *lines: bytes) -> None:
        self._writer.write(b"".join(line + b"\n" for line in lines))

    def ask(self, number: Any, method: str, **params: Any) -> None:
        self.write(json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode())

    async def read(self) -> dict[str, Any]:
        line = await self._reader.readline()
        read: dict[str, Any] = json.loads(line)
        return read


@asynccontextmanager
async def talk() -> AsyncIterator[Talk]:
    made: asyncio.Queue[RpcPeer] = asyncio.Queue()
    done = asyncio.Event()
    said: list[tuple[str, dict[str, Any]]] = []

    async def handle(method: str, params: dict[str, Any]) -> Any:
        if method == "echo":
            return params
        if method == "need":
            return params["this"]
        raise RpcError(NO_METHOD, f"no {method}")

    async def come(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = RpcPeer(reader, writer, handle, LineFrames(), hear=lambda *one: said.append(one))
        made.put_nowait(peer)
        await peer.run()
        done.set()

    server = await asyncio.start_server(come, "127.0.0.1", 0)
    async with server:
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname()[:2], limit=2**26)
        here = Talk(reader, writer)
        here.said, here.peer = said, await made.get()
        try:
            yield here
        finally:
            writer.close()
            await done.wait()


async def test_what_is_no_message_is_answered_with_an_error_and_the_next_one_is_read():
    async with talk() as client:
        bad = {
            b"{not json": (PARSE_ERROR, None),
            b"[1, 2]": (INVALID_REQUEST, None),
            b'{"jsonrpc": "2.0", "id": 7}': (INVALID_REQUEST, 7),
            b'{"jsonrpc": "2.0", "id": 8, "method": "echo", "params": [1]}': (INVALID_PARAMS, 8),
            b'{"jsonrpc": "2.0", "id": {}, "method": "echo"}': (INVALID_REQUEST, None),
            b'{"jsonrpc": "2.0", "id": 9, "method": "other"}': (NO_METHOD, 9),
            b'{"jsonrpc": "2.0", "id": 10, "method": "need"}': (INVALID_PARAMS, 10),
            b"\xff\xfe": (PARSE_ERROR, None),
        }
        for line, (code, number) in bad.items():
            client.write(line)
            answer = await client.read()
            assert (answer["error"]["code"], answer["id"]) == (code, number), line
        client.write(b"")
        client.ask("last", "echo", word="still here")
        assert (await client.read())["result"] == {"word": "still here"}


async def test_what_is_only_said_is_heard_in_order_and_answered_by_nobody():
    async with talk() as client:
        for at in range(5):
            client.write(json.dumps({"jsonrpc": "2.0", "method": "said", "params": {"at": at}}).encode())
        client.ask(1, "echo")
        assert (await client.read())["id"] == 1
        assert client.said == [("said", {"at": at}) for at in range(5)]


async def test_who_asks_and_gives_up_tells_the_other_side_so():
    async with talk() as client:
        assert client.peer is not None
        asking = asyncio.create_task(client.peer.ask("permit", {"call": "c1"}))
        asked = await client.read()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert await client.read() == {
            "jsonrpc": "2.0",
            "method": "$/cancelRequest",
            "params": {"id": asked["id"]},
        }


async def test_whoever_tells_much_waits_for_the_reader_and_loses_nothing():
    async with talk() as client:
        peer = client.peer
        assert peer is not None

        async def tell() -> None:
            for at in range(MESSAGES):
                await peer.room()
                peer.notify("told", {"at": at})

        telling = asyncio.create_task(tell())
        for at in range(MESSAGES):
            assert (await client.read())["params"] == {"at": at}
        await telling
        assert not peer.gone
