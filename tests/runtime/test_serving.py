"""Tools that clients run: served beside the session and from other processes, cut off, answered twice, given up."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest

import windlass
from windlass.events.runs import RunAsked, RunStarted
from windlass.events.stored.record import Sealed
from windlass.events.tools.calls import ResultReceived, ToolDelegated
from windlass.events.tools.permissions import ApproverMissed
from windlass.events.values.blocks import Data, Text
from windlass.runtime.api.session import Session
from windlass.store.base import Key
from windlass.store.memory import MemoryLog, MemoryStore
from windlass.testing.scripted import ScriptedModel, call

from .support import agent_of, events_of, only, sound, started, until

SCHEMA = {"type": "object", "properties": {"url": {"type": "string"}}, "required": ["url"]}
OPEN_TAB = windlass.external_tool("open_tab", "Opens a tab.", SCHEMA)


@windlass.tool
async def open_tab(ctx: windlass.ToolContext, url: str) -> dict[str, str]:
    "Opens a tab."
    return {"opened": url, "key": ctx.idempotency_key}


def browser(*turns: Any, **more: Any) -> windlass.Agent:
    return agent_of(*turns, name="browser", tools=[OPEN_TAB], **more)


def told(agent: windlass.Agent) -> str:
    model = agent.model
    assert isinstance(model, ScriptedModel)
    return str(model.requests[-1].items[-1])


async def results(session: Session) -> list[Any]:
    found = only(await events_of(session), ResultReceived)
    return [(event.actor, event.ok, event.error_code, event.body.content) for event in found]


async def test_a_run_waits_for_the_client_that_serves_beside_it():
    agent = browser(call("open_tab", url="a.html"), "it is open")
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        async with session.serve(open_tab):
            await session.prompt("go")
            assert (await session.result()).text == "it is open"
        (given,) = only(await events_of(session), ToolDelegated)
        value = {"opened": "a.html", "key": f"s:{given.call_id}"}
        assert await results(session) == [("client", True, None, (Data(value=value),))]
        assert only(await events_of(session), ApproverMissed) == []
        assert len(only(await events_of(session), RunStarted)) == 1
        await sound(session)


async def test_whoever_has_left_runs_no_call_any_more():
    agent = browser(call("open_tab", url="a.html"), "it is open", call("open_tab", url="b.html"))
    opened: list[str] = []

    @windlass.tool(name="open_tab")
    async def opens(url: str) -> str:
        "Opens a tab."
        opened.append(url)
        return "open"

    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        async with session.serve(opens):
            await session.prompt("go")
            assert (await session.result()).text == "it is open"
        await session.prompt("again")
        assert (await session.result()).status == "asked"
        assert (opened, [task for task in asyncio.all_tasks() if task.get_name() == "windlass:serve:s"]) == (
            ["a.html"],
            [],
        )


async def test_whoever_serves_for_ever_does_so_until_the_runtime_is_closed():
    agent = browser(call("open_tab", url="a.html"), "it is open")
    rt = await windlass.open(agents=[agent]).start()
    session = await rt.session(agent, "s")
    async with session.serve(open_tab) as serving:
        waiting = asyncio.ensure_future(serving.wait())
        await session.prompt("go")
        assert (await session.result()).text == "it is open"
        assert not waiting.done()
        await rt.close()
        await waiting


async def test_without_a_client_the_run_ends_asked_and_one_that_comes_later_goes_on_with_it():
    agent = browser(call("open_tab", url="a.html"), "it is open")
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go")
        assert (await session.result()).status == "asked"
        async with session.serve(open_tab):
            assert (await session.result()).text == "it is open"
        await sound(session)


async def test_a_client_in_another_runtime_serves_through_the_store(tmp_path):
    store = str(tmp_path / "work.db")
    agent = browser(call("open_tab", url="a.html"), "it is open")
    async with windlass.open(store, agents=[agent], poll_ms=10) as rt, windlass.open(store, poll_ms=10) as other:
        session = await rt.session(agent, "s")
        remote = await other.get("s")
        async with remote.serve(open_tab, actor="tab-server"):
            await session.prompt("go")
            await started(session, ResultReceived)
            await session.wait_idle()
            assert (await session.result()).text == "it is open"
        assert [entry[0] for entry in await results(session)] == ["tab-server"]
        await sound(session)


CLIENT = """
import asyncio, sys, windlass

@windlass.tool
def open_tab(url: str) -> str:
    "Opens a tab."
    return f"opened {url} elsewhere"

async def main():
    async with windlass.open(sys.argv[1], poll_ms=10) as rt:
        session = await rt.get("s")
        async with session.serve(open_tab, actor="process"):
            while (await session.waiting()):
                await asyncio.sleep(0.01)

asyncio.run(main())
"""


async def test_a_client_in_another_process_serves_a_run_that_ended_asked(tmp_path):
    store = str(tmp_path / "work.db")
    first = browser(call("open_tab", url="a.html"))
    async with windlass.open(store, agents=[first], poll_ms=10) as rt:
        session = await rt.session(first, "s")
        await session.prompt("go")
        assert (await session.result()).status == "asked"
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", CLIENT, store)
        try:
            await started(session, ResultReceived)
        finally:
            process.terminate()
            await process.wait()
        assert await results(session) == [("process", True, None, (Text(text="opened a.html elsewhere"),))]


async def test_what_a_served_tool_raises_is_a_result_that_keeps_its_secrets():
    @windlass.tool(name="open_tab")
    def broken(url: str) -> str:
        "Opens a tab."
        raise ValueError("the password is hunter2")

    agent = browser(call("open_tab", url="a.html"), "it failed")
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        async with session.serve(broken):
            await session.prompt("go")
            assert (await session.result()).text == "it failed"
        text = Text(text="the tool failed (ValueError); the details are in the log")
        assert await results(session) == [("client", False, "ValueError", (text,))]
        assert "hunter2" not in told(agent)


async def test_a_large_result_goes_beside_the_log():
    @windlass.tool(name="open_tab")
    def large(url: str) -> str:
        "Opens a tab."
        return "x" * 100_000

    agent = browser(call("open_tab", url="a.html"), "done")
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        async with session.serve(large):
            await session.prompt("go")
            assert (await session.result()).text == "done"
        (received,) = only(await events_of(session), ResultReceived)
        assert received.body.whole is not None
        assert await rt.store.blobs.get("default", received.body.whole.digest) == b"x" * 100_000


async def test_several_calls_run_side_by_side_and_each_once():
    running: list[str] = []
    most: list[int] = []
    full = asyncio.Event()

    @windlass.tool(name="open_tab")
    async def slow(url: str) -> str:
        "Opens a tab."
        running.append(url)
        most.append(len(running))
        if len(running) == 8:
            full.set()
        await full.wait()
        await asyncio.sleep(0.01)
        running.remove(url)
        return url

    agent = browser([call("open_tab", url=str(n)) for n in range(20)], "all")
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        async with session.serve(slow):
            await session.prompt("go")
            assert (await session.result()).text == "all"
        assert sorted(entry[3][0].text for entry in await results(session)) == sorted(str(n) for n in range(20))
        assert (len(most), max(most)) == (20, 8)
        await sound(session)


async def test_a_client_that_leaves_gives_its_call_up_and_the_next_one_gets_it():
    entered: list[str] = []

    @windlass.tool(name="open_tab")
    async def stuck(ctx: windlass.ToolContext, url: str) -> str:
        "Opens a tab."
        entered.append(ctx.idempotency_key)
        await asyncio.get_running_loop().create_future()
        return "never"

    agent = browser(call("open_tab", url="a.html"), "it is open")
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        async with session.serve(stuck):
            await session.prompt("go")
            await until(lambda: entered)
            assert (await session.state()).active
        await started(session, RunAsked)
        async with session.serve(open_tab):
            await started(session, ResultReceived)
            assert (await session.result()).text == "it is open"
        ((_, _, _, content),) = await results(session)
        assert content == (Data(value={"opened": "a.html", "key": entered[0]}),)
        await sound(session)


async def test_a_client_has_left_when_its_tools_have_cleaned_up():
    entered: list[str] = []
    cleaned: list[str] = []

    @windlass.tool(name="open_tab")
    async def stuck(url: str) -> str:
        "Opens a tab."
        entered.append(url)
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            for _ in range(3):
                await asyncio.sleep(0)
            cleaned.append(url)
        return "never"

    agent = browser(call("open_tab", url="a.html"), "it is open")
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        async with session.serve(stuck):
            await session.prompt("go")
            await until(lambda: entered)
        assert cleaned == ["a.html"]


async def test_result_does_not_wait_for_a_client_that_leaves_or_hands_the_call_on():
    @windlass.tool(name="open_tab")
    async def stuck(url: str) -> str:
        "Opens a tab."
        await asyncio.get_running_loop().create_future()
        return "never"

    @windlass.tool(name="open_tab")
    async def hands_on(ctx: windlass.ToolContext, url: str) -> str:
        "Opens a tab."
        ctx.suspend({"url": url})

    agent = browser(call("open_tab", url="a.html"), "it is open")
    async with windlass.open(agents=[agent], poll_ms=10) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go")
        assert (await session.result()).status == "asked"
        async with session.serve(stuck):
            waiting = asyncio.ensure_future(session.result())
            await asyncio.sleep(0.05)
            assert not waiting.done()
        assert (await waiting).status == "asked"
        async with session.serve(hands_on):
            assert (await session.result()).status == "asked"
        await sound(session)


async def test_a_client_whose_runtime_was_closed_begins_no_call_any_more():
    ran: list[str] = []

    @windlass.tool(name="open_tab")
    async def noted(url: str) -> str:
        "Opens a tab."
        ran.append(url)
        return "opened"

    class Slow(MemoryLog):
        """A log that answers a number of readers, and lets the next ones wait."""

        free = 1_000
        let = asyncio.Event()

        async def read(self, key: Key, *, after: int = 0, until: int | None = None) -> AsyncIterator[Sealed]:
            self.free -= 1
            if self.free < 0:
                await self.let.wait()
            async for sealed in super().read(key, after=after, until=until):
                yield sealed

    store = MemoryStore()
    store.log = slow = Slow(store.memory)
    agent = browser(call("open_tab", url="a.html"), "it is open")
    async with windlass.Runtime(store, agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go")
        assert (await session.result()).status == "asked"
    async with windlass.Runtime(store) as other:
        remote = await other.get("s")
        slow.free = 1  # the call is found; looking it up takes a while
        async with remote.serve(noted) as serving:
            await until(lambda: slow.free < 0)
            await other.close()
            slow.let.set()
            await until(lambda: not serving._working)
    assert ran == []


async def test_a_call_that_is_cancelled_or_answered_elsewhere_is_given_up_by_its_client():
    entered, stopped = asyncio.Event(), asyncio.Event()

    @windlass.tool(name="open_tab")
    async def stuck(url: str) -> str:
        "Opens a tab."
        entered.set()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            stopped.set()
        return "never"

    agent = browser(call("open_tab", url="a"), call("open_tab", url="b"), "next")
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        async with session.serve(stuck):
            await session.prompt("go")
            await entered.wait()
            await session.cancel()
            await stopped.wait()
            entered.clear()
            stopped.clear()
            await session.prompt("again")
            await entered.wait()
            (given,) = (await session.state()).open_calls()
            await session.tool_result(given.call_id, "done by hand", actor="ann")
            await stopped.wait()
            assert (await session.result()).text == "next"
        assert [entry[0] for entry in await results(session)] == ["ann"]
        await sound(session)


async def test_a_tool_that_nobody_declared_is_served_for_nothing_and_none_at_all_is_refused():
    agent = browser("x")
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        with pytest.raises(windlass.UsageError, match="at least one tool"):
            session.serve()
        async with session.serve(open_tab):
            await session.prompt("go")
            assert (await session.result()).text == "x"
        assert rt.slots.at(session.key).local_code.empty
