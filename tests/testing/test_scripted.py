"""What a scripted model promises: exact answers in order, no network, a clear end."""

from __future__ import annotations

import asyncio

import pytest

import windlass
from windlass.events.errors import UsageError
from windlass.events.values.blocks import CallSlot, Reasoning, Refusal, Text
from windlass.events.values.failures import Failure
from windlass.events.values.items import AssistantItem, ProposedCall, ResultItem, UserItem
from windlass.events.values.usage import Usage
from windlass.models.base import CallPartDelta, Model, ReasoningPart, RefusalPart, Reply, Request, TextPart
from windlass.testing import scripted
from windlass.testing.scripted import (
    SCRIPTED_USAGE,
    ScriptedModel,
    by_history,
    call,
    call_malformed,
    call_text,
    fail,
    hang,
    pause,
    think,
    turn,
)


def said(text: str = "hello") -> Request:
    return Request(model="scripted", items=[UserItem(content=(Text(text=text),))])


async def ask(model: ScriptedModel, request: Request | None = None) -> list[object]:
    return [piece async for piece in model.stream(request or said())]


def answer(*blocks, calls=(), finish="stop", number=1, usage=SCRIPTED_USAGE) -> Reply:
    return Reply(
        blocks=blocks,
        calls=calls,
        finish=finish,
        usage=usage,
        model="scripted",
        provider="scripted",
        request_id=f"req_{number}",
    )


async def test_text_becomes_one_delta_and_one_reply():
    model = ScriptedModel(["hello there"])
    assert isinstance(model, Model)
    assert await ask(model) == [TextPart(text="hello there"), answer(Text(text="hello there"))]


async def test_parts_side_by_side_are_deltas_of_one_block():
    pieces = await ask(ScriptedModel([["hel", "lo"]]))
    assert pieces == [TextPart(text="hel"), TextPart(text="lo"), answer(Text(text="hello"))]


async def test_calls_keep_their_place_among_the_text():
    pieces = await ask(ScriptedModel([[think("sum"), "adding", call("add", x=1, y=2), call_text("patch", "*** x")]]))
    assert pieces == [
        ReasoningPart(text="sum"),
        TextPart(text="adding"),
        CallPartDelta(ordinal=0, tool="add"),
        CallPartDelta(ordinal=0, fragment='{"x":1,"y":2}'),
        CallPartDelta(ordinal=1, tool="patch"),
        CallPartDelta(ordinal=1, fragment="*** x"),
        answer(
            Reasoning(text="sum"),
            Text(text="adding"),
            CallSlot(ordinal=0),
            CallSlot(ordinal=1),
            calls=(
                ProposedCall(ordinal=0, tool="add", args={"x": 1, "y": 2}, provider_call_id="call_1_0"),
                ProposedCall(ordinal=1, tool="patch", text="*** x", provider_call_id="call_1_1"),
            ),
            finish="tool_calls",
        ),
    ]


async def test_malformed_call_carries_what_was_wrong():
    reply = (await ask(ScriptedModel([call_malformed("add", "[1]")])))[-1]
    assert isinstance(reply, Reply)
    assert reply.calls == (
        ProposedCall(
            ordinal=0,
            tool="add",
            malformed="[1]",
            error="arguments must be a JSON object, got array",
            provider_call_id="call_1_0",
        ),
    )


async def test_failure_is_a_turn_and_can_break_one_off():
    model = ScriptedModel([fail("rate_limited", retry_after_ms=70), ["half of", fail("connection_reset")]])
    busy = Failure(
        kind="rate_limited",
        message="scripted failure: rate_limited",
        retryable=True,
        retry_after_ms=70,
        provider="scripted",
        model="scripted",
    )
    assert await ask(model) == [busy]
    assert [type(piece) for piece in await ask(model)] == [TextPart, Failure]


async def test_refusal_says_so_in_its_finish():
    assert await ask(ScriptedModel([Refusal(text="no")])) == [
        RefusalPart(text="no"),
        answer(Refusal(text="no"), finish="refusal"),
    ]


async def test_turn_overrides_what_is_reported():
    usage = Usage(input_tokens=7, output_tokens=3)
    assert (await ask(ScriptedModel([turn("x", usage=usage, finish="length")])))[-1] == answer(
        Text(text="x"), finish="length", usage=usage
    )


async def test_reply_is_passed_on_as_it_is():
    reply = answer(Text(text="kept"), number=9)
    assert await ask(ScriptedModel([reply])) == [TextPart(text="kept"), reply]


async def test_request_without_streaming_gets_only_the_reply():
    request = said()
    request.stream = False
    assert await ask(ScriptedModel([["a", call("add")]]), request) == [
        answer(
            Text(text="a"),
            CallSlot(ordinal=0),
            calls=(ProposedCall(ordinal=0, tool="add", args={}, provider_call_id="call_1_0"),),
            finish="tool_calls",
        )
    ]


async def test_function_sees_the_request_and_may_be_async():
    async def later(request: Request) -> str:
        return f"{len(request.items)} items"

    model = ScriptedModel(lambda request: request.items[-1].content[0].text.upper())  # type: ignore[union-attr]
    assert (await ask(model))[-1] == answer(Text(text="HELLO"))
    assert (await ask(ScriptedModel(later)))[-1] == answer(Text(text="1 items"))
    assert (await ask(ScriptedModel([later])))[-1] == answer(Text(text="1 items"))


async def test_script_that_ran_out_names_the_turn_and_the_question():
    model = ScriptedModel(["one"])
    await ask(model)
    with pytest.raises(UsageError, match=r"the script has 1 turn and request 2 came: add turn 2.*user: again"):
        await ask(model, said("again"))


async def test_requests_are_kept_as_they_were_sent():
    model = ScriptedModel(["one", "two"])
    request = said()
    await ask(model, request)
    request.items.append(AssistantItem(content=(Text(text="one"),)))
    await ask(model, request)
    assert [len(kept.items) for kept in model.requests] == [1, 2]


async def test_requests_kept_have_a_bound(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(scripted, "REQUESTS_KEPT_MAX", 2)
    model = ScriptedModel(["a", "b", "c"])
    for text in ("1", "2", "3"):
        await ask(model, said(text))
    assert model.requests == [said("2"), said("3")]
    assert model.turns_taken == 3


async def test_script_by_history_answers_a_repeated_request_alike():
    model = ScriptedModel(by_history([call("add", x=1), "done"]))
    first, again = (await ask(model))[-1], (await ask(model))[-1]
    assert isinstance(first, Reply)
    assert isinstance(again, Reply)
    assert first.calls[0].args == again.calls[0].args
    later = said()
    later.items += [AssistantItem(content=()), ResultItem(call_id="c", tool="add", content=())]
    assert (await ask(model, later))[-1] == answer(Text(text="done"), number=3)
    later.items.append(AssistantItem(content=()))
    with pytest.raises(UsageError, match="2 turns and request 3"):
        await ask(model, later)


async def test_pauses_go_through_the_given_sleep():
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    assert len(await ask(ScriptedModel([["a", pause(1500), "b"]], sleep=sleep))) == 3
    assert slept == [1.5]


async def test_hanging_answer_ends_by_cancellation_and_is_counted():
    model = ScriptedModel([["so far", hang()]])
    seen: list[object] = []

    async def read() -> None:
        async for piece in model.stream(said()):
            seen.append(piece)

    task = asyncio.create_task(read())
    while not seen:
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert seen == [TextPart(text="so far")]
    assert model.cancelled == 1


async def test_leaving_the_stream_early_counts_as_cancelled():
    model = ScriptedModel([["a", "b"], "c"])
    stream = model.stream(said())
    assert await anext(stream) == TextPart(text="a")
    await stream.aclose()  # type: ignore[attr-defined]
    await ask(model)
    assert model.cancelled == 1


@pytest.mark.parametrize("script", ["text", "a list was forgotten"])
def test_text_is_not_a_script(script: str):
    with pytest.raises(UsageError, match="put it in a list"):
        ScriptedModel(script)


async def test_unknown_turn_is_named():
    with pytest.raises(UsageError, match=r"turn 1 of the script is 3: give text"):
        await ask(ScriptedModel([3]))  # type: ignore[list-item]


async def test_close_is_noted():
    model = ScriptedModel(["one", "two"])
    await ask(model)
    assert not model.closed
    await model.close()
    assert model.closed


def test_a_script_that_has_run_out_names_the_data_that_a_tool_returned():
    @windlass.tool(contract="pure")
    def count(text: str) -> int:
        "Count words."
        return len(text.split())

    agent = windlass.Agent("editor", model=ScriptedModel([call("count", text="a b")]), tools=[count])
    with pytest.raises(windlass.RunError, match="its last item is 'result of count: 2'"):
        agent.run_sync("How many?")
