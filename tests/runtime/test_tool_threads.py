"""Sync tools of many sessions on few threads, in a whole runtime: what waits for a thread is not timed out, and what
somebody else has finished meanwhile is not begun."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest

import windlass
from windlass.events.tools.calls import ToolOutcomeUnknown, ToolTimedOut
from windlass.testing.scripted import ScriptedModel, by_history, call
from windlass.tools.planes.local import LocalPlanes
from windlass.tools.planes.task_stops import stop

from .support import QUICK, events_of, only, sound, until


@pytest.mark.guard(60)
async def test_calls_that_wait_for_a_thread_are_not_timed_out() -> None:
    @windlass.tool(timeout_ms=4_000)
    def work() -> str:
        """Works for a while."""
        time.sleep(0.05)
        return "worked"

    agent = windlass.Agent(
        "worker", model=ScriptedModel(by_history([call("work"), "the end"])), tools=[work], settings=QUICK
    )
    planes = {"local": LocalPlanes(threads_max=1)}
    async with windlass.open(":memory:", agents=[agent], planes=planes) as runtime:
        sessions = [await runtime.session(agent, f"s{number}") for number in range(120)]
        for session in sessions:
            await session.prompt("go")
        assert {(await session.result()).text for session in sessions} == {"the end"}
        for session in sessions:
            assert only(await events_of(session), ToolTimedOut) == []


@pytest.mark.guard(60)
async def test_an_owner_that_was_replaced_while_a_call_waited_for_a_thread_does_not_begin_it(tmp_path: Any) -> None:
    store, release = f"sqlite:{tmp_path / 'a.db'}", threading.Event()
    begun: list[str] = []

    @windlass.tool
    def hang() -> str:
        """Hangs."""
        begun.append("hang")
        release.wait()
        return "released"

    @windlass.tool
    def pay() -> str:
        """Pays."""
        begun.append("pay")
        return "paid"

    def agent(tool: str) -> windlass.Agent:
        model = ScriptedModel(by_history([call(tool), "the end"]))
        return windlass.Agent(tool, model=model, tools=[hang, pay], settings=QUICK)

    agents, planes = [agent("hang"), agent("pay")], {"local": LocalPlanes(threads_max=1)}
    async with windlass.open(store, agents=agents, planes=planes, lease_ms=600) as first:
        for number in range(4):
            await (await first.session(agents[0], f"hangs{number}")).prompt("go")
        await until(lambda: len(begun) == 4)
        waits = await first.session(agents[1], "pays")
        await waits.prompt("go")
        await until(lambda: only_started(first, waits.key))
        for loop in first.host.loops:
            stop(loop)  # it stands still, as a stopped process does: leases run out
        async with windlass.open(store, agents=[agent("hang"), agent("pay")], poll_ms=20) as second:
            session = await second.get("pays")
            assert (await session.result()).text == "the end"
            assert len(only(await events_of(session), ToolOutcomeUnknown)) == 1
            release.set()
            await until(lambda: first.slots.driven_at(waits.key) is None)
            await asyncio.sleep(0.05)
            assert begun == ["hang"] * 4
            await sound(session)


def only_started(runtime: windlass.Runtime, key: Any) -> bool:
    """Whether a session's call has been started and not ended."""
    driven = runtime.slots.driven_at(key)
    calls = driven.owner.state.calls.by_id.values() if driven is not None else ()
    return any(found.status == "started" for found in calls)
