"""Clients over TCP that have not shown the token: told nothing, and heard of little."""

from __future__ import annotations

import asyncio
from typing import Any

from windlass.protocol.json_rpc.length_frames import framed, read_message
from windlass.protocol.json_rpc.rpc_peer import STRANGER_BYTES_MAX

from .support import Launcher

TOKEN = "a-token-of-the-test"


class Raw:
    """A client that speaks by hand."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def ask(self, method: str, **params: Any) -> dict[str, Any]:
        self.writer.write(framed({"jsonrpc": "2.0", "id": method, "method": method, "params": params}))
        while (message := await self.next()) is not None:
            if message.get("id") == method:
                return message
        raise AssertionError(f"no answer to {method}")

    async def next(self) -> dict[str, Any] | None:
        return await asyncio.wait_for(read_message(self.reader), 60)


async def raw(port: int) -> Raw:
    return Raw(*await asyncio.open_connection("127.0.0.1", port))


async def test_a_stranger_hears_of_no_session(tmp_path):
    with Launcher(tmp_path).listening(TOKEN) as port:
        stranger, client = await raw(port), await raw(port)
        assert "error" in await stranger.ask("ping")
        assert "error" not in await client.ask("connect", token=TOKEN)
        assert "error" not in await client.ask("session.create", sessionId="payroll")
        stranger.writer.write(framed({"jsonrpc": "2.0", "id": "again", "method": "session.list", "params": {}}))
        first = await stranger.next()
        assert first is not None
        assert first.get("id") == "again", "it was told something else before"
        assert "token" in first["error"]["message"]
        for one in (stranger, client):
            one.writer.close()


async def test_a_stranger_is_not_heard_of_much(tmp_path):
    with Launcher(tmp_path).listening(TOKEN) as port:
        stranger = await raw(port)
        stranger.writer.write(b"Content-Length: %d\r\n\r\n" % (STRANGER_BYTES_MAX + 1))
        said = await stranger.next()
        assert said is not None
        assert "at most 65,536 are read" in said["error"]["message"]
        assert await stranger.next() is None
        stranger.writer.close()
