"""Every event that is declared survives being stored, driven by the registry so that none can be forgotten."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.events import builders
from windlass.events.base import Erased, Event, tag_of
from windlass.events.live import LIVE_EVENTS, Live
from windlass.events.stored import codec, record
from windlass.events.stored.registry import COMMANDS, EVENTS
from windlass.events.tools.calls import CallBody, CallReceived, ToolRequested, UserCallBody
from windlass.events.turns import ModelReplied, ReplyBody, ReplyCall
from windlass.events.values.items import ProposedCall
from windlass.events.values.usage import Usage

EXAMPLES = 12
EVERY_EVENT = pytest.mark.parametrize("cls", EVENTS, ids=tag_of)
WITH_BODY = pytest.mark.parametrize(
    "cls", [cls for cls in EVENTS if "body" in cls.__struct_fields__ and not cls.ECHO], ids=tag_of
)


def stored(*events: Event, seq: int = 1, prev_hash: str = record.GENESIS) -> record.Sealed:
    return codec.encode(events, prev_hash=prev_hash, seq=seq, at_ms=1_000, epoch=1, salt=builders.salt)


@EVERY_EVENT
@given(data=st.data())
@settings(max_examples=EXAMPLES)
def test_an_event_comes_back_as_it_was_and_stores_to_the_same_bytes(cls, data):
    event = data.draw(builders.events(cls))
    if cls.ECHO:
        event = msgspec.structs.replace(event, body=None)
    sealed = stored(event)
    record.check(sealed.data, prev_hash=record.GENESIS, expected_seq=1)
    found = codec.decode(sealed.data)
    assert found.events == [event]
    assert stored(*found.events).data == sealed.data  # type: ignore[arg-type]


@EVERY_EVENT
@given(data=st.data())
@settings(max_examples=EXAMPLES)
def test_a_fold_can_leave_the_bodies_out(cls, data):
    event = data.draw(builders.events(cls))
    bare = msgspec.structs.replace(event, body=None) if "body" in cls.__struct_fields__ else event
    assert codec.decode(stored(event).data, bodies=False).events == [bare]


@EVERY_EVENT
def test_only_what_differs_from_the_default_is_written(cls):
    event = builders.minimal(cls)
    skeleton, body, salt = codec.encode_entry(event, builders.salt)
    required = {field.name for field in msgspec.structs.fields(cls) if field.required}
    assert set(msgspec.json.decode(skeleton)) == required | {"type"}
    assert (body, salt) == (b"", "")
    assert codec.decode(stored(event).data).events == [event]


@EVERY_EVENT
@given(data=st.data())
@settings(max_examples=EXAMPLES)
def test_an_optional_field_that_is_none_leaves_no_key(cls, data):
    event = data.draw(builders.events(cls))
    skeleton, body = builders.parts(event)
    places = [*builders.fields_in(skeleton, builders.info(cls))]
    if body is not None:
        places += builders.fields_in(body, builders.info(type(event.body)))
    assert [place.path for place in places if _holds_null(place) and not place.free] == []


def _holds_null(place: builders.Place) -> bool:
    return isinstance(place.owner, dict) and place.key in place.owner and place.owner[place.key] is None


@WITH_BODY
@given(data=st.data())
@settings(max_examples=EXAMPLES)
def test_an_erased_body_is_seen_as_erased_and_the_chain_still_holds(cls, data):
    event = data.draw(builders.events(cls).filter(lambda event: event.body is not None))
    before = stored(event).data
    after = record.erase(before, 1, by="legal", why="asked to", at_ms=7)
    assert record.check(after, prev_hash=record.GENESIS, expected_seq=1).hash == record.parse(before).hash
    assert msgspec.json.encode(event.body) not in after or len(msgspec.json.encode(event.body)) < 4
    digest = record.body_digest(record.parse(before).events[0])
    assert codec.decode(after).events == [
        msgspec.structs.replace(event, body=None, erased=Erased(digest=digest, by="legal", why="asked to", at_ms=7))
    ]
    assert codec.decode(after, bodies=False).events == [msgspec.structs.replace(event, body=None)]
    assert record.erase(after, 1, by="again", why="again", at_ms=8) == after


@pytest.mark.parametrize("cls", COMMANDS, ids=tag_of)
@given(data=st.data())
@settings(max_examples=EXAMPLES)
def test_a_command_travels_whole_to_an_inbox_and_back(cls, data):
    command = data.draw(builders.events(cls))
    assert codec.decode_command(codec.encode_command(command)) == command


@pytest.mark.parametrize("cls", LIVE_EVENTS, ids=lambda cls: str(cls.__struct_config__.tag))
@given(data=st.data())
@settings(max_examples=EXAMPLES)
def test_a_live_event_comes_back_as_it_was(cls, data):
    event: Live = data.draw(builders.events(cls))
    assert msgspec.json.decode(msgspec.json.encode(event), type=cls) == event


@given(data=st.data())
@settings(max_examples=40)
def test_a_log_of_many_appends_holds_together(data):
    """A fact and its decisions, several times over, with the chain from one append to the next."""
    sealed: list[record.Sealed] = []
    written: list[Event] = []
    for _ in range(data.draw(st.integers(1, 4))):
        batch = [data.draw(_storable()) for _ in range(data.draw(st.integers(1, 4)))]
        prev = sealed[-1].hash if sealed else record.GENESIS
        sealed.append(stored(*batch, seq=len(written) + 1, prev_hash=prev))
        written += batch
    read: list[Any] = []
    for append in sealed:
        found = codec.decode(append.data)
        assert (found.first_seq, found.last_seq) == (append.first_seq, append.last_seq)
        assert record.resealed(append.data, prev_hash=append.prev_hash) == append
        read += found.events
    assert read == written


def _storable() -> st.SearchStrategy[Event]:
    # A requested call takes its arguments from its fact, so on its own it is not stored whole.
    return st.sampled_from([cls for cls in EVENTS if cls is not ToolRequested]).flatmap(builders.events)


def test_a_requested_call_finds_its_arguments_in_the_reply_of_the_same_append():
    proposed = [
        ProposedCall(ordinal=0, tool="add", args={"x": 1}),
        ProposedCall(ordinal=1, tool="patch", text="*** begin"),
        ProposedCall(ordinal=2, tool="add", malformed='{"x":', error="cut off"),
    ]
    reply = ModelReplied(
        request_id="m4",
        finish="tool_calls",
        usage=Usage(),
        calls=3,
        body=ReplyBody(calls=tuple(ReplyCall(call=call) for call in proposed)),
    )
    requested = [ToolRequested(call_id=f"c5.{call.ordinal}", tool=call.tool, ordinal=call.ordinal) for call in proposed]
    data = stored(reply, *requested).data
    assert data.count(b"*** begin") == 1, "arguments are stored once"
    assert [event.body for event in codec.decode(data).events[1:]] == [  # type: ignore[union-attr]
        CallBody(args={"x": 1}),
        CallBody(text="*** begin"),
        CallBody(malformed='{"x":'),
    ]
    erased = codec.decode(record.erase(data, 1, by="legal", why="asked to", at_ms=7)).events
    assert [event.body for event in erased[1:]] == [None, None, None]  # type: ignore[union-attr]
    assert all(isinstance(event.erased, Erased) for event in erased)  # type: ignore[union-attr]


def test_a_call_by_a_person_finds_its_arguments_in_the_command():
    command = CallReceived(command_id="k", tool="add", body=UserCallBody(args={"x": 1}))
    requested = ToolRequested(call_id="c1.0", tool="add", by_person=True)
    found = codec.decode(stored(command, requested).data).events[1]
    assert found == msgspec.structs.replace(requested, body=CallBody(args={"x": 1}))
