"""Recordings: what was recorded is replayed, what was not is refused with a difference that people can read."""

from __future__ import annotations

import pathlib
from typing import Any

import msgspec
import pytest

import windlass
from windlass.events.base import Event
from windlass.events.errors import CodecError, UsageError
from windlass.events.stored import codec
from windlass.events.turns import ModelFailed, ModelReplied, ModelRequested, ReplyBody
from windlass.events.values.blocks import Text
from windlass.events.values.failures import Failure
from windlass.events.values.items import AssistantItem, CallPart, HistoryItem, ResultItem, ToolSchema, UserItem
from windlass.events.values.usage import Usage
from windlass.kernel.fold import evolve
from windlass.kernel.render import render
from windlass.kernel.state import State
from windlass.models.base import CallPartDelta, Model, Reply, Request, TextPart
from windlass.store.memory import MemoryStore
from windlass.testing import recorded
from windlass.testing.recorded import Record, RecordedModel, RecordingModel, plain_request, read_records
from windlass.testing.scripted import ScriptedModel, call, fail, think, turn


def said(text: str, **more) -> Request:
    return Request(model="m", items=[UserItem(content=(Text(text=text),))], **more)


async def end_of(model: Model, request: Request) -> object:
    return [piece async for piece in model.stream(request)][-1]


def plain_lines(path: pathlib.Path) -> list[dict[str, Any]]:
    return [msgspec.json.decode(line) for line in path.read_text().splitlines()]


@pytest.fixture
def path(tmp_path: pathlib.Path) -> pathlib.Path:
    return tmp_path / "recording.jsonl"


async def test_recording_and_replay_give_the_same_answers(path: pathlib.Path):
    script = ScriptedModel(["hello", call("add", x=1), fail("rate_limited", retry_after_ms=5)])
    recorder = RecordingModel(script, path)
    requests = [said("hi"), said("add one"), said("again")]
    first = [[piece async for piece in recorder.stream(request)] for request in requests]
    replay = RecordedModel(path)
    assert [[piece async for piece in replay.stream(request)] for request in requests] == first
    assert first[1][:2] == [CallPartDelta(ordinal=0, tool="add"), CallPartDelta(ordinal=0, fragment='{"x":1}')]
    assert recorder.info == script.info
    await recorder.close()
    await replay.close()
    assert script.closed


async def test_recording_is_plain_lines_of_json(path: pathlib.Path):
    await end_of(RecordingModel(ScriptedModel(["hello"]), path), said("hi", instructions="be kind"))
    (record,) = plain_lines(path)
    assert record["request"]["instructions"] == "be kind"
    assert record["request"]["items"] == [{"type": "user", "content": [{"type": "text", "text": "hi"}]}]
    assert record["reply"]["blocks"] == [{"type": "text", "text": "hello"}]


async def test_ids_of_a_run_do_not_matter_but_the_pairs_of_calls_do():
    def history(first: str, second: str, answered: str) -> Request:
        calls = [CallPart(call_id=one, tool="add", args={"key": 1}, provider_call_id=one) for one in (first, second)]
        result = ResultItem(key="9", call_id=answered, tool="add", content=(Text(text="1"),), provider_call_id=answered)
        return Request(model="m", items=[AssistantItem(key=first, content=tuple(calls)), result])

    assert plain_request(history("a", "b", "a")) == plain_request(history("x", "y", "x"))
    assert plain_request(history("a", "b", "a")) != plain_request(history("a", "b", "b"))
    assert plain_request(history("a", "b", "a"))["items"][0]["content"][0]["args"] == {"key": 1}


@pytest.mark.parametrize("field", ["model", "session", "attempt"])
async def test_names_of_a_run_do_not_matter(field: str):
    assert plain_request(said("x")) == plain_request(msgspec.structs.replace(said("x"), **{field: "other"}))


async def test_same_request_gives_its_records_in_order_then_the_last(path: pathlib.Path):
    recorder = RecordingModel(ScriptedModel([fail("overloaded"), "at last"]), path)
    for _ in range(2):
        await end_of(recorder, said("hi"))
    replay = RecordedModel(path)
    ends = [await end_of(replay, said("hi")) for _ in range(3)]
    assert [type(end) for end in ends] == [Failure, Reply, Reply]


async def test_request_without_streaming_gets_only_the_end(path: pathlib.Path):
    await end_of(RecordingModel(ScriptedModel(["hello"]), path), said("hi"))
    pieces = [piece async for piece in RecordedModel(path).stream(said("hi", stream=False))]
    assert [type(piece) for piece in pieces] == [Reply]


async def test_strict_miss_shows_the_difference(path: pathlib.Path):
    tool = ToolSchema(name="add", description="Adds.")
    await end_of(RecordingModel(ScriptedModel(["hello"]), path), said("hi", tools=(tool,)))
    with pytest.raises(UsageError) as raised:
        await end_of(RecordedModel(path), said("hey", tools=(tool,)))
    message = str(raised.value)
    assert message.startswith("request 1 was not recorded; the nearest record differs:\n--- recorded\n+++ asked\n")
    assert '-          "text": "hi",' in message
    assert '+          "text": "hey",' in message
    assert len(message.splitlines()) <= recorded.DIFF_LINES_MAX + 2


async def test_best_match_takes_the_nearest_unused_record(path: pathlib.Path):
    recorder = RecordingModel(ScriptedModel(["about cats", "about dogs"]), path)
    for text in ("tell me about cats", "tell me about dogs"):
        await end_of(recorder, said(text, instructions=text))
    replay = RecordedModel(path, match="best")
    ends = [await end_of(replay, said("now", instructions="tell me about dogs")) for _ in range(2)]
    assert [end.blocks for end in ends if isinstance(end, Reply)] == [
        (Text(text="about dogs"),),
        (Text(text="about cats"),),
    ]
    with pytest.raises(UsageError, match="request 3 finds no record"):
        await end_of(replay, said("now"))


async def test_replies_of_a_log_are_replayed_in_order():
    reply = await end_of(ScriptedModel(["one"]), said("x"))
    assert isinstance(reply, Reply)
    model = RecordedModel.of_replies([reply, fail("overloaded")])
    assert await end_of(model, said("anything")) == reply
    assert isinstance(await end_of(model, said("else")), Failure)
    with pytest.raises(UsageError, match="used up"):
        await end_of(model, said("more"))
    assert [len(request.items) for request in model.requests] == [1, 1, 1]


def test_line_that_is_no_record_is_named(path: pathlib.Path):
    path.write_text("\n{}\n")
    with pytest.raises(CodecError, match=r"recording.jsonl:2: not a record"):
        read_records(path)


def test_recording_has_a_bound(path: pathlib.Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(recorded, "RECORDS_MAX", 1)
    line = msgspec.json.encode(Record(failure=fail("overloaded"))) + b"\n"
    path.write_bytes(line * 2)
    with pytest.raises(UsageError, match="more than 1 records"):
        read_records(path)


async def test_items_added_while_streaming_are_not_recorded(path: pathlib.Path):
    request = said("hi")
    async for piece in RecordingModel(ScriptedModel(["hello"]), path).stream(request):
        if isinstance(piece, TextPart):
            request.items.append(AssistantItem(content=(Text(text="hello"),)))
    (record,) = read_records(path)
    assert record.request is not None
    assert len(record.request["items"]) == 1


# ---- the log of a session as a recording


@windlass.tool
def add(x: int, y: int) -> int:
    "Add two numbers."
    return x + y


PROMPTS = ("1 + 2?", "and 3 + 4?")
SCRIPT: list[Any] = [
    [think("easy"), "Let me see. ", call("add", x=1, y=2), call("nothing", z=1)],
    fail("overloaded", retry_after_ms=1),
    "Three.",
    turn(call("add", x=3, y=4), usage=Usage(input_tokens=7, output_tokens=3)),
    turn("Seven.", finish="length"),
    "Seven, I said.",
]


async def played(model: Model, *prompts: str, instructions: str = "") -> tuple[list[Event], list[bytes]]:
    """A session in which these prompts were given: its events and its stored lines."""
    agent = windlass.Agent("clerk", model=model, tools=[add], instructions=instructions)
    async with windlass.open(MemoryStore(), agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        for prompt in prompts:
            await session.prompt(prompt)
            await session.result()
        events = [record.event async for record in session.records()]
        return events, [sealed.data async for sealed in rt.store.log.read(session.key)]


def transcript(lines: list[bytes]) -> list[HistoryItem]:
    """What the log shows to a model, without the places of its records."""
    state, events = State(), {}
    for event in (event for line in lines for event in codec.decode(line).events):
        assert isinstance(event, Event)
        evolve(state, event)
        events[state.seq] = event
    numbers: dict[str, str] = {}
    return [recorded.stable(item, numbers) for item in render(state, events.__getitem__)]


@pytest.mark.parametrize("match", ["order", "strict", "best"])
@pytest.mark.parametrize("stored", [True, False])
async def test_a_log_is_a_recording_of_its_session(match: Any, stored: bool):
    events, lines = await played(ScriptedModel(SCRIPT), *PROMPTS)
    assert sum(isinstance(event, ModelFailed) for event in events) == 1
    again = RecordedModel.of_log(lines if stored else events, match=match)
    _, replayed = await played(again, *PROMPTS)
    assert len(transcript(lines)) >= 7
    assert transcript(replayed) == transcript(lines)


async def test_replies_come_out_of_a_log_as_they_went_in():
    scripted = ScriptedModel(SCRIPT)
    given = [end for end in [await end_of(scripted, said("x")) for _ in SCRIPT[:5]] if isinstance(end, Reply)]
    events, _ = await played(ScriptedModel(SCRIPT), *PROMPTS)
    model = RecordedModel.of_log(events)
    out = [await end_of(model, said("anything")) for _ in given]
    assert [same(reply) for reply in out] == [same(reply) for reply in given]


def same(reply: object) -> Reply:
    """A reply without what was measured."""
    assert isinstance(reply, Reply)
    return msgspec.structs.replace(reply, duration_ms=0, first_output_ms=None)


async def test_a_strict_log_refuses_another_history_but_not_other_instructions():
    _, lines = await played(ScriptedModel(SCRIPT), *PROMPTS)
    _, other = await played(RecordedModel.of_log(lines, match="strict"), *PROMPTS, instructions="be brief")
    assert transcript(other) == transcript(lines)
    with pytest.raises(UsageError, match="was not recorded") as raised:
        await end_of(RecordedModel.of_log(lines, match="strict"), said("2 + 2?"))
    assert '+          "text": "2 + 2?",' in str(raised.value)


async def test_a_log_is_used_up_like_any_recording():
    _, lines = await played(ScriptedModel(["one"]), "hi")
    model = RecordedModel.of_log(lines)
    await end_of(model, said("hi"))
    with pytest.raises(UsageError, match="used up"):
        await end_of(model, said("hi"))


async def test_summaries_of_a_log_answer_requests_for_summaries_only():
    requested = [ModelRequested(request_id=lane, lane=lane, model="m", epoch=1) for lane in ("compact", "main")]
    bodies = {lane: ReplyBody(blocks=(Text(text=lane),)) for lane in ("compact", "main")}
    replied = [ModelReplied(request_id=lane, finish="stop", usage=Usage(), body=body) for lane, body in bodies.items()]
    model = RecordedModel.of_log([*requested, *replied])
    ends = [await end_of(model, said("x", lane=lane)) for lane in ("main", "compact")]
    assert [end.blocks for end in ends if isinstance(end, Reply)] == [(Text(text="main"),), (Text(text="compact"),)]


def test_a_log_whose_reply_was_erased_is_refused():
    gone = ModelReplied(request_id="r1", finish="stop", usage=Usage())
    with pytest.raises(UsageError, match="request 'r1' was erased"):
        RecordedModel.of_log([gone])


async def test_part_of_a_log_answers_in_order_but_is_not_compared():
    _, lines = await played(ScriptedModel(["one"]), "hi")
    reply = await end_of(RecordedModel.of_log(lines[1:]), said("hi"))
    assert isinstance(reply, Reply)
    assert reply.blocks == (Text(text="one"),)
    with pytest.raises(UsageError, match="only a whole log can be compared"):
        RecordedModel.of_log(lines[1:], match="best")
