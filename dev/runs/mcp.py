"""MCP servers: one that is called, asked about, lost and changed, and those that cannot be had."""

from __future__ import annotations

import os
import pathlib
import sys

import windlass
from windlass.events.tools.mcp import McpConnected
from windlass.events.tools.toolset import ToolsetChanged
from windlass.mcp.server import McpServer
from windlass.testing.scripted import call

from .stage import Stage, scripted

SERVER = pathlib.Path(__file__).parents[2] / "tests" / "mcp_client" / "strange_server.py"
NOWHERE = "http://127.0.0.1:9/mcp"
"""The port for what is thrown away: nobody listens there."""


async def servers(stage: Stage) -> None:
    """Every standing of a server, every transport, and a call that a person is asked about."""
    folder, before = stage.folder / "server", os.environ.get("XDG_STATE_HOME")
    folder.mkdir()
    os.environ["XDG_STATE_HOME"] = str(stage.folder / "state")
    strange = McpServer(name="strange", command=sys.executable, args=("-S", str(SERVER), str(folder)))
    away = [
        McpServer(name="away", transport="http", url=NOWHERE),
        McpServer(name="older", transport="sse", url=NOWHERE),
    ]
    model = scripted(
        call("strange__echo", text="hallo"), call("strange__dies"), call("strange__echo", text="again"),
        call("strange__changes"), "changed",
    )  # fmt: skip
    policy = windlass.Policy(rules=(windlass.ask("strange__echo", missing_ok=True),))
    agent = windlass.Agent("plugged", model, policy=policy, mcp=[strange, *away])
    try:
        async with stage.open(agent) as rt:
            session = await stage.session(rt, agent, "mcp")
            await session.prompt("go")
            await session.wait_idle()
            while waiting := await session.requests():
                for asked in waiting:
                    await session.approve(asked)
                await session.wait_idle()
            await stage.until_event(session, lambda event: isinstance(event, McpConnected) and event.status == "frozen")
            await stage.until(session, ToolsetChanged, 4)
    finally:
        os.environ.pop("XDG_STATE_HOME")
        if before is not None:
            os.environ["XDG_STATE_HOME"] = before


SCENARIOS = {"mcp": servers}
