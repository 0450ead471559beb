"""A process that is asked to stop: what has begun is brought to its end within a stated time, nothing else is begun."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import subprocess
import sys
import time

import pytest

import windlass
from windlass.events.tools.calls import ToolFinished, ToolOutcomeUnknown, ToolStarted
from windlass.events.turns import ModelReplied, ModelRequested
from windlass.runtime.api.termination import TERMINATED
from windlass.testing.scripted import call, hang, pause

from .support import agent_of, events_of, only, sound, until

PROGRAM = """
import asyncio, sys, time, windlass
from windlass.testing.scripted import ScriptedModel, by_history, call

@windlass.tool(contract="at_most_once")
async def pay() -> str:
    print("paying", flush=True)
    if sys.argv[3] == "blocks":
        time.sleep(float(sys.argv[2]))
    await asyncio.sleep(float(sys.argv[2]))
    print("paid", flush=True)
    return "paid"

model = ScriptedModel(by_history([call("pay"), "done"]))
agent = windlass.Agent("clerk", model=model, tools=[pay], policy=windlass.ALLOW_ALL)

async def main():
    async with windlass.open(sys.argv[1], agents=[agent], drain_ms=5_000) as runtime:
        with runtime.drained_on_sigterm():
            session = await runtime.session(agent, "s")
            await session.prompt("go")
            try:
                await asyncio.Event().wait()
            finally:
                print("leaving", flush=True)

asyncio.run(main())
"""


async def test_a_tool_that_runs_is_waited_for_and_the_next_request_is_not_made(tmp_path):
    store, release = str(tmp_path / "work.db"), asyncio.Event()

    async def slow() -> str:
        await release.wait()
        return "done"

    agent = agent_of(call("slow"), "finished", tools=[slow])
    async with windlass.open(store, agents=[agent]) as runtime:
        session = await runtime.session(agent, "s")
        await session.prompt("go")
        await until_started(runtime, session)
        draining = asyncio.create_task(runtime.drain())
        await asyncio.sleep(0)
        release.set()
        assert await draining == ()
        events = await events_of(session)
        assert len(only(events, ToolFinished)) == 1
        assert len(only(events, ModelReplied)) == 1
    again = agent_of("finished", tools=[slow])
    async with windlass.open(store, agents=[again]) as runtime:
        session = await runtime.get("s")
        assert (await session.result()).text == "finished"
        await sound(session)


async def test_a_reply_that_lands_has_its_tools_run_and_none_is_left_with_an_unknown_outcome(tmp_path):
    store = str(tmp_path / "work.db")

    @windlass.tool(contract="at_most_once")
    async def pay() -> str:
        return "paid"

    agent = agent_of([pause(100), call("pay")], "finished", tools=[pay])
    async with windlass.open(store, agents=[agent]) as runtime:
        session = await runtime.session(agent, "s")
        await session.prompt("go")
        await until(lambda: requested(runtime, session))
        assert await runtime.drain() == ()
        events = await events_of(session)
        assert len(only(events, ToolStarted)) == len(only(events, ToolFinished)) == 1
    again = agent_of("finished", tools=[pay])
    async with windlass.open(store, agents=[again]) as runtime:
        session = await runtime.get("s")
        assert (await session.result()).text == "finished"
        assert only(await events_of(session), ToolOutcomeUnknown) == []
        await sound(session)


async def test_what_takes_longer_than_the_stated_time_is_named_and_cut_off():
    agent = agent_of([hang()])
    async with windlass.open(agents=[agent]) as runtime:
        session = await runtime.session(agent, "s")
        await session.prompt("go")
        await until(lambda: requested(runtime, session))
        assert await runtime.drain(50) == (session.key,)


async def test_nobody_waits_for_a_person_when_the_process_is_to_end():
    asked = asyncio.Event()

    async def never(request: object) -> None:
        asked.set()
        await asyncio.Event().wait()

    def pay() -> str:
        return "paid"

    policy = windlass.Policy(rules=(windlass.ask("pay"),))
    agent = agent_of(call("pay"), "finished", tools=[pay], policy=policy, approver=never)
    async with windlass.open(agents=[agent]) as runtime:
        session = await runtime.session(agent, "s")
        await session.prompt("go")
        await asked.wait()
        assert await runtime.drain(10_000) == ()
        assert len((await session.state()).asks.open) == 1, "the request stays open"


async def test_nobody_waits_for_several_people_either_when_the_process_is_to_end():
    asked: list[object] = []

    async def never(request: object) -> None:
        asked.append(request)
        await asyncio.Event().wait()

    def pay() -> str:
        return "paid"

    def refund() -> str:
        return "refunded"

    policy = windlass.Policy(rules=(windlass.ask("pay"), windlass.ask("refund")))
    agent = agent_of([call("pay"), call("refund")], "finished", tools=[pay, refund], policy=policy, approver=never)
    async with windlass.open(agents=[agent]) as runtime:
        session = await runtime.session(agent, "s")
        await session.prompt("go")
        await until(lambda: len(asked) == 2)
        assert await runtime.drain(5_000) == ()
        assert len((await session.state()).asks.open) == 2, "the requests stay open"


async def test_a_command_is_kept_while_a_process_drains_and_not_acted_on():
    agent = agent_of("first", "second")
    async with windlass.open(agents=[agent]) as runtime:
        session = await runtime.session(agent, "s")
        await session.prompt("one")
        await session.result()
        await runtime.drain()
        await session.prompt("two")
        await runtime.drive("s")
        events = await events_of(session)
        assert len(only(events, ModelRequested)) == 2
        assert len(only(events, ModelReplied)) == 1


def test_an_embedding_program_drains_on_sigterm_and_leaves_with_143(tmp_path):
    with program(tmp_path, 0.3) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "paying\n"
        process.send_signal(signal.SIGTERM)
        assert process.stdout.read() == "paid\nleaving\n"
        assert process.wait(20) == TERMINATED == 143


@pytest.mark.parametrize("how", ["awaits", "blocks"])
def test_a_second_sigterm_ends_the_program_at_once(tmp_path, how):
    with program(tmp_path, 60.0, how) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "paying\n"
        began = time.monotonic()
        try:
            while process.poll() is None:  # two signals that come before the first was taken are one
                process.send_signal(signal.SIGTERM)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(0.5)
                assert time.monotonic() - began < 45.0  # the tool takes 60
        finally:
            process.kill()
        assert process.returncode == TERMINATED


# --- what the tests share ---


def program(folder, lasts_s: float, how: str = "awaits") -> subprocess.Popen[str]:
    command = [sys.executable, "-c", PROGRAM, str(folder / "work.db"), str(lasts_s), how]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def requested(runtime: windlass.Runtime, session: windlass.Session) -> bool:
    driven = runtime.slots.driven_at(session.key)
    return driven is not None and driven.driver._inline is not None


async def until_started(runtime: windlass.Runtime, session: windlass.Session) -> None:
    def started() -> bool:
        driven = runtime.slots.driven_at(session.key)
        return driven is not None and any(c.status == "started" for c in driven.owner.state.calls.by_id.values())

    await until(started)
