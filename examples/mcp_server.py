"""An agent with a public MCP server, which tells the time (`pip install mcp-server-time`): how it stands, what
it answers, and what the answer is marked with."""

import asyncio
import json
import sys

import windlass
from windlass.events.tools.calls import ToolFinished
from windlass.events.values.blocks import Text
from windlass.mcp_servers import Mcp, McpServer, ready
from windlass.testing.scripted import ScriptedModel, call

time_server = McpServer(
    name="time",
    command=sys.executable,
    args=("-m", "mcp_server_time"),
    read_only=("convert_*",),  # your word, not the server's: these calls are made unasked
    start_timeout_ms=240_000,
)
model = ScriptedModel(
    [
        call("time__convert_time", source_timezone="UTC", time="12:00", target_timezone="Asia/Tokyo"),
        "Noon in London is nine in the evening in Tokyo.",
    ]
)
agent = windlass.Agent("clock", model, mcp=Mcp(servers=(time_server,), wait_ms=240_000))


async def main() -> None:
    async with windlass.open("work.db", agents=[agent]) as runtime:
        session = await runtime.session(agent, "tokyo")
        await ready(session)
        server = (await session.state()).mcp.servers["time"]
        print(f"{server.status}, {server.tools} tools")
        await session.prompt("when it is noon in UTC, what time is it in Tokyo?")
        await session.wait_idle()
        calls = [record.event async for record in session.records() if isinstance(record.event, ToolFinished)]
        told = [block.text for event in calls if event.body for block in event.body.content if isinstance(block, Text)]
        print(f"the server says: {json.loads(told[0])['time_difference']}")
        print((await session.result()).text)
        print("marked:", *(await session.state()).labels.held)


asyncio.run(main())
