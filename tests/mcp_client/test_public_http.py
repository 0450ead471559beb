"""The official everything server over streamable HTTP: listed, called, watched, cancelled, killed in a call, started
again, and another one behind the same address."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pathlib
import signal
import socket
from collections.abc import AsyncIterator, Iterator

import pytest

import windlass
from tests.mcp_client.conftest import PATIENCE_S, PATIENT_MS, patient
from tests.mcp_client.test_connection import agreed, nothing, said
from tests.mcp_client.test_public_servers import BIN, FOR_EVER, LONG
from tests.mcp_client.test_public_servers import pytestmark as pytestmark
from tests.mcp_client.test_sessions import events, of
from windlass.events.tools.mcp import McpConnected
from windlass.mcp.connection import Lost
from windlass.mcp.server import McpServer
from windlass.testing.scripted import ScriptedModel


class Everything:
    """A server that runs, and where."""

    def __init__(self, port: int, process: asyncio.subprocess.Process) -> None:
        self.port = port
        self.process = process

    @property
    def server(self) -> McpServer:
        url = f"http://127.0.0.1:{self.port}/mcp"
        return McpServer(name="everything", transport="http", url=url, start_timeout_ms=PATIENT_MS)

    async def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.process.pid, signal.SIGKILL)
        await self.process.wait()
        self.process._transport.close()  # type: ignore[attr-defined]


def free_ports() -> Iterator[int]:
    """Ports that were free a moment ago."""
    for _ in range(20):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port: int = free.getsockname()[1]
        yield port


async def started(ports: Iterator[int], *words: str) -> Everything:
    """Starts a server at the first of these ports that nobody took meanwhile, and waits until it listens."""
    argv = words or (str(BIN / "mcp-server-everything"), "streamableHttp")
    for port in ports:
        process = await asyncio.create_subprocess_exec(
            *argv,
            env={"PATH": os.environ["PATH"], "PORT": str(port)},
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        assert process.stderr is not None
        async with asyncio.timeout(PATIENCE_S):
            while (line := await process.stderr.readline()) and b"listening" not in line:
                continue
        running = Everything(port, process)
        if line:
            return running
        await running.kill()
    raise AssertionError("no port is free")


@contextlib.asynccontextmanager
async def everything() -> AsyncIterator[Everything]:
    running = await started(free_ports())
    try:
        yield running
    finally:
        await running.kill()


async def test_it_is_listed_called_watched_and_cancelled() -> None:
    async with everything() as running:
        connection = await agreed(running.server)
        assert connection.listing is not None
        assert {"everything__echo", "everything__get-sum", LONG} <= set(connection.listing.by_name)
        assert said(await connection.call("everything__echo", {"message": "x"}, nothing)) == "Echo: x"
        reported = asyncio.Event()

        async def progressed(done: float, total: float | None, message: str | None) -> None:
            reported.set()

        calling = asyncio.ensure_future(connection.call(LONG, FOR_EVER, progressed))
        async with asyncio.timeout(PATIENCE_S):
            await reported.wait()
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
        assert said(await connection.call("everything__echo", {"message": "y"}, nothing)) == "Echo: y"
        assert connection.starts == 1
        await connection.close()


async def test_it_is_killed_in_a_call_and_found_again() -> None:
    async with everything() as running:
        connection = await agreed(running.server)
        reported = asyncio.Event()

        async def progressed(done: float, total: float | None, message: str | None) -> None:
            reported.set()

        calling = asyncio.ensure_future(connection.call(LONG, FOR_EVER, progressed))
        async with asyncio.timeout(PATIENCE_S):
            await reported.wait()
            await running.kill()
            with pytest.raises(Lost):
                await calling
        again = await started(iter([running.port]))
        try:
            assert said(await connection.call("everything__echo", {"message": "back"}, nothing)) == "Echo: back"
            assert connection.starts == 2
        finally:
            await connection.close()
            await again.kill()


async def test_another_list_behind_the_same_address_is_frozen(tmp_path: pathlib.Path) -> None:
    """What answers there is another server by now."""
    from tests.mcp_client.office import Office
    from tests.mcp_client.test_http import serving

    async with everything() as running:
        server = running.server
        agent = windlass.Agent("one", ScriptedModel(["one"]), policy=windlass.ALLOW_ALL, mcp=patient(server))
        async with windlass.open(str(tmp_path / "work.db"), agents=[agent]) as runtime:
            session = await runtime.session(agent, "one")
            await session.prompt("go")
            await session.wait_idle()
    async with serving(Office(), "http", running.port):
        again = windlass.Agent("one", ScriptedModel(["two"]), policy=windlass.ALLOW_ALL, mcp=patient(server))
        async with windlass.open(str(tmp_path / "work.db"), agents=[again]) as runtime:
            session = await runtime.session(again, "one")
            await session.prompt("go on")
            await session.wait_idle()
            found = of(McpConnected, await events(session))
    assert [(each.status, each.transport) for each in found] == [("connected", "http"), ("frozen", "http")]
