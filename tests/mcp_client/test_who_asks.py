"""For which of its calls a server asks, if several are open: over HTTP that is known, and not guessed by time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.mcp_client.conftest import PATIENCE_S, PATIENT_MS
from tests.mcp_client.test_connection import agreed, nothing, said
from tests.mcp_client.test_http import serving
from windlass.events.questions import AnswerBody
from windlass.mcp.server import McpServer
from windlass.tools.context import Answered, ToolContext


class Desk:
    """A server whose tool asks who is calling, once it is told to."""

    def __init__(self) -> None:
        self.begun = {name: asyncio.Event() for name in ("first", "second")}
        self.may_ask = {name: asyncio.Event() for name in ("first", "second")}

    def app(self, kind: str) -> Any:
        from mcp.server import MCPServer
        from mcp.server.mcpserver import Context
        from mcp_types.version import MODERN_PROTOCOL_VERSIONS
        from pydantic import BaseModel

        class Form(BaseModel):
            word: str

        server = MCPServer("desk")

        async def asks(name: str, ctx: Context[Any]) -> str:
            self.begun[name].set()
            await self.may_ask[name].wait()
            answer = await ctx.elicit(name, Form)
            return f"{name}: {answer.action}"

        asks.__annotations__["ctx"] = Context
        server.add_tool(asks)
        inner = server.streamable_http_app()

        async def app(scope: Any, receive: Any, send: Any) -> None:
            """Of the older protocol, in which servers send requests to their clients: the newer one is not known."""
            headers = dict(scope.get("headers", ()))
            if headers.get(b"mcp-protocol-version", b"").decode() in MODERN_PROTOCOL_VERSIONS:
                await send({"type": "http.response.start", "status": 404, "headers": []})
                await send({"type": "http.response.body", "body": b""})
                return
            await inner(scope, receive, send)

        return app


class Seat:
    """Writes down for which call something is asked, and declines."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []

    async def ask(self, call_id: str, question: Any) -> Answered:
        self.asked.append((call_id, question.message.rpartition(" ")[2]))
        return Answered(outcome="declined", body=AnswerBody())


@pytest.mark.parametrize("order", [("first", "second"), ("second", "first")])
async def test_two_calls_that_ask_at_once_are_told_apart(order: tuple[str, str]) -> None:
    desk, seat = Desk(), Seat()
    async with serving(desk, "http") as (url, _):  # type: ignore[arg-type]
        server = McpServer(name="desk", transport="http", url=url, start_timeout_ms=PATIENT_MS)
        connection = await agreed(server)

        async def made(name: str) -> str:
            context: Any = ToolContext(session="s", call_id=name, seat=seat)  # type: ignore[arg-type]
            with connection.requests.during(context):
                return said(await connection.call("desk__asks", {"name": name}, nothing))

        async with asyncio.timeout(PATIENCE_S):
            calls = {}
            for name in ("first", "second"):
                calls[name] = asyncio.ensure_future(made(name))
                await desk.begun[name].wait()
            for name in order:
                desk.may_ask[name].set()
                assert await calls[name] == f"{name}: decline"
        assert seat.asked == [(name, name) for name in order]
        await connection.close()
