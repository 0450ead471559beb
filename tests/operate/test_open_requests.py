"""What a session waits for from people."""

from __future__ import annotations

import asyncio

import windlass
from windlass.runtime.api.agent import Agent
from windlass.runtime.api.runtime import Runtime
from windlass.runtime.operate.log_point import read_point
from windlass.runtime.operate.open_requests import UnsettledCall, open_requests, unsettled_calls
from windlass.store import MemoryStore
from windlass.store.base import Key
from windlass.testing.scripted import ScriptedModel, by_history, call

from .support import ASKED, DONE, sessions


async def test_open_requests_come_with_what_was_asked():
    async with sessions() as store:
        assert open_requests(await read_point(store, DONE)) == []
        point = await read_point(store, ASKED)
    (request,) = open_requests(point)
    assert (request.kind, request.tool) == ("permission", "pay")
    assert isinstance(request.event, windlass.PermissionRequested)
    assert request.digest == request.event.digest != ""
    assert open_requests(point, "permission") == [request]
    assert open_requests(point, "question") == []
    assert unsettled_calls(point) == []


async def test_a_call_that_was_cut_off_waits_to_be_settled():
    begun = asyncio.Event()

    @windlass.tool(settle=True)
    async def wire(account: str) -> str:
        "Send money."
        begun.set()
        await asyncio.Event().wait()
        return "sent"

    agent = Agent("banker", model=ScriptedModel(by_history([[call("wire", account="A-1")], "Noted."])), tools=[wire])
    store, key = MemoryStore(), Key("default", "wired")
    async with Runtime(store, agents=[agent]) as runtime:
        session = await runtime.session(agent, key.session)
        await session.prompt("Send it.")
        await begun.wait()
    async with Runtime(store, agents=[agent]) as runtime:
        await (await runtime.session(agent, key.session)).wait_idle()
    point = await read_point(store, key)
    (requested,) = [event for event in point.events.values() if isinstance(event, windlass.ToolRequested)]
    assert unsettled_calls(point) == [UnsettledCall(call_id=requested.call_id, tool="wire", args={"account": "A-1"})]
