"""What a session is busy with: named, dated, and told to whoever waited for it to rest; closing and clearing it."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

import windlass
from windlass.events.sessions import SessionRewound, SessionShutDown
from windlass.events.tools.calls import ToolDelegated, ToolStarted
from windlass.events.tools.permissions import PermissionRequested
from windlass.events.turns import ModelRequested, RetryPlanned
from windlass.runtime.api.open_things import Waiting
from windlass.runtime.api.session import Session
from windlass.testing.scripted import call, fail, hang

from .support import JumpPorts, agent_of, events_of, only, sound, started

MINUTE_MS = 60_000

OPEN_TAB = windlass.external_tool("open_tab", "Opens a tab.", {"type": "object", "properties": {}})


@windlass.tool(contract="pure")
async def gate(number: int = 0) -> str:
    "Waits for ever."
    await asyncio.get_running_loop().create_future()
    return "never"


@windlass.tool
def pay(cents: int) -> str:
    "Pay."
    return "paid"


async def at_of(session: Session, kind: type[Any]) -> int:
    """When the first record of a kind was written."""
    async for record in session.records():
        if isinstance(record.event, kind):
            return record.at_ms
    raise AssertionError(f"no {kind.__name__} yet")


def undated(jobs: Any) -> list[Waiting]:
    return [msgspec.structs.replace(job, since_ms=0, age_ms=0) for job in jobs]


async def test_a_session_at_rest_has_no_jobs():
    agent = agent_of("x")
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        assert await session.waiting() == ()
        await session.wait_idle(0)


async def test_a_request_and_calls_are_named_with_their_ages():
    ports = JumpPorts()
    agent = agent_of([call("gate", number=1), call("gate", number=2)], tools=[gate])
    async with windlass.open(agents=[agent], ports=ports) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go")
        await started(session, ToolStarted, count=2)
        since = await at_of(session, ToolStarted)
        ports.ahead_ms += MINUTE_MS
        jobs = await session.waiting()
        ids = [event.call_id for event in only(await events_of(session), ToolStarted)]
        assert undated(jobs) == [Waiting(kind="tool", open_id=name, tool="gate") for name in ids]
        assert [job.since_ms for job in jobs] == [since, since]
        assert all(MINUTE_MS // 2 < job.age_ms < 2 * MINUTE_MS for job in jobs)
        with pytest.raises(windlass.StillBusy) as caught:
            await session.wait_idle(10)
        assert undated(caught.value.waiting) == undated(jobs)
        told = str(caught.value)
        assert told.startswith("session 's' is still at work after 10 ms: tool 'gate' (")
        assert told.endswith("wait longer, or interrupt it")
        await session.cancel()
        await session.wait_idle(20_000)
        assert await session.waiting() == ()


async def test_a_call_is_as_old_as_its_start_and_not_as_its_request():
    ports = JumpPorts()
    rules = windlass.Policy(rules=(windlass.ask("gate"),))
    agent = agent_of(call("gate"), tools=[gate], policy=rules)
    async with windlass.open(agents=[agent], ports=ports) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go")
        await session.result()
        (asked,) = await session.requests()
        ports.ahead_ms += MINUTE_MS
        await session.approve(asked)
        await started(session, ToolStarted)
        (job,) = await session.waiting()
        assert (job.tool, job.since_ms) == ("gate", await at_of(session, ToolStarted))
        assert job.since_ms > await at_of(session, PermissionRequested) + MINUTE_MS // 2


async def test_a_request_to_a_model_is_named():
    agent = agent_of([hang()])
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go")
        (requested,) = await started(session, ModelRequested)
        (job,) = await session.waiting()
        assert undated([job]) == [Waiting(kind="model", open_id=requested.request_id, model=requested.model)]
        assert job.since_ms == await at_of(session, ModelRequested)


async def test_what_people_and_clients_owe_is_named_also_from_another_process(tmp_path):
    store = str(tmp_path / "work.db")
    rules = windlass.Policy(rules=(windlass.ask("pay"), windlass.allow("open_tab")))
    agent = agent_of([call("pay", cents=5), call("open_tab")], tools=[pay, OPEN_TAB], policy=rules)
    async with windlass.open(store, agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go")
        assert (await session.result()).status == "asked"
        (asked,) = only(await events_of(session), PermissionRequested)
        (given,) = only(await events_of(session), ToolDelegated)
        wanted = [
            Waiting(kind="client", open_id=given.call_id, tool="open_tab"),
            Waiting(kind="permission", open_id=asked.request_id, tool="pay"),
        ]
        assert undated(await session.waiting()) == wanted
        async with windlass.open(store) as other:
            assert undated(await (await other.get("s")).waiting()) == wanted
            await (await other.get("s")).wait_idle(0)


async def test_a_wait_before_the_next_attempt_is_named():
    agent = agent_of(fail("overloaded", retry_after_ms=20_000), "x")
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go")
        await started(session, RetryPlanned)
        (job,) = await session.waiting()
        assert (job.kind, job.since_ms) == ("timer", await at_of(session, RetryPlanned))
        with pytest.raises(windlass.StillBusy, match="timer"):
            await session.wait_idle(1)


async def test_many_jobs_are_told_in_short():
    agent = agent_of([call("gate", number=number) for number in range(14)], tools=[gate])
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go")
        await started(session, ToolStarted)
        with pytest.raises(windlass.StillBusy) as caught:
            await session.wait_idle(1)
        assert len(caught.value.waiting) == 14
        assert ", 4 more; wait longer" in str(caught.value)


async def test_close_and_clear_are_safe_twice_and_the_session_goes_on():
    agent = agent_of("one", "two")
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("a")
        await session.result()
        await session.clear()
        await session.clear()
        rewound = [(e.items_before, e.items_after) for e in only(await events_of(session), SessionRewound)]
        assert rewound == [(2, 0), (0, 0)]
        await session.close("done for today")
        await session.close()
        assert only(await events_of(session), SessionShutDown) == [SessionShutDown(reason="done for today")]
        await session.prompt("b")
        assert (await session.result()).text == "two"
        await sound(session)
