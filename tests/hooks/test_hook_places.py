"""Where hooks run and what they may answer: nobody waits for a slow one, and nothing they say can hurt the session."""

from __future__ import annotations

import asyncio
import fcntl
import sys
import threading
import time

import pytest
from aiohttp import web

import windlass
from tests.runtime.support import events_of, only, sound
from windlass.events.hooks import HookRuled
from windlass.events.tools.calls import ToolDenied
from windlass.runtime.hooks.external_hooks import CommandHook, HttpHook
from windlass.runtime.hooks.hook import Allowed, Changed, Denied, Hook
from windlass.runtime.hooks.pattern_guard import pattern_guard
from windlass.testing.scripted import ScriptedModel, call


@windlass.tool
def say(text: str = "hello") -> str:
    return text


async def ran(hooks, **args):
    """The events of a run that calls a tool once under some hooks; its log is sound and its session goes on."""
    agent = windlass.Agent("a", model=ScriptedModel([call("say", **args), "done", "more"]), tools=[say], hooks=hooks)
    async with windlass.open(agents=[agent]) as runtime:
        session = await runtime.session(agent, "s")
        async with asyncio.timeout(120):
            async for _ in session.prompt("go"):
                pass
        events = await events_of(session)
        await sound(session)
        return events


def outcomes(events):
    return [event.ruling.outcome for event in only(events, HookRuled)]


@pytest.mark.parametrize("point", ["before_tool", "after_tool", "before_model", "after_model"])
async def test_a_guard_that_waits_too_long_is_timed_out_and_not_blamed_for_the_end_of_its_time(point):
    async def waits(moment):
        await asyncio.sleep(60)

    events = await ran([Hook(point=point, kind="guard", run=waits, timeout_ms=20)])
    rulings = [event.ruling for event in only(events, HookRuled)]
    assert {(ruling.outcome, ruling.reason) for ruling in rulings} == {("timed_out", "timeout")}


async def test_a_plain_function_that_is_slow_holds_up_nobody_and_is_timed_out():
    loop = asyncio.get_running_loop()
    answered: list[bool] = []
    released = threading.Event()

    def slow(moment):
        answer = threading.Event()
        loop.call_soon_threadsafe(answer.set)
        answered.append(answer.wait(60))
        released.wait(60)

    hooks = [Hook(point="before_tool", kind="guard", run=slow, timeout_ms=3_000), Hook(point="run_start", run=slow)]
    events = await ran(hooks)
    released.set()
    assert outcomes(events) == ["timed_out"]
    assert answered == [True, True], "the loop went on while the functions ran"


async def test_an_observer_hears_in_order_and_to_the_end():
    heard: list[int] = []

    def slowly(moment):
        time.sleep(0.002)
        heard.append(moment.value["seq"])

    await ran([Hook(point="session_save", run=slowly)])
    assert len(heard) > 3
    assert heard == sorted(heard)


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), StopIteration(), RecursionError()])
async def test_whatever_a_function_raises_is_a_no_of_its_own(error):
    def broken(moment):
        raise error

    events = await ran([Hook(point="before_tool", kind="guard", run=broken), Hook(point="turn_start", run=broken)])
    assert outcomes(events) == ["failed"]
    assert len(only(events, ToolDenied)) == 1


async def test_an_async_hook_that_wants_to_exit_does_not():
    async def broken(moment):
        raise SystemExit(3)

    events = await ran([Hook(point="before_tool", kind="guard", run=broken), Hook(point="turn_start", run=broken)])
    assert outcomes(events) == ["failed"]


@pytest.mark.parametrize("point", ["prompt", "before_model", "after_model", "before_tool", "after_tool"])
@pytest.mark.parametrize(
    "said",
    [Denied(message=5), Denied(reason="mood"), Denied(fatal="yes"), Allowed(message=5)],  # type: ignore[arg-type]
)
async def test_a_ruling_that_no_log_could_hold_is_a_no_of_its_own(point, said):
    events = await ran([Hook(point=point, kind="guard", run=lambda moment: said)])
    assert outcomes(events)[0] == "failed"


@pytest.mark.parametrize("point", ["prompt", "before_model", "before_tool", "after_tool"])
@pytest.mark.parametrize("value", [5, None, [1], {1, 2}, object(), "\ud800", {"a": object()}, {"text": None}])
async def test_a_value_that_cannot_stand_there_is_a_no_of_its_own(point, value):
    events = await ran([Hook(point=point, kind="transform", run=lambda moment: Changed(value=value))])
    assert outcomes(events)[0] == "failed" or not only(events, windlass.ToolFinished)
    assert not any(event.ok for event in only(events, windlass.ToolFinished) if point != "after_tool")


async def test_arguments_are_not_replaced_by_a_text():
    events = await ran([Hook(point="before_tool", kind="transform", run=lambda moment: Changed(value="text"))])
    assert outcomes(events) == ["failed"]


async def test_a_program_is_ended_with_all_that_it_started(tmp_path):
    alive = tmp_path / "alive"
    child = f"import fcntl, time; held = open({str(alive)!r}, 'x'); fcntl.flock(held, fcntl.LOCK_EX); time.sleep(200)"
    script = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {child!r}]).wait()"
    for timeout_ms in (400, 2_000, 10_000, 50_000):
        hook = Hook(
            point="before_tool", kind="guard", run=CommandHook(sys.executable, "-c", script), timeout_ms=timeout_ms
        )
        assert outcomes(await ran([hook])) == ["timed_out"]
        if alive.exists():
            break  # on a busy machine it takes a while until the program has started another
    with alive.open("rb") as held:
        await asyncio.wait_for(
            asyncio.to_thread(fcntl.flock, held, fcntl.LOCK_EX), 60
        )  # it is held until the child ends


async def test_a_program_that_answers_without_end_is_stopped_at_the_bound():
    script = "import sys\nwhile True: sys.stdout.write('x' * 65536)"
    hook = Hook(point="before_tool", kind="guard", run=CommandHook(sys.executable, "-c", script), timeout_ms=20_000)
    [ruling] = [event.ruling for event in only(await ran([hook]), HookRuled)]
    assert (ruling.outcome, "more than" in ruling.message) == ("failed", True)


async def test_an_answer_that_comes_in_pieces_is_read_whole():
    async def answer(request):
        await request.read()
        response = web.StreamResponse()
        await response.prepare(request)
        for piece in (b'{"decision":', b' "deny", ', b'"message": "whole"}'):
            await response.write(piece)
            await asyncio.sleep(0.02)
        await response.write_eof()
        return response

    app = web.Application()
    app.router.add_post("/", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        port = runner.addresses[0][1]
        hook = Hook(point="before_tool", kind="guard", run=HttpHook(f"http://127.0.0.1:{port}/"))
        [denied] = only(await ran([hook]), ToolDenied)
        assert denied.detail == "whole"
    finally:
        await runner.cleanup()


@pytest.mark.parametrize(
    ("text", "pattern"),
    [("drop\ntable", r"drop\s+table"), ('rm "/"', 'rm "/"'), ("rm -rf /", "^rm"), ("a\\b", r"a\\b$")],
)
async def test_a_pattern_is_found_in_texts_as_they_are(text, pattern):
    assert len(only(await ran([pattern_guard([pattern])], text=text), ToolDenied)) == 1
    assert only(await ran([pattern_guard([pattern])], text="harmless"), ToolDenied) == []


async def test_the_rulings_on_parallel_calls_have_the_same_order_each_time():
    def ruled(moment):
        time.sleep(0.002 if moment.value["text"] == "first" else 0)
        return Changed(value=moment.value)

    hooks = [Hook(point="before_tool", kind="transform", run=ruled, name=name) for name in ("a", "b")]
    model = ScriptedModel([[call("say", text="first"), call("say", text="second"), call("say", text="third")], "done"])
    agent = windlass.Agent("a", model=model, tools=[say], hooks=hooks)
    async with windlass.open(agents=[agent]) as runtime:
        session = await runtime.session(agent)
        await session.prompt("go")
        await session.result()
        ids = [event.ruling.call_id for event in only(await events_of(session), HookRuled)]
    assert ids == sorted(ids)
    assert len(ids) == 6
