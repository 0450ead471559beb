"""Whatever the code of users does to the task it runs in, its session goes on: one call or one request fails, and the
log says why."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest

import windlass
from windlass.events.sessions import NoticeGiven, SessionResumed
from windlass.events.tools.calls import ToolDenied, ToolFinished, ToolOutcomeUnknown, ToolTimedOut
from windlass.events.turns import ModelFailed
from windlass.events.values.blocks import Text
from windlass.events.values.failures import Failure
from windlass.events.values.usage import Usage
from windlass.models.base import Delta, ModelInfo, Reply, Request
from windlass.runtime.api.result import Result
from windlass.runtime.api.session import Session
from windlass.runtime.hooks.hook import Hook, Moment
from windlass.testing.scripted import ScriptedModel, by_history, call, pause, turn
from windlass.tools.planes import loop_watch
from windlass.tools.planes.outcome import Outcome, returned

from .support import QUICK, agent_of, events_of, only, sound, started


async def prompted(session: Session, text: str) -> Result:
    """What came of a prompt."""
    return await session.result(await session.prompt(text))


async def _fails() -> None:
    await asyncio.sleep(0)
    raise ValueError("a child failed")


async def group_caught() -> str:
    """Starts children, of which one fails, and deals with that."""
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(_fails())
    except* ValueError:
        pass
    await asyncio.sleep(0)
    return "dealt with"


async def group_raised() -> str:
    """Starts children, of which one fails."""
    async with asyncio.TaskGroup() as group:
        group.create_task(_fails())
    return "never"


async def cancels_itself() -> str:
    """Cancels its own task and waits for it."""
    me = asyncio.current_task()
    assert me is not None
    me.cancel()
    await asyncio.sleep(10)
    return "never"


async def cancels_itself_and_returns() -> str:
    """Cancels its own task and does not even look."""
    me = asyncio.current_task()
    assert me is not None
    me.cancel()
    return "returned"


async def cancels_itself_later() -> str:
    """Has its task cancelled by a timer of its own."""
    me = asyncio.current_task()
    assert me is not None
    asyncio.get_running_loop().call_later(0.01, me.cancel)
    await asyncio.sleep(10)
    return "never"


ODD: dict[Any, tuple[bool, str]] = {
    group_caught: (True, "dealt with"),
    group_raised: (False, "ExceptionGroup"),
    cancels_itself: (False, "CancelledError"),
    cancels_itself_and_returns: (True, "returned"),
    cancels_itself_later: (False, "CancelledError"),
}


@pytest.mark.guard(60)
@pytest.mark.parametrize("parallel", [False, True], ids=["alone", "beside another"])
@pytest.mark.parametrize("function", ODD, ids=lambda function: function.__name__)
async def test_a_tool_that_cancels_its_own_task_has_a_result_and_the_session_goes_on(
    function: Any, parallel: bool, tmp_path: Any
) -> None:
    runs: list[str] = []

    async def odd() -> str:
        """Does odd things."""
        runs.append("odd")
        return str(await function())

    async def other() -> str:
        """Does nothing odd."""
        await asyncio.sleep(0.05)
        return "other"

    first = turn(call("odd"), call("other")) if parallel else call("odd")
    tools = [windlass.tool(timeout_ms=5_000)(odd), windlass.tool(other)]
    # Models that pause and a store on a disk: what was asked of the task too late is not left for whoever awaits next.
    agent = agent_of(first, [pause(1), "the end"], [pause(1), "still here"], tools=tools)
    async with windlass.open(f"sqlite:{tmp_path / 'a.db'}", agents=[agent]) as runtime:
        session = await runtime.session(agent, "s")
        result = await prompted(session, "go")
        assert result.text == "the end"
        assert (await prompted(session, "again")).text == "still here"
        events = await events_of(session)
        found = only(events, ToolFinished)[0]
        ok, told = ODD[function]
        assert found.ok is ok
        assert told in str(found.body)
        assert runs == ["odd"]
        assert only(events, SessionResumed) == [], "and the driver lived on"
        await sound(session)


class OddModel:
    """A model whose adapter cancels the task that it is asked in, the first time that it is asked."""

    info = ModelInfo(name="odd", provider="odd", model="odd", why="given in code")

    def __init__(self, function: Any) -> None:
        self._function = function
        self.asked = 0

    async def stream(self, request: Request) -> AsyncIterator[Delta | list[Delta] | Reply | Failure]:
        self.asked += 1
        if self.asked == 1:
            await self._function()
        yield Reply(blocks=(Text(text="an answer"),), finish="stop", usage=Usage(), model="odd", provider="odd")

    async def close(self) -> None:
        return


@pytest.mark.guard(60)
@pytest.mark.parametrize("function", ODD, ids=lambda function: function.__name__)
async def test_a_model_that_cancels_its_own_task_fails_its_run_at_most_and_the_session_goes_on(function: Any) -> None:
    agent = windlass.Agent("worker", model=OddModel(function), settings=QUICK)
    async with windlass.open(":memory:", agents=[agent]) as runtime:
        session = await runtime.session(agent, "s")
        result = await prompted(session, "go")
        failures = only(await events_of(session), ModelFailed)
        assert result.status == ("completed" if ODD[function][0] else "failed")
        assert ["cancelled the task" in str(found) or "ExceptionGroup" in str(found) for found in failures] == (
            [] if ODD[function][0] else [True]
        )
        assert (await prompted(session, "again")).text == "an answer"
        assert only(await events_of(session), SessionResumed) == [], "and the driver lived on"
        await sound(session)


@pytest.mark.guard(60)
@pytest.mark.parametrize("function", ODD, ids=lambda function: function.__name__)
async def test_an_approver_that_cancels_its_own_task_leaves_the_request_open(function: Any) -> None:
    async def approver(asked: Any) -> bool:
        await function()
        return True

    async def plain() -> str:
        """Does nothing odd."""
        return "plain"

    policy = windlass.Policy(rules=(windlass.ask("plain"),))
    agent = agent_of(call("plain"), "the end", tools=[windlass.tool(plain)], policy=policy)
    async with windlass.open(":memory:", agents=[agent], approver=approver) as runtime:
        session = await runtime.session(agent, "s")
        result = await prompted(session, "go")
        if ODD[function][0]:
            assert result.text == "the end"
            return
        assert result.status == "asked"
        assert "the approver raised" in only(await events_of(session), NoticeGiven)[0].message
        await session.approve((await session.requests())[0])
        assert (await session.result()).text == "the end"
        await sound(session)


@pytest.mark.guard(60)
@pytest.mark.parametrize("point", ["before_model", "after_model", "before_tool", "after_tool"])
@pytest.mark.parametrize("function", ODD, ids=lambda function: function.__name__)
async def test_a_guard_that_cancels_its_own_task_denies_and_the_session_goes_on(function: Any, point: Any) -> None:
    met: list[str] = []

    async def guard(moment: Moment) -> None:
        met.append(moment.point)
        if len(met) == 1:
            await function()

    async def plain() -> str:
        """Does nothing odd."""
        return "plain"

    hooks = [Hook(point=point, run=guard, kind="guard")]
    answers = by_history([call("plain"), "the end", "still here"])
    agent = windlass.Agent(
        "worker", model=ScriptedModel(answers), settings=QUICK, tools=[windlass.tool(plain)], hooks=hooks
    )
    async with windlass.open(":memory:", agents=[agent]) as runtime:
        session = await runtime.session(agent, "s")
        assert (await prompted(session, "go")).status in ("completed", "failed")
        assert (await prompted(session, "again")).status == "completed"
        await sound(session)


class OddPlane:
    """A plane that breaks in whatever way it is told to."""

    def __init__(self, function: Any) -> None:
        self._function = function

    async def open(self, session: str) -> OddPlane:
        return self

    async def run(self, tool: Any, call: Any, context: Any) -> Outcome:
        await self._function()
        return returned("ran")

    async def close(self) -> None:
        return


async def raises() -> None:
    """Raises what no plane may raise."""
    raise ValueError("a bug of the plane")


@pytest.mark.guard(60)
@pytest.mark.parametrize("function", [*ODD, raises], ids=lambda function: function.__name__)
async def test_a_plane_that_breaks_fails_its_call_and_the_session_goes_on(function: Any) -> None:
    async def plain() -> str:
        """Does nothing odd."""
        return "plain"

    agent = agent_of(call("plain"), "the end", tools=[windlass.tool(plane="odd")(plain)])
    async with windlass.open(":memory:", agents=[agent], planes={"odd": OddPlane(function)}) as runtime:
        session = await runtime.session(agent, "s")
        assert (await prompted(session, "go")).text == "the end"
        (found,) = only(await events_of(session), ToolFinished)
        assert found.ok is ODD.get(function, (False,))[0]
        await sound(session)


@pytest.mark.guard(60)
async def test_a_tool_that_is_stopped_from_outside_ends_also_after_its_own_children_failed() -> None:
    waits = asyncio.Event()

    async def odd() -> str:
        """Has a child that fails, then waits for ever."""
        await group_caught()
        waits.set()
        await asyncio.sleep(1_000)
        return "never"

    agent = agent_of(call("odd"), "still here", tools=[windlass.tool(odd)])
    async with windlass.open(":memory:", agents=[agent]) as runtime:
        session = await runtime.session(agent, "s")
        running = asyncio.ensure_future(prompted(session, "go"))
        await waits.wait()
        await session.interrupt()
        assert (await running).status == "interrupted"
        assert (await prompted(session, "again")).text == "still here"
        await sound(session)


@pytest.mark.guard(60)
async def test_a_tool_is_timed_out_also_after_its_own_children_failed() -> None:
    @windlass.tool(timeout_ms=300)
    async def odd() -> str:
        """Has a child that fails, then waits for ever."""
        await group_caught()
        await asyncio.Event().wait()
        return "never"

    agent = agent_of(call("odd"), "the end", "still here", tools=[odd])
    async with windlass.open(":memory:", agents=[agent]) as runtime:
        session = await runtime.session(agent, "s")
        assert (await prompted(session, "go")).text == "the end"
        assert [event.timeout_ms for event in only(await events_of(session), ToolTimedOut)] == [300]
        assert (await prompted(session, "again")).text == "still here"
        await sound(session)


@pytest.mark.guard(60)
async def test_the_end_of_the_loop_is_not_taken_for_the_doing_of_a_tool(tmp_path: Any) -> None:
    """Whoever forgets to close a runtime cuts its tools off: what they did is not known, and nothing else is said."""
    store = f"sqlite:{tmp_path / 'a.db'}"
    waits = asyncio.Event()

    async def odd() -> str:
        """Waits."""
        waits.set()
        await asyncio.sleep(1_000)
        return "never"

    agent = agent_of(call("odd"), "the end", tools=[windlass.tool(odd)])

    async def forgets() -> None:
        runtime = windlass.open(store, agents=[agent])
        await runtime.__aenter__()
        session = await runtime.session(agent, "s")
        await session.prompt("go")
        await waits.wait()

    await asyncio.to_thread(asyncio.run, forgets())
    again = agent_of("the end", tools=[windlass.tool(odd)])
    async with windlass.open(store, agents=[again]) as runtime:
        session = await runtime.session(again, "s")
        assert (await session.result()).text == "the end"
        events = await events_of(session)
        assert only(events, ToolFinished) == []
        assert len(only(events, ToolOutcomeUnknown)) == 1


@pytest.mark.guard(60)
async def test_a_check_that_raises_denies_its_call_and_the_session_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    async def plain() -> str:
        """Does nothing odd."""
        return "plain"

    def check(args: Any) -> Any:
        raise ZeroDivisionError("a bug of the author's")

    made = windlass.tool(plain)
    monkeypatch.setattr(type(made), "check", lambda self, args: check(args))
    agent = agent_of(call("plain"), "the end", tools=[made])
    async with windlass.open(":memory:", agents=[agent]) as runtime:
        session = await runtime.session(agent, "s")
        assert (await prompted(session, "go")).text == "the end"
        (denied,) = only(await events_of(session), ToolDenied)
        assert "ZeroDivisionError" in denied.detail
        await sound(session)


@pytest.mark.guard(60)
async def test_an_async_tool_that_holds_up_the_loop_is_named_in_the_log_and_by_logging(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop_watch, "LOOK_S", 0.02)
    told = threading.Event()

    class Heard(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            told.set()

    async def blocks() -> str:
        """Blocks until somebody has noticed: the loop cannot."""
        return "noticed" if told.wait(60) else "nobody noticed"

    async def awaits() -> str:
        """Takes as long, and holds nobody up."""
        await asyncio.sleep(0.3)
        return "awaited"

    agent = agent_of(call("awaits"), call("blocks"), "the end", tools=[windlass.tool(blocks), windlass.tool(awaits)])
    handler = Heard()
    loop_watch.logger.addHandler(handler)
    try:
        async with windlass.open(":memory:", agents=[agent]) as runtime:
            session = await runtime.session(agent, "s")
            assert (await prompted(session, "go")).text == "the end"
            (notice,) = await started(session, NoticeGiven)
            events = await events_of(session)
            assert "noticed" in str(only(events, ToolFinished)[1].body)
            assert notice.code == "loop_blocked"
            assert "'blocks' holds up the event loop" in notice.message
            assert notice.call_id == only(events, ToolFinished)[1].call_id
    finally:
        loop_watch.logger.removeHandler(handler)
    assert "session s, call" in caplog.text
