"""Opening and closing a runtime, also where that goes wrong: nothing is left open, and the message says what to do."""

from __future__ import annotations

import asyncio
import os
import threading

import pytest

import windlass
from windlass.runtime.hooks.hook import Denied, Hook
from windlass.testing.scripted import Pause, ScriptedModel

from .support import agent_of, until


async def test_a_store_may_be_named_by_a_path(tmp_path):
    place = tmp_path / "s.db"
    assert (await agent_of("hi").run("x", store=place, session="s")).text == "hi"
    async with windlass.open(place) as runtime:
        assert [row.session for row in await runtime.sessions()] == ["s"]


async def test_a_start_that_fails_leaves_nothing_open(tmp_path):
    twins = [agent_of("hi"), agent_of("ho")]
    await agent_of("hi").run("x", store=tmp_path / "s.db")
    await asyncio.sleep(0)
    files, threads = _files(tmp_path), _writers()
    for _ in range(3):
        with pytest.raises(windlass.UsageError, match="another agent"):
            async with windlass.open(tmp_path / "s.db", agents=twins):
                pass
    assert _files(tmp_path) == files
    await until(lambda: _writers() <= threads, "the threads to end")


async def test_a_runtime_that_is_not_open_says_how_to_open_it(tmp_path):
    runtime = windlass.open(tmp_path / "s.db")
    with pytest.raises(windlass.UsageError, match="async with"):
        await runtime.session(agent_of("hi"))
    await runtime.close()
    with pytest.raises(windlass.UsageError, match="started once"):
        await runtime.start()


async def test_a_model_that_cannot_be_closed_does_not_keep_the_store_open(tmp_path, monkeypatch):
    class Clinging(ScriptedModel):
        async def close(self):
            raise RuntimeError("not now")

    monkeypatch.setattr("windlass.models.catalogue.names.open_model", lambda name: Clinging(["hi"]))
    before = _files(tmp_path)
    with pytest.raises(RuntimeError, match="not now"):
        async with windlass.open(tmp_path / "s.db", agents=[windlass.Agent("a", model="some/model")]):
            assert _files(tmp_path) > before
    assert _files(tmp_path) == before


@pytest.mark.parametrize("steps", [1, 2, 3, 5, 8])
async def test_an_opening_that_is_cancelled_leaves_nothing_open(tmp_path, steps):
    threads = _writers()
    opening = asyncio.create_task(windlass.open(tmp_path / "s.db", agents=[agent_of("hi")]).start())
    for _ in range(steps):
        await asyncio.sleep(0)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    assert _files(tmp_path) == 0
    await until(lambda: _writers() <= threads, "the thread to end")


async def test_a_closing_that_is_cancelled_closes_everything_first(tmp_path, monkeypatch):
    closing, may_close = asyncio.Event(), asyncio.Event()

    class Slow(ScriptedModel):
        async def close(self):
            closing.set()
            await may_close.wait()

    monkeypatch.setattr("windlass.models.catalogue.names.open_model", lambda name: Slow([[Pause()]]))
    agent = windlass.Agent("a", model="some/model")
    runtime = await windlass.open(tmp_path / "s.db", agents=[agent]).start()
    await (await runtime.session(agent, "s")).prompt("go")
    tasks = [asyncio.create_task(runtime.close()) for _ in range(2)]
    await closing.wait()
    tasks[0].cancel()
    await asyncio.sleep(0)
    may_close.set()
    assert [type(said) for said in await asyncio.gather(*tasks, return_exceptions=True)] == [
        asyncio.CancelledError,
        type(None),
    ]
    assert _files(tmp_path) == 0
    async with windlass.open(tmp_path / "s.db", agents=[agent]) as again:
        assert [slot.key.session for slot in again.slots.driven] == ["s"], "its lease was given back"


async def test_whoever_waits_for_a_result_learns_that_the_runtime_was_closed(tmp_path):
    model = ScriptedModel([[Pause(), "never"]])
    agent = windlass.Agent("a", model=model)
    runtime = await windlass.open(tmp_path / "s.db", agents=[agent]).start()
    session = await runtime.session(agent)
    await session.prompt("x")
    waiting = asyncio.create_task(session.result())
    await until(lambda: model.requests, "the request")
    await runtime.close()
    with pytest.raises(windlass.UsageError, match="closed"):
        await waiting


async def test_whoever_follows_a_prompt_learns_that_the_runtime_was_closed():
    model = ScriptedModel([["part", Pause()]])
    agent = windlass.Agent("a", model=model)
    runtime = await windlass.open(agents=[agent]).start()
    session = await runtime.session(agent)
    heard = []

    async def follow():
        async for event in session.prompt("x"):
            heard.append(event)

    following = asyncio.create_task(follow())
    await until(lambda: any(isinstance(event, windlass.TextDelta) for event in heard), "the text")
    await runtime.close()
    with pytest.raises(windlass.UsageError, match="was closed while session"):
        await following


async def test_an_agent_that_is_made_again_is_the_same_agent():
    model = ScriptedModel(["one", "two"])

    def made(**more):
        return windlass.Agent("a", model=model, instructions="Be brief.", **more)

    async with windlass.open(agents=[made()]) as runtime:
        session = await runtime.session(made())
        await session.prompt("x")
        assert (await session.result()).text == "one"
        for other in ({"knowledge": ["more"]}, {"hooks": [Hook(point="run_end", run=print)]}):
            with pytest.raises(windlass.UsageError, match="another agent"):
                runtime.bind(made(**other))


async def test_a_prompt_that_a_hook_denied_is_an_error_and_not_the_answer_before(tmp_path):
    def no_secrets(moment):
        return Denied(message="no secrets") if "secret" in moment.value else None

    agent = agent_of("first", "second", hooks=[Hook(point="prompt", kind="guard", run=no_secrets)])
    assert (await agent.run("hello", store=tmp_path / "s.db", session="s")).text == "first"
    with pytest.raises(windlass.Refused, match="denied by a hook: no secrets"):
        await agent.run("my secret", store=tmp_path / "s.db", session="s")
    assert (await agent.run("hello again", store=tmp_path / "s.db", session="s")).text == "second"


def _files(folder):
    """How many files in a folder this process has open."""
    found = 0
    for name in os.listdir("/proc/self/fd"):
        try:
            found += os.readlink(f"/proc/self/fd/{name}").startswith(str(folder))
        except OSError:
            continue
    return found


def _writers():
    return sum(thread.name.startswith("windlass") for thread in threading.enumerate())
