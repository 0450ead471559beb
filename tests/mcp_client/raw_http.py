"""A server over streamable HTTP, written by hand in the very loop of a test, so that it can answer as no server should
and its time can be virtual."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from tests.mcp_client.conftest import PATIENT_MS
from windlass.mcp.server import McpServer

JSON = "application/json"
EVENTS = "text/event-stream"
TOOLS = [{"name": "go", "inputSchema": {"type": "object"}}]


class Asked:
    """One request, and the way to answer it."""

    def __init__(self, method: str, headers: dict[str, str], told: dict[str, Any], out: asyncio.StreamWriter) -> None:
        self.method = method
        self.headers = headers
        self.told = told
        self._out = out

    @property
    def what(self) -> str:
        """The method of the message, or that of HTTP for one that has none."""
        return str(self.told.get("method", self.method))

    async def head(self, status: int, kind: str = JSON, **more: str) -> None:
        lines = [f"HTTP/1.1 {status} X", f"Content-Type: {kind}", "Connection: close"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in more.items()]
        await self.send("\r\n".join([*lines, "", ""]).encode())

    async def send(self, data: bytes) -> None:
        self._out.write(data)
        await self._out.drain()

    def answer(self, result: dict[str, Any]) -> bytes:
        return json.dumps({"jsonrpc": "2.0", "id": self.told["id"], "result": result}).encode()


class RawServer:
    """What a sound server does, until a test says otherwise for some kind of request."""

    def __init__(self) -> None:
        self.otherwise: dict[str, Callable[[Asked], Awaitable[None]]] = {}
        self.seen: list[str] = []
        self.sessions = 0
        self._tasks: set[asyncio.Task[Any]] = set()

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await self._taken(reader, writer)
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _taken(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}
            body = await reader.readexactly(int(headers.get("content-length", 0)))
            asked = Asked(head[0].split()[0], headers, json.loads(body or b"{}"), writer)
            self.seen.append(asked.what)
            await self.otherwise.get(asked.what, self.soundly)(asked)

    async def soundly(self, asked: Asked) -> None:
        match asked.what:
            case "initialize":
                self.sessions += 1
                await asked.head(200, mcp_session_id=f"session-{self.sessions}")
                result = {"protocolVersion": asked.told["params"]["protocolVersion"], "capabilities": {"tools": {}}}
                await asked.send(asked.answer({**result, "serverInfo": {"name": "raw", "version": "1"}}))
            case "tools/list":
                await asked.head(200)
                await asked.send(asked.answer({"tools": TOOLS}))
            case "tools/call":
                await asked.head(200)
                await asked.send(asked.answer({"content": [{"type": "text", "text": "done"}]}))
            case "DELETE":
                await asked.head(200)
            case "GET" | "server/discover":
                await asked.head(405)
            case _:
                await asked.head(202)

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[McpServer]:
        async with await asyncio.start_server(self.take, "127.0.0.1", 0, limit=1 << 20) as listening:
            url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/mcp"
            yield McpServer(name="raw", transport="http", url=url, start_timeout_ms=PATIENT_MS)
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
