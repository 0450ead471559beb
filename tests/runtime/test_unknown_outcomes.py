"""A call that may run once and was running when it was stopped has an unknown outcome, however it was stopped: a person
is asked what became of it, or the model is told that nobody knows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

import windlass
from windlass.events.tools.calls import ToolCancelled, ToolOutcomeUnknown, ToolTimedOut
from windlass.events.values.items import ResultItem
from windlass.runtime.api.session import Session
from windlass.testing.scripted import ScriptedModel, by_history, call

from .support import QUICK, events_of, only, sound, until

Stop = Callable[[Session], Awaitable[Any]]


async def interrupt(session: Session) -> None:
    await session.interrupt()


async def cancel(session: Session) -> None:
    await session.cancel()


async def unmount(session: Session) -> None:
    await session.unmount("pay", force=True)


STOPS: list[Stop] = [interrupt, cancel]


@asynccontextmanager
async def paying(settle: bool, *, timeout_ms: int = 60_000) -> AsyncIterator[tuple[Session, list[str], ScriptedModel]]:
    """A session in the middle of a payment."""
    keys: list[str] = []

    @windlass.tool(settle=settle, timeout_ms=timeout_ms)
    async def pay(ctx: windlass.ToolContext) -> str:
        """Pays."""
        keys.append(ctx.idempotency_key)
        await asyncio.sleep(1_000)
        return "never"

    model = ScriptedModel(by_history([call("pay"), "I see", "and more"]))
    agent = windlass.Agent("clerk", model=model, tools=[pay], settings=QUICK)
    async with windlass.open(":memory:", agents=[agent], poll_ms=10) as runtime:
        session = await runtime.session(agent, "s")
        await session.prompt("pay")
        await until(lambda: keys)
        yield session, keys, model


@pytest.mark.guard(30)
@pytest.mark.parametrize("stop", STOPS, ids=lambda stop: stop.__name__)
async def test_a_person_is_asked_what_became_of_a_payment_that_was_stopped(stop: Stop) -> None:
    async with paying(settle=True) as (session, keys, model):
        await stop(session)
        result = await session.result()
        assert (result.status, len(result.waiting_for)) == ("asked", 1)
        events = await events_of(session)
        assert only(events, ToolCancelled) == []
        (unknown,) = only(events, ToolOutcomeUnknown)
        await session.settle(unknown.call_id, "happened", "paid 5 cents")
        assert (await session.result()).text == "I see"
        told = [item for item in model.requests[-1].items if isinstance(item, ResultItem)]
        assert "paid 5 cents" in str(told)
        assert len(keys) == 1
        await sound(session)


@pytest.mark.guard(30)
@pytest.mark.parametrize("stop", STOPS, ids=lambda stop: stop.__name__)
async def test_the_model_is_told_that_nobody_knows_what_became_of_a_payment(stop: Stop) -> None:
    async with paying(settle=False) as (session, keys, model):
        await stop(session)
        assert (await session.result()).status in ("interrupted", "cancelled")
        events = await events_of(session)
        assert (len(only(events, ToolOutcomeUnknown)), only(events, ToolCancelled)) == (1, [])
        await session.prompt("what now?")
        assert (await session.result()).text == "I see"
        (told,) = [item for item in model.requests[-1].items if isinstance(item, ResultItem)]
        assert "unknown" in str(told)
        assert len(keys) == 1
        await sound(session)


@pytest.mark.guard(30)
async def test_who_stops_a_payment_twice_does_not_want_to_be_asked() -> None:
    async with paying(settle=True) as (session, _, _):
        await session.interrupt()
        assert (await session.result()).status == "asked"
        await session.cancel()
        assert (await session.result()).status == "cancelled"
        await session.prompt("what now?")
        assert (await session.result()).text == "I see"
        await sound(session)


@pytest.mark.guard(30)
async def test_a_prompt_that_takes_the_place_of_a_payment_waits_until_that_is_settled() -> None:
    async with paying(settle=True) as (session, keys, _):
        await session.interrupt()
        assert (await session.result()).status == "asked"
        await session.prompt("what now?")
        (unknown,) = only(await events_of(session), ToolOutcomeUnknown)
        await session.settle(unknown.call_id, "did_not_happen")
        await session.wait_idle()
        assert len(keys) == 1
        await sound(session)


@pytest.mark.guard(30)
@pytest.mark.parametrize("settle", [True, False])
async def test_a_payment_that_takes_too_long_goes_the_same_way(settle: bool) -> None:
    async with paying(settle=settle, timeout_ms=50) as (session, keys, model):
        result = await session.result()
        (late,) = only(await events_of(session), ToolTimedOut)
        assert (late.settle, result.status) == (settle, "asked" if settle else "completed")
        if settle:
            await session.settle(late.call_id, "did_not_happen")
            result = await session.result()
        assert result.text == "I see"
        (told,) = [item for item in model.requests[-1].items if isinstance(item, ResultItem)]
        assert ("did not happen" in str(told)) if settle else ("may have had effects" in str(told))
        assert len(keys) == 1
        await sound(session)


@pytest.mark.guard(30)
async def test_a_payment_whose_tool_is_taken_away_has_an_unknown_outcome() -> None:
    async with paying(settle=False) as (session, _, _):
        await unmount(session)
        assert (await session.result()).text == "I see"
        events = await events_of(session)
        assert (len(only(events, ToolOutcomeUnknown)), only(events, ToolCancelled)) == (1, [])
        await sound(session)


@pytest.mark.guard(30)
@pytest.mark.parametrize("stop", STOPS, ids=lambda stop: stop.__name__)
async def test_a_person_is_asked_what_became_of_a_payment_that_a_client_was_making(stop: Stop) -> None:
    begun: list[str] = []
    cut_off = asyncio.Event()

    @windlass.tool
    async def pay() -> str:
        """Pays."""
        begun.append("pay")
        try:
            await asyncio.sleep(1_000)
        finally:
            cut_off.set()
        return "never"

    nothing = {"type": "object", "properties": {}, "additionalProperties": False}
    told = windlass.external_tool("pay", "Pays.", nothing, settle=True)
    model = ScriptedModel(by_history([call("pay"), "I see", "and more"]))
    agent = windlass.Agent("clerk", model=model, tools=[told], settings=QUICK)
    async with windlass.open(":memory:", agents=[agent], poll_ms=10) as runtime:
        session = await runtime.session(agent, "s")
        async with session.serve(pay):
            await session.prompt("pay")
            await until(lambda: begun)
            await stop(session)
            result = await session.result()
            await cut_off.wait()
        assert (result.status, len(result.waiting_for)) == ("asked", 1)
        events = await events_of(session)
        assert only(events, ToolCancelled) == []
        (unknown,) = only(events, ToolOutcomeUnknown)
        await session.settle(unknown.call_id, "happened", "paid 5 cents")
        assert (await session.result()).text == "I see"
        assert begun == ["pay"]
        await sound(session)
