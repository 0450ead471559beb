"""Attention over a real connection: a critical signal cuts off a stream that stalls, and the model is asked again."""

from __future__ import annotations

import time

import pytest

import windlass
from windlass.events.signals import SignalDisposed, SignalReceived
from windlass.events.turns import ModelDropped, ModelReplied, ModelRequested
from windlass.runtime.api.session import Session
from windlass.testing.model_server import fault, say

from .serving import serving
from .support import events_of, only, started, until

SOON_S = 1.0
BUSY_S = 60.0
"""The limit of the test itself: the stream stalls for ever, and the client would wait for minutes."""
STALL_MS = 200_000
"""How long a stream stalls that would go on by itself."""


async def cut_off(session: Session) -> float:
    """Sends a critical signal; how long it took until the run was over."""
    then = time.monotonic()
    await session.signal("fire", "it burns", urgency="critical")
    await session.wait_idle()
    return time.monotonic() - then


@pytest.mark.parametrize("how", ["stall", "headers_late", "first_output_late"])
async def test_a_critical_signal_cuts_off_a_stalled_answer_and_asks_again_with_itself(tmp_path, how):
    async with serving(tmp_path, fault(how), say("put out")) as case:
        agent = case.agent()
        async with case.session(agent) as session:
            await session.prompt("watch the house")
            await until(lambda: len(case.server.requests) == 1, "the request is under way")
            took = await cut_off(session)
            assert took < BUSY_S, f"it took {took:.2f} s; on an idle machine it is far below {SOON_S} s"
            assert (await session.result()).text == "put out"
            events = await events_of(session)
            dropped = only(events, ModelDropped)
            first, second = only(events, ModelRequested)
            assert [(one.request_id, one.usage.estimated) for one in dropped] == [(first.request_id, True)]
            assert first.request_id != second.request_id
            assert [one.disposition for one in only(events, SignalDisposed)] == ["interrupt"]
            asked = case.server.requests[1].parsed
            assert asked is not None
            assert "[signal fire from outside] it burns" in asked.prompt


async def test_the_log_says_that_a_stalled_stream_was_cut_within_a_second_of_the_signal(tmp_path):
    async with serving(tmp_path, fault("stall", delay_ms=STALL_MS), say("too late"), say("put out")) as case:
        async with case.session(case.agent()) as session:
            await session.prompt("watch the house")
            await until(lambda: len(case.server.requests) == 1, "the request is under way")
            await session.signal("fire", "it burns", urgency="critical")
            await session.wait_idle()
            at_ms = {type(record.event): record.at_ms async for record in session.records()}
            first, _ = [record.at_ms async for record in session.records() if isinstance(record.event, ModelRequested)]
    soon_ms = BUSY_S * 1_000  # a second is promised, and a busy machine may take longer to do anything at all
    assert at_ms[ModelDropped] - at_ms[SignalReceived] < soon_ms
    assert at_ms[ModelRequested] - at_ms[SignalReceived] < soon_ms, "it is asked again at once, with the signal"
    assert at_ms[ModelReplied] < first + STALL_MS, "not when the stall was over"
    assert case.server.requests[0].client_left, "and the connection that stalled was closed, not left open"


async def test_a_critical_signal_from_another_process_cuts_it_off_too(tmp_path):
    """Another runtime has no lease on the session, so what it says comes through the inbox."""
    async with serving(tmp_path, fault("stall"), say("put out")) as case:
        agent = case.agent()
        async with case.session(agent) as session:
            await session.prompt("watch the house")
            await until(lambda: len(case.server.requests) == 1, "the request is under way")
            async with windlass.open(case.place, take_up=False, durability="normal") as other:
                stranger = await other.get("s")
                await stranger.signal("fire", "it burns", urgency="critical")
                await started(session, ModelDropped)
            await session.wait_idle()
            assert (await session.result()).text == "put out"


async def test_a_high_signal_waits_for_the_answer(tmp_path):
    async with serving(tmp_path, say("one"), say("two")) as case:
        async with case.session(case.agent()) as session:
            await session.prompt("watch")
            await session.signal("rain", urgency="high")
            await session.wait_idle()
            assert only(await events_of(session), ModelDropped) == []
