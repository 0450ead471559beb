"""ASGI applications behind uvicorn on loopback, at addresses that are known before they run."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from typing import Any

from tests.mcp_client.conftest import PATIENCE_S


def listener(port: int = 0) -> socket.socket:
    """A socket that is listened on already, so that nobody comes too early."""
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.bind(("127.0.0.1", port))
    made.listen()
    return made


def origin_of(listening: socket.socket) -> str:
    return f"http://127.0.0.1:{listening.getsockname()[1]}"


@contextlib.asynccontextmanager
async def running(app: Any, listening: socket.socket, lifespan: Any = "on") -> AsyncIterator[Any]:
    """An application that runs, and what stops it."""
    import uvicorn

    config = uvicorn.Config(
        app,
        interface="asgi3",
        log_level="error",
        timeout_graceful_shutdown=1,
        lifespan=lifespan,
        ws="none",
        access_log=False,
    )
    server = uvicorn.Server(config)
    server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
    task = asyncio.ensure_future(server._serve([listening]))
    try:
        yield server
    finally:
        server.should_exit = server.force_exit = True
        async with asyncio.timeout(PATIENCE_S):
            await task
        listening.close()
