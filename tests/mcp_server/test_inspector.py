"""The public MCP inspector, in its CLI mode, before our server: by a configuration file, and over HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import json
import pathlib
import shutil
import sys
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
from aiohttp import web

from .support import PATIENCE_S, ROOT, Served, kinds, serve_words, serving

HOPS = ("transfer-encoding", "content-length", "connection")
"""Headers of one connection, not of what is sent over it."""

INSPECTOR = pathlib.Path(sys.prefix) / "node" / "node_modules" / ".bin" / "mcp-inspector-cli"


async def inspected(*words: str) -> Any:
    """What the inspector prints."""
    node = shutil.which("node")
    assert node is not None, "the inspector needs node"
    command = (node, str(INSPECTOR), "--cli", *words)
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=pipe, cwd=ROOT)
    try:
        async with asyncio.timeout(PATIENCE_S * 2):
            out, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, (out, err)
    return json.loads(out)


async def test_the_inspector_calls_an_agent_that_a_configuration_names(tmp_path):
    (tmp_path / "go").touch()
    command, *args = serve_words(tmp_path)
    config = tmp_path / "mcp.json"
    config.write_text(json.dumps({"mcpServers": {"office": {"command": command, "args": args}}}))
    named = ("--config", str(config), "--server", "office")
    words = ("--tool-name", "agent_reader", "--tool-arg", "prompt=Read.", "session_id=once")
    called = await inspected(*named, "--method", "tools/call", *words)
    assert called["structuredContent"]["status"] == "completed"
    assert called["content"][0]["text"] == "Read.\n(session once: completed)"


@contextlib.asynccontextmanager
async def signed(served: Served) -> AsyncIterator[str]:
    """The address of a proxy that adds a token to requests: the inspector's CLI has no way to send one."""
    own = {"Authorization": f"Bearer {served.token()}"}

    async def passed_on(request: web.Request) -> web.StreamResponse:
        headers = {
            name: value for name, value in request.headers.items() if name.lower() not in ("host", "content-length")
        }
        asked = http.request(request.method, served.url, headers={**headers, **own}, data=await request.read())
        async with asked as answer:
            kept = {name: value for name, value in answer.headers.items() if name.lower() not in HOPS}
            response = web.StreamResponse(status=answer.status, headers=kept)
            await response.prepare(request)
            async for piece in answer.content.iter_any():
                await response.write(piece)
            return response

    app = web.Application()
    app.router.add_route("*", "/mcp", passed_on)
    async with aiohttp.ClientSession() as http:
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        try:
            yield f"http://127.0.0.1:{runner.addresses[0][1]}/mcp"
        finally:
            await runner.cleanup()


async def test_the_inspector_lists_calls_and_reads_over_http(tmp_path):
    (tmp_path / "go").touch()
    async with serving(tmp_path) as served, signed(served) as url:
        at = (url, "--transport", "http")
        listed = await inspected(*at, "--method", "tools/list")
        assert [tool["name"] for tool in listed["tools"]][:2] == ["agent_clerk", "agent_reader"]
        words = ("--tool-name", "agent_reader", "--tool-arg", "prompt=Read.", "session_id=once")
        called = await inspected(*at, "--method", "tools/call", *words)
        assert called["structuredContent"]["text"] == "Read."
        found = await inspected(*at, "--method", "resources/read", "--uri", "windlass://sessions/once/log")
        log = json.loads(found["contents"][0]["text"])
    assert kinds(log).count("run.completed") == 1
