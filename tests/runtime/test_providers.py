"""The run's side of the provider fault matrix: what a run makes of each fault that a real server produces."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import windlass
from windlass.events.budgets import BudgetStopped
from windlass.events.context import CompactionFinished, ContextElided, ContextTruncated
from windlass.events.runs import RunSlept, RunStarted
from windlass.events.tools.calls import ToolDenied, ToolFinished
from windlass.events.turns import ModelFailed, ModelReplied, ModelRequested, RetryPlanned
from windlass.events.values.blocks import Text
from windlass.events.values.usage import Price
from windlass.testing.model_server import call, calls, fault, say

from .serving import FORMATS, serving
from .support import QUICK, JumpPorts, events_of, only, started

DONE: list[dict[str, Any]] = []


@windlass.tool(contract="pure")
def add(x: int, y: int) -> int:
    "Add two numbers."
    DONE.append({"x": x, "y": y})
    return x + y


@windlass.tool
def wipe() -> str:
    "Wipe everything."
    DONE.append({"wiped": True})
    return "wiped"


@pytest.fixture(autouse=True)
def nothing_done():
    DONE.clear()


SUM = call("add", {"x": 1, "y": 2})

RETRIED = [
    "429_ms", "429_none", "429_negative", "429_garbage", "500", "502", "503", "504", "529", "truncated", "closed",
    "reset", "reset_at_once", "cut_in_utf8", "cut_in_json", "no_end_marker", "error_event", "error_event_overloaded",
    "error_event_rate_limited", "headers_late", "first_output_late", "stall", "html_error", "empty_reply",
]  # fmt: skip
"""Faults after which the same request is made again and answered."""


@pytest.mark.parametrize("where", ["first", "after_tools"])
@pytest.mark.parametrize("name", RETRIED)
async def test_a_passing_fault_is_retried_and_the_answer_stands_once(tmp_path, name, where):
    async with serving(tmp_path, SUM, say("the sum is three")) as case:
        if where == "first":
            case.server.inject(name)
        else:
            case.server.script._entries.insert(1, fault(name))  # type: ignore[union-attr]
        fault_at = 0 if where == "first" else 1
        late = name in ("headers_late", "first_output_late", "stall")
        agent = case.agent(tools=[add], hurries=lambda request: late and len(case.server.requests) == fault_at)
        async with case.session(agent) as session:
            shown: list[str] = []
            current = ""
            async for event in session.prompt("1 + 2?"):
                if isinstance(event, windlass.TextDelta):
                    if event.request_id != current:
                        shown, current = [], event.request_id
                    shown.append(event.text)
            result = await session.result()
            assert (result.status, result.text) == ("completed", "the sum is three")
            assert "".join(shown) == "the sum is three"
            assert DONE == [{"x": 1, "y": 2}]
            events = await events_of(session)
            failed = len(only(events, ModelFailed))
            assert failed >= 1 if late else failed == 1  # a hurried request may be over before the server has seen it
            assert len(only(events, ModelReplied)) == 2
            assert len(case.server.requests) == 3


@pytest.mark.parametrize("form", FORMATS)
async def test_a_tool_run_with_a_retry_in_every_wire_format(tmp_path, form):
    async with serving(
        tmp_path, SUM, fault("503"), calls(("add", {"x": 2, "y": 2}), ("add", {"x": 3, "y": 3})), say("ok")
    ) as case:
        async with case.session(case.agent(form, tools=[add])) as session:
            await session.prompt("sums")
            assert (await session.result()).text == "ok"
            assert len(DONE) == 3


@pytest.mark.parametrize("name", ["429_seconds", "429_date", "503_retry_after", "429_in_body"])
async def test_a_servers_hint_wins_over_the_computed_wait(tmp_path, name):
    form = "gemini" if name == "429_in_body" else "openai"
    async with serving(tmp_path, say("x")) as case:
        case.server.inject(name)
        async with case.session(case.agent(form)) as session:  # type: ignore[arg-type]
            await session.prompt("go")
            (planned,) = await started(session, RetryPlanned)
            assert planned.plan.hint_ms is not None
            assert planned.plan.hint_ms >= 900
            assert planned.plan.chosen_ms >= planned.plan.hint_ms
            await session.wake()
            assert (await session.result()).text == "x"


@pytest.mark.parametrize("name", ["429_hour", "429_day"])
async def test_a_wait_over_a_minute_ends_the_run_sleeping_and_a_later_process_goes_on(tmp_path, name):
    ports = JumpPorts()
    async with serving(tmp_path, SUM, say("three")) as case:
        async with case.session(case.agent(tools=[add])) as session:
            case.server.script._entries.insert(1, fault(name))  # type: ignore[union-attr]
            await session.prompt("go")
            result = await session.result()
            assert (result.status, result.stop) == ("sleeping", "awaiting_time")
            assert result.failure is not None
            assert result.failure.kind == "rate_limited"
        ports.ahead_ms = 25 * 3_600_000
        async with case.session(case.agent(tools=[add]), ports=ports) as session:
            await started(session, RunStarted, count=2)
            assert (await session.result()).text == "three"
            assert DONE == [{"x": 1, "y": 2}]
            assert len(case.server.requests) == 3


async def test_a_sleeping_run_is_woken_by_hand(tmp_path):
    async with serving(tmp_path, fault("429_hour"), say("back")) as case, case.session(case.agent()) as session:
        await session.prompt("go")
        assert (await session.result()).status == "sleeping"
        await session.wake()
        assert (await session.result()).text == "back"


async def test_a_provider_that_stays_away_ends_the_run_after_six_attempts_and_a_wake_tries_again(tmp_path):
    async with serving(tmp_path, SUM, *[fault("500")] * 6, say("three")) as case:
        async with case.session(case.agent(tools=[add])) as session:
            await session.prompt("go")
            result = await session.result()
            assert (result.status, result.stop) == ("failed", "retries_exhausted")
            assert len(case.server.requests) == 7
            await session.wake()
            result = await session.result()
            assert (result.status, result.text) == ("completed", "three")
            assert len(DONE) == 1


async def test_a_refused_connection_is_retried_until_the_port_opens(tmp_path):
    async with serving(tmp_path, say("hello")) as case:
        agent = case.agent()
        await case.server.close_port()
        async with case.session(agent) as session:
            await session.prompt("go")
            await started(session, ModelFailed, count=2)
            await case.server.open_port()
            assert (await session.result()).text == "hello"
            (first, *_) = only(await events_of(session), ModelFailed)
            assert first.failure.kind == "connect_failed"


@pytest.mark.parametrize("name", ["401", "403"])
async def test_a_refused_key_asks_for_credentials_and_goes_on_by_a_wake(tmp_path, name):
    async with serving(tmp_path, SUM, say("three")) as case, case.session(case.agent(tools=[add])) as session:
        case.server.script._entries.insert(1, fault(name))  # type: ignore[union-attr]
        await session.prompt("go")
        result = await session.result()
        if name == "403":
            assert result.status in ("asked", "failed")
        else:
            assert (result.status, result.stop) == ("asked", "awaiting_credentials")
        assert "sk-runtime" not in str(await events_of(session))
        await session.wake()
        assert (await session.result()).text == "three"


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("400", "invalid_request"),
        ("404", "invalid_model"),
        ("402", "quota_exhausted"),
        ("429_quota", "quota_exhausted"),
    ],
)
async def test_what_will_not_pass_is_not_retried(tmp_path, name, kind):
    async with serving(tmp_path, say("later")) as case, case.session(case.agent()) as session:
        case.server.inject(name)
        await session.prompt("go")
        result = await session.result()
        assert result.status == "failed"
        assert result.failure is not None
        assert result.failure.kind == kind
        assert len(case.server.requests) == 1
        await session.prompt("again")
        assert (await session.result()).text == "later"


async def test_an_overflow_makes_room_once_and_goes_on(tmp_path):
    turns = [say(f"answer {n} " + "and more words " * 30) for n in range(8)]
    async with serving(tmp_path, *turns, fault("400_context"), say("a summary"), say("fits now")) as case:
        async with case.session(case.agent()) as session:
            for number in range(8):
                await session.prompt(f"question {number}")
                assert (await session.result()).status == "completed"
            await session.prompt("one too many")
            assert (await session.result()).text == "fits now"
            events = await events_of(session)
            made_room = [*only(events, CompactionFinished), *only(events, ContextTruncated)]
            assert len(made_room) == 1
            assert any(message.text == "one too many" for message in case.server.last.messages)


async def test_an_overflow_that_nothing_helps_against_ends_the_run_and_not_the_session(tmp_path):
    async with serving(tmp_path, fault("400_context"), fault("400_context"), say("shorter")) as case:
        async with case.session(case.agent()) as session:
            await session.prompt("too long")
            result = await session.result()
            assert (result.status, result.stop) == ("failed", "context_overflow")
            assert len(case.server.requests) <= 2
            case.server.script._entries[:] = [say("shorter")]  # type: ignore[index]
            case.server.script._next = 0
            await session.prompt("short")
            assert (await session.result()).text == "shorter"


COMPACTION_FAULTS = [
    "500",
    "400",
    "400_context",
    "truncated",
    "stall",
    "empty_reply",
    "refusal",
    "content_filter",
    "max_tokens",
    "429_hour",
    "401",
    "many_calls",
    "malformed_args",
]


@pytest.mark.parametrize("name", COMPACTION_FAULTS)
async def test_a_summary_that_fails_is_replaced_by_a_cut_and_never_wedges_the_run(tmp_path, name):
    def answer(request):
        if "summary" in str(request.body)[:400].lower() or "Write the summary now" in request.prompt:
            return fault(name)
        return say("answer " + "and more words " * 60)

    async with serving(tmp_path, answer) as case:
        info = {"window_tokens": 2_500, "max_output_tokens": 300}
        agent = case.agent(info=info, hurries=lambda request: name == "stall" and request.lane == "compact")
        async with case.session(agent) as session:
            for number in range(14):
                await session.prompt(f"question {number} " + "with many words " * 20)
                result = await session.result()
                assert (result.status, number) == ("completed", number)
            events = await events_of(session)
            assert only(events, ContextTruncated) or only(events, CompactionFinished) or only(events, ContextElided)
            assert len(case.server.requests) < 14 * 4


@pytest.mark.parametrize(
    "name", ["malformed_args", "args_not_object", "partial_call_as_tool_calls", "length_partial_call"]
)
async def test_a_call_that_cannot_be_read_is_never_run_and_asked_for_again_twice(tmp_path, name):
    broken = [fault(name)] * 3
    async with serving(tmp_path, broken[0], call("wipe", {"all": True}), broken[1], say("sorry")) as case:
        case.server.script._entries[:] = [fault(name), SUM, say("sorry")]  # type: ignore[index]
        async with case.session(case.agent(tools=[add, wipe])) as session:
            await session.prompt("go")
            result = await session.result()
            assert result.status == "completed"
            assert len(DONE) <= 1
            assert len(only(await events_of(session), ToolDenied)) == 1


async def test_calls_that_stay_unreadable_end_the_run_after_two_questions(tmp_path):
    async with serving(tmp_path, SUM, say("fine")) as case, case.session(case.agent(tools=[add])) as session:
        case.server.inject("malformed_args", times=3)
        await session.prompt("go")
        result = await session.result()
        assert (result.status, len(case.server.requests), DONE) == ("failed", 3, [])
        case.server.script._entries[:] = [say("fine")]  # type: ignore[index]
        case.server.script._next = 0
        await session.prompt("and now?")
        assert (await session.result()).text == "fine"


@pytest.mark.parametrize("name", ["unknown_tool", "wrong_case_tool"])
async def test_an_unknown_tool_is_an_error_that_lists_the_known_ones(tmp_path, name):
    async with serving(tmp_path, SUM, say("ok")) as case, case.session(case.agent(tools=[add])) as session:
        case.server.inject(name)
        case.server.say(say("ok"))
        await session.prompt("go")
        assert (await session.result()).status == "completed"
        (denied,) = only(await events_of(session), ToolDenied)
        assert (denied.reason, "add" in denied.detail) == ("unknown_tool", True)


@pytest.mark.parametrize("name", ["duplicate_ids", "empty_ids", "reused_ids", "same_call_twice"])
async def test_ids_are_ours_whatever_the_provider_sends(tmp_path, name):
    two = calls(("add", {"x": 1, "y": 2}), ("add", {"x": 3, "y": 4}))
    async with serving(tmp_path, two, say("ok")) as case, case.session(case.agent(tools=[add])) as session:
        case.server.inject(name)
        case.server.say(say("ok"))
        await session.prompt("go")
        assert (await session.result()).status == "completed"
        assert len(only(await events_of(session), ToolFinished)) >= 2
        await session.prompt("more")
        assert (await session.result()).status == "completed"


async def test_too_many_calls_in_one_reply_are_capped(tmp_path):
    async with serving(tmp_path, SUM, say("ok"), say("ok")) as case, case.session(case.agent(tools=[add])) as session:
        case.server.inject("many_calls")
        await session.prompt("go")
        await session.wait_idle()
        events = await events_of(session)
        assert any(denied.reason == "too_many_calls" for denied in only(events, ToolDenied))
        assert len(only(events, ToolFinished)) <= 64


async def test_empty_replies_are_asked_for_again_and_then_end_the_run(tmp_path):
    async with serving(tmp_path, say("something")) as case, case.session(case.agent()) as session:
        case.server.inject("empty_text", times=20)
        await session.prompt("go")
        result = await session.result()
        assert result.status == "failed"
        assert len(case.server.requests) <= 8
        case.server._faults.clear()
        await session.prompt("again")
        assert (await session.result()).text == "something"


@pytest.mark.parametrize(
    ("name", "status", "stop"),
    [
        ("content_filter", "failed", "content_filtered"),
        ("refusal", "completed", "refused"),
        ("max_tokens", "completed", "max_tokens"),
        ("only_reasoning", "", ""),
    ],
)
async def test_an_answer_that_ends_early_is_typed_kept_and_not_blindly_repeated(tmp_path, name, status, stop):
    async with serving(tmp_path, say("one two three four five six"), say("next")) as case:
        async with case.session(case.agent()) as session:
            case.server.inject(name)
            await session.prompt("go")
            result = await session.result()
            if status:
                assert (result.status, result.stop) == (status, stop)
                assert len(case.server.requests) == 1
            (reply, *_) = only(await events_of(session), ModelReplied)
            assert reply.body is not None
            if name == "max_tokens":
                assert any(isinstance(block, Text) and block.text for block in reply.body.blocks)
            await session.prompt("again")
            assert (await session.result()).status == "completed"


@pytest.mark.parametrize("name", ["usage_missing", "usage_wrong", "usage_negative", "usage_cumulative"])
async def test_usage_is_estimated_where_it_cannot_be_believed(tmp_path, name):
    async with serving(tmp_path, say("word " * 40)) as case, case.session(case.agent()) as session:
        case.server.inject(name)
        await session.prompt("go " * 50)
        result = await session.result()
        assert result.status == "completed"
        assert result.usage.output_tokens >= (1 if name == "usage_wrong" else 20)


async def test_a_money_budget_is_never_passed_and_stops_in_order(tmp_path):
    info = {"price": Price(input=1_000_000, output=1_000_000), "window_tokens": 8_000, "max_output_tokens": 500}
    async with serving(tmp_path, lambda request: call("add", {"x": request.turn, "y": 2})) as case:
        agent = case.agent(info=info, tools=[add], budget=windlass.Budget(usd=0.003), settings=QUICK)
        async with case.session(agent) as session:
            await session.prompt("go on")
            result = await session.result()
            assert result.status == "completed"
            assert result.stop in ("money_budget", "max_turns")
            assert result.cost_usd <= 0.003
            assert only(await events_of(session), BudgetStopped) != []


async def test_the_model_that_answered_is_recorded(tmp_path):
    async with serving(tmp_path, say("x")) as case, case.session(case.agent()) as session:
        case.server.inject("model_switched")
        await session.prompt("go")
        await session.result()
        (reply,) = only(await events_of(session), ModelReplied)
        assert reply.model not in ("", "m")


@pytest.mark.parametrize("size", [2_000_000, 20_000_000])
async def test_a_reply_too_large_to_keep_is_a_failure_and_not_a_stuck_session(tmp_path, size):
    async with serving(tmp_path, say("small")) as case:
        async with case.session(case.agent()) as session:
            case.server.inject("huge_line", size=size)
            await session.prompt("go")
            result = await session.result()
            assert result.status == "failed"
            assert result.failure is not None
            assert result.failure.kind == "reply_too_large"
            await session.prompt("again")
            assert (await session.result()).text == "small"


async def test_one_session_in_back_off_does_not_slow_another(tmp_path):
    def answer(request):
        return fault("429_hour") if "limited" in request.prompt else say("quick")

    async with serving(tmp_path, answer) as case:
        agent = case.agent()
        async with case.runtime(agent) as rt:
            limited, free = await rt.session(agent, "limited"), await rt.session(agent, "free")
            await limited.prompt("limited")
            assert (await limited.result()).status == "sleeping"
            for _ in range(5):
                await free.prompt("go")
                assert (await free.result()).text == "quick"


async def test_a_time_budget_caps_a_long_wait(tmp_path):
    async with serving(tmp_path, fault("429_hour"), say("x")) as case:
        agent = case.agent(budget=windlass.Budget(seconds=0.3))
        async with case.session(agent) as session:
            await session.prompt("go")
            async with asyncio.timeout(120):
                result = await session.result()
            assert result.status == "completed"
            assert only(await events_of(session), RunSlept) == []


async def test_every_failed_attempt_is_in_the_log_before_the_next_is_made(tmp_path):
    async with serving(tmp_path, fault("500"), fault("503"), say("x")) as case, case.session(case.agent()) as session:
        await session.prompt("go")
        await session.result()
        events = [
            e
            for e in await events_of(session)
            if isinstance(e, ModelRequested | ModelFailed | RetryPlanned | ModelReplied)
        ]
        assert [type(event).__name__ for event in events] == [
            "ModelRequested", "ModelFailed", "RetryPlanned", "ModelRequested", "ModelFailed", "RetryPlanned",
            "ModelRequested", "ModelReplied",
        ]  # fmt: skip
        assert [event.attempt for event in only(events, ModelRequested)] == [1, 2, 3]
