"""What a call that waits tells its client while it waits."""

from __future__ import annotations

import asyncio
import types
from typing import Any

import windlass
from windlass.events.base import name_of
from windlass.mcp_server.wait import Wait
from windlass.testing.scripted import ScriptedModel, call


class SlowClient:
    """Takes each report of progress after a few steps of the loop, and keeps what it was told whole."""

    client_capabilities = None

    def __init__(self) -> None:
        self.heard: list[str | None] = []
        self.begun = asyncio.Event()

    async def report_progress(self, count: float, total: float | None, message: str | None) -> None:
        for _ in range(20):
            await asyncio.sleep(0)
        self.heard.append(message)
        if message == "tool.requested look":
            self.begun.set()


async def test_a_report_of_progress_is_not_cut_off_by_the_end_of_the_call():
    client = SlowClient()
    ctx: Any = types.SimpleNamespace(meta={"progress_token": 1}, session=client, protocol_version="2025-11-25")
    nobody: Any = types.SimpleNamespace(words=None)

    @windlass.tool(contract="pure")
    async def look() -> str:
        """Looks until the client has heard of it."""
        await client.begun.wait()
        return "seen"

    agent = windlass.Agent("clerk", ScriptedModel([call("look"), "Hello."]), tools=[look])
    async with windlass.open(agents=[agent]) as runtime:
        session = await runtime.session(agent, "march")
        begin = await session.cursor()
        await session.prompt("Hi.")
        outcome: Any = await Wait(nobody, nobody, ctx, session, after=begin).run(600)
        records = [record async for record in session.records(after=begin)]
    assert outcome.text == "Hello."
    assert client.heard == [told(record.event) for record in records]


def told(event: Any) -> str:
    tool = getattr(event, "tool", None)
    return f"{name_of(event)} {tool}" if isinstance(tool, str) else name_of(event)
