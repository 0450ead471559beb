"""Any state, any cause: a stop is acknowledged and effective in time, and the session works afterwards.

The server validates every request, so what follows a stop is a history that a real provider would accept.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

import windlass
from windlass.events.context import CompactionStarted
from windlass.events.runs import RunSlept
from windlass.events.tools.calls import ToolFinished
from windlass.events.turns import PrefixChanged, RetryPlanned
from windlass.events.values.settings import Settings
from windlass.runtime.api.session import Session
from windlass.runtime.bind.model_requests import SUMMARY_REQUEST
from windlass.testing.model_server import Format, ParsedRequest, call, calls, fault, say

from .serving import Case, serving
from .support import events_of, only, sound, started, until

ACK_S = 15.0
EFFECTIVE_S = 25.0
"""What is stopped would last for ever, or for 30 s at least: sooner means that nothing was waited for."""

STATES = (
    "waiting_for_headers",
    "waiting_for_output",
    "streaming",
    "stalled_stream",
    "tool",
    "sync_tool",
    "stubborn_tool",
    "parallel_tools",
    "approver_thinks",
    "asked",
    "tool_asks",
    "tool_asks_a_model",
    "client_tool",
    "back_off",
    "sleeping",
    "compacting",
)
CAUSES = ("interrupt", "cancel", "replaced", "steered", "closed", "fork")
FORMS: tuple[Format, ...] = ("openai", "anthropic", "responses", "gemini")

CALLS = {
    "tool": call("slow", {}),
    "sync_tool": call("slow_sync", {}),
    "stubborn_tool": call("stubborn", {}),
    "parallel_tools": calls(("quick", {}), ("slow", {}), ("stubborn", {})),
    "approver_thinks": call("guarded", {}),
    "asked": call("guarded", {}),
    "tool_asks": call("asking", {}),
    "tool_asks_a_model": call("consulting", {}),
    "client_tool": call("remote", {}),
}
FAULTS = {
    "waiting_for_headers": fault("headers_late"),
    "waiting_for_output": fault("first_output_late"),
    "streaming": fault("drip", delay_ms=20, size=40),
    "stalled_stream": fault("stall"),
    "back_off": fault("429_seconds", headers={"retry-after": "30"}),
    "sleeping": fault("429_hour"),
}
LONG = say("a long answer with many words " * 40)


def answer(state: str) -> Callable[[ParsedRequest], Any]:
    """What the server says: it makes the state come about until it is told to go on."""
    met: list[int] = []
    """Requests for a summary: the first one hangs."""

    def choose(request: ParsedRequest) -> Any:
        # Formats that want roles to alternate put what was said in a row into one message.
        said = "\n".join(message.text for message in request.messages if message.role == "user")
        if SUMMARY_REQUEST in said:
            met.append(1)
            return fault("stall") if len(met) == 1 else say("a summary")
        if "a tool wants to know" in said:
            return fault("stall")
        if any(word in said for word in ("next", "instead of that", "also this")):
            return say("fine")
        if "warm up" in said:
            return say("warm " * 60)
        if state in CALLS:
            return CALLS[state] if not request.results else LONG
        return FAULTS.get(state, say("fine"))

    return choose


class World:
    """The tools of one case and how far they are."""

    def __init__(self, state: str) -> None:
        self.state = state
        self.entered = asyncio.Event()
        self.loop = asyncio.get_running_loop()
        self.over = False

    def tools(self) -> list[Any]:
        def enter() -> None:
            self.loop.call_soon_threadsafe(self.entered.set)

        @windlass.tool(contract="pure")
        async def quick() -> str:
            return "quick"

        @windlass.tool
        async def slow() -> str:
            enter()
            await asyncio.get_running_loop().create_future()
            return ""

        @windlass.tool
        def slow_sync(ctx: windlass.ToolContext) -> str:
            enter()
            while not self.over:
                time.sleep(0.01)
            return "late"

        @windlass.tool
        async def stubborn() -> str:
            enter()
            while not self.over:
                try:
                    await asyncio.sleep(0.02)
                except asyncio.CancelledError:
                    continue
            return "late"

        @windlass.tool
        async def guarded() -> str:
            return "done"

        @windlass.tool
        async def asking(ctx: windlass.ToolContext) -> str:
            return (await ctx.ask("Which?")).text

        @windlass.tool
        async def consulting(ctx: windlass.ToolContext) -> str:
            return (await ctx.model("a tool wants to know")).text

        remote = windlass.external_tool("remote", "Runs elsewhere.", {"type": "object", "properties": {}})
        return [quick, slow, slow_sync, stubborn, guarded, asking, consulting, remote]

    async def approver(self, asked: Any) -> Any:
        if self.state in ("approver_thinks", "tool_asks"):
            self.entered.set()
            await asyncio.get_running_loop().create_future()
        return None

    def agent(self, case: Case, form: Format, on_busy: Any) -> windlass.Agent:
        info = {"window_tokens": 1_200, "max_output_tokens": 200} if self.state == "compacting" else {}
        return case.agent(
            form,
            info=info,
            tools=[] if self.state == "compacting" else self.tools(),
            approver=self.approver,
            policy=windlass.Policy(rules=(windlass.ask("guarded", missing_ok=True),)),
            settings=Settings(retry_base_ms=5, retry_cap_ms=20, on_busy=on_busy, keep_exchanges=1),
        )


async def reach(world: World, case: Case, session: Session) -> None:
    """Brings the session into the state."""
    state = world.state
    if state == "compacting":
        for number in range(20):
            await session.prompt(f"warm up {number} " + "and more " * 20)
            done = asyncio.ensure_future(session.wait_idle())
            compacting = asyncio.ensure_future(started(session, CompactionStarted))
            await asyncio.wait([done, compacting], return_when=asyncio.FIRST_COMPLETED)
            stopped = not done.done()
            for task in (done, compacting):
                task.cancel()
            if stopped:
                return
        raise AssertionError("it never compacted")
    listener = session.runtime.slots.subscribe(session.key)
    await session.prompt("go")
    if state in ("streaming", "stalled_stream"):
        async for told in listener:
            if isinstance(told, windlass.TextDelta):
                break
    elif state == "tool_asks_a_model":
        await case.server.arrived(2)
    elif state in ("waiting_for_headers", "waiting_for_output"):
        await case.server.arrived(1)
        await asyncio.sleep(0.02)
    elif state in ("back_off",):
        await started(session, RetryPlanned)
    elif state in ("sleeping",):
        await started(session, RunSlept)
    elif state in ("asked", "client_tool"):
        assert (await session.result()).status == "asked"
    else:
        await world.entered.wait()
        if state == "parallel_tools":
            await started(session, ToolFinished)
    listener.close()


@asynccontextmanager
async def placed(
    tmp_path: Any, state: str, form: Format, on_busy: str = "enqueue"
) -> AsyncIterator[tuple[World, Case]]:
    world = World(state)
    async with serving(tmp_path, answer(state)) as case:
        try:
            yield world, case
        finally:
            world.over = True
            await asyncio.sleep(0.03)


async def within(seconds: float, work: Awaitable[Any], what: str) -> Any:
    try:
        async with asyncio.timeout(seconds):
            return await work
    except TimeoutError:
        raise AssertionError(f"{what} took more than {seconds:g} s") from None


@pytest.mark.parametrize("cause", CAUSES)
@pytest.mark.parametrize("state", STATES)
async def test_a_session_stopped_in_any_state_by_any_cause_goes_on(tmp_path, state, cause):
    number = STATES.index(state) * len(CAUSES) + CAUSES.index(cause)
    form = FORMS[number % len(FORMS)]
    async with placed(tmp_path, state, form) as (world, case):
        agent = world.agent(case, form, "interrupt" if cause == "replaced" else "enqueue")
        async with case.runtime(agent) as rt:
            session = await rt.session(agent, "s")
            await reach(world, case, session)
            handle = session
            if cause in ("interrupt", "cancel"):
                stop = session.interrupt if cause == "interrupt" else session.cancel
                await within(ACK_S, stop(), "the acknowledgement")
                await within(EFFECTIVE_S, session.wait_idle(), "the stop")
                if cause == "interrupt" and state in ("asked", "client_tool"):
                    assert (await session.result()).status == "interrupted", "what was asked is withdrawn"
            elif cause == "replaced":
                await within(ACK_S, session.prompt("instead of that"), "the acknowledgement")
                await within(EFFECTIVE_S, session.wait_idle(), "the stop")
            elif cause == "steered":
                await within(ACK_S, session.prompt("also this", behavior="steer"), "the acknowledgement")
                await within(ACK_S, session.cancel(), "the acknowledgement")
                await within(EFFECTIVE_S, session.wait_idle(), "the stop")
            elif cause == "fork":
                handle = await within(ACK_S, session.fork("f"), "the fork")
                await session.cancel()
                await within(EFFECTIVE_S, session.wait_idle(), "the stop")
            if cause != "closed":
                await goes_on(handle, case)
        if cause == "closed":
            again = world.agent(case, form, "interrupt")
            async with case.runtime(again) as rt:
                handle = await rt.get("s")
                await within(EFFECTIVE_S, handle.cancel(), "the stop after the restart")
                await goes_on(handle, case)


async def goes_on(session: Session, case: Case) -> None:
    await session.prompt("next")
    async with asyncio.timeout(120):
        result = await session.result()
        while result.status != "completed" or result.text != "fine":
            await asyncio.sleep(0.01)
            result = await session.result()
    if session.session_id == "s":
        await sound(session)
    case.changes += 1 + len(only(await events_of(session), PrefixChanged))


async def test_a_stop_leaves_no_socket_and_no_thread_behind(tmp_path):
    async with placed(tmp_path, "streaming", "openai") as (world, case):
        agent = world.agent(case, "openai", "enqueue")
        async with case.runtime(agent) as rt:
            session = await rt.session(agent, "s")
            for _ in range(10):
                await session.prompt("go")
                await case.server.arrived(1)
                await session.cancel()
                await session.wait_idle()
            await until(lambda: case.server.in_flight == 0)
        case.changes = 100


async def test_stops_from_another_process_land_too(tmp_path):
    async with placed(tmp_path, "tool", "openai") as (world, case):
        agent = world.agent(case, "openai", "enqueue")
        async with case.runtime(agent) as rt:
            session = await rt.session(agent, "s")
            await reach(world, case, session)
            async with windlass.open(case.place) as other:
                remote = await other.get("s")
                await within(ACK_S, remote.cancel(), "the acknowledgement")
                await within(EFFECTIVE_S, session.wait_idle(), "the stop")
            await goes_on(session, case)
