"""A server of the official package, for HTTP. Imported by the tests that need it, since the package takes long to load."""

from __future__ import annotations

import asyncio
from typing import Any

from mcp.server import MCPServer
from mcp.server.mcpserver import Context


class Office:
    """The server, and what its requests carried."""

    def __init__(self) -> None:
        self.headers: list[dict[str, str]] = []
        self.begun = asyncio.Event()
        self.cancelled = asyncio.Event()

    def app(self, kind: str) -> Any:
        """The server as an ASGI application."""
        server = MCPServer("office")

        async def add(a: int, b: int) -> int:
            return a + b

        async def counts(ctx: Context[Any]) -> str:
            await ctx.report_progress(1, 2, "half")
            return "counted"

        async def hangs() -> str:
            self.begun.set()
            try:
                await asyncio.sleep(3600)
            finally:
                self.cancelled.set()
            return "never"

        for tool in (add, counts, hangs):
            server.add_tool(tool)
        inner = server.streamable_http_app() if kind == "http" else server.sse_app()

        async def app(scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] == "http":
                self.headers.append({name.decode(): value.decode() for name, value in scope["headers"]})
            await inner(scope, receive, send)

        return app
