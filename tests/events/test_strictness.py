"""What the codec refuses, with the path and the reason, and what it lets pass: at every place of every event."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import inspect as mi

from tests.events import builders
from windlass.events.base import tag_of
from windlass.events.commands import PromptReceived
from windlass.events.errors import CodecError
from windlass.events.stored import codec
from windlass.events.stored.record import EVENT_BYTES_MAX
from windlass.events.stored.registry import COMMANDS, DECISIONS, EVENTS, FACTS
from windlass.events.tools.calls import CallBody, CallReceived
from windlass.events.turns import ModelReplied

EXAMPLES = 6
NO_WORD = "no_such_word"
EVERY_EVENT = pytest.mark.parametrize("cls", EVENTS, ids=tag_of)
NOT_OBJECTS = [("{}", "string"), (1, "number"), (1.5, "number"), (True, "boolean"), ([], "array")]

NOT_INTEGERS: list[Any] = [1.0, 1.5, True, "1", [1], {}]
JUNK = {"unknown": {"deep": [1, None, "x"]}}


class Spot:
    """A place inside one part of a stored event, and what decoding says when something else stands there."""

    def __init__(self, skeleton: Any, body: Any, place: builders.Place, *, in_body: bool) -> None:
        self.skeleton, self.body, self.place, self.in_body = skeleton, body, place, in_body

    def decoded_with(self, value: Any) -> Any:
        """The event as it decodes with this value at the place; the data are as before afterwards."""
        owner, key = self.place.owner, self.place.key
        before = copy.copy(owner)
        owner[key] = value
        try:
            return codec.decode(builders.line(self.skeleton, self.body)).events[0]
        finally:
            owner.clear()
            owner.extend(before) if isinstance(owner, list) else owner.update(before)

    def complaint_about(self, value: Any) -> str:
        """What decoding refuses the value with; fails where it is taken."""
        with pytest.raises(CodecError) as caught:
            self.decoded_with(value)
        where = f"{'body: ' if self.in_body else ''}{self.place.path}: "
        text = str(caught.value)
        assert where in text, f"{value!r} at {where} gives {text!r}, which names another place"
        return text.partition(where)[2]


def spots(event: Any) -> Iterator[Spot]:
    """Every field of the event, its values and its body; what only readers get (`erased`) and the body's slot aside."""
    skeleton, body = builders.parts(event)
    for place in builders.fields_in(skeleton, builders.info(type(event))):
        if place.path.removeprefix("$.") not in ("body", "erased"):
            yield Spot(skeleton, body, place, in_body=False)
    if body is not None:
        for place in builders.fields_in(body, builders.info(type(event.body))):
            yield Spot(skeleton, body, place, in_body=True)


def test_the_places_of_an_event_are_really_found():
    """The rules below hold for nothing if the walk finds nothing."""
    found = [spot.place for cls in EVENTS for spot in spots(builders.minimal(cls))]
    kinds = [type(place.only) for place in found]
    assert kinds.count(mi.LiteralType) > 40
    assert kinds.count(mi.IntType) > 80


def wholly_drawn(cls: type) -> st.SearchStrategy[Any]:
    return st.just(builders.minimal(cls)) | builders.events(cls)


@EVERY_EVENT
@given(data=st.data())
@settings(max_examples=EXAMPLES)
def test_a_word_outside_a_closed_set_is_refused_with_its_path(cls, data):
    for spot in spots(data.draw(wholly_drawn(cls))):
        if isinstance(spot.place.only, mi.LiteralType):
            assert spot.complaint_about(NO_WORD) == f"Invalid enum value '{NO_WORD}'"


@EVERY_EVENT
@given(data=st.data())
@settings(max_examples=EXAMPLES)
def test_a_natural_number_is_never_negative_a_float_a_bool_or_a_text(cls, data):
    for spot in spots(data.draw(wholly_drawn(cls))):
        kind = spot.place.only
        if not isinstance(kind, mi.IntType):
            continue
        for value in NOT_INTEGERS:
            assert spot.complaint_about(value).startswith("expected int")
        if kind.ge == 0:
            assert spot.complaint_about(-1) == "Expected `int` >= 0"
        if kind.gt == 0:
            assert spot.complaint_about(0) == "Expected `int` >= 1"


@EVERY_EVENT
@given(data=st.data())
@settings(max_examples=EXAMPLES)
def test_null_stands_only_where_none_may_stand(cls, data):
    for spot in spots(data.draw(wholly_drawn(cls))):
        if not spot.place.optional:
            assert spot.complaint_about(None).endswith("got null")
        elif not _one_of_several(spot.place):
            assert spot.decoded_with(None) is not None


def _one_of_several(place: builders.Place) -> bool:
    """Whether the field is the one source of its block, or what its call was given, which may not be taken away."""
    if not isinstance(place.owner, dict):
        return False
    if place.owner.get("type") in ("image", "audio", "document", "resource"):
        return place.key in ("data", "blob", "text")
    return "ordinal" in place.owner and "tool" in place.owner and place.key in ("args", "text", "malformed")


@EVERY_EVENT
def test_a_missing_field_is_refused_by_name(cls):
    skeleton, _ = builders.parts(builders.minimal(cls))
    for name in set(skeleton) - {"type"}:
        lacking = {key: value for key, value in skeleton.items() if key != name}
        with pytest.raises(CodecError) as caught:
            codec.decode(builders.line(lacking))
        assert str(caught.value) == f"event 1: {tag_of(cls)}: Object missing required field `{name}`"


@EVERY_EVENT
@given(data=st.data())
@settings(max_examples=EXAMPLES)
def test_fields_that_are_not_known_are_ignored_at_every_depth(cls, data):
    event = data.draw(builders.events(cls))
    if cls.ECHO:
        event = msgspec.structs.replace(event, body=None)
    skeleton, body = builders.parts(event)
    if body is not None:
        body = _littered(body, builders.info(type(event.body)))
    assert codec.decode(builders.line(_littered(skeleton, builders.info(cls)), body)).events == [event]


def _littered(data: Any, kind: mi.Type) -> Any:
    """The same data with a key that nobody knows in each struct."""
    littered = copy.deepcopy(data)
    owners = {id(place.owner): place.owner for place in builders.fields_in(littered, kind)}
    for owner in owners.values():
        owner.append("unknown") if isinstance(owner, list) else owner.update(JUNK)
    return littered


@EVERY_EVENT
@given(data=st.data())
@settings(max_examples=EXAMPLES)
def test_the_tag_may_stand_at_any_place_among_the_keys(cls, data):
    event = data.draw(builders.events(cls))
    if cls.ECHO:
        event = msgspec.structs.replace(event, body=None)
    skeleton, body = builders.parts(event)
    turned = dict(reversed(skeleton.items()))
    assert codec.decode(builders.line(turned, body)).events == [event]


# --- arguments ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("args", "kind"), [*NOT_OBJECTS, (None, "null")])
def test_arguments_of_a_persons_call_are_an_object_and_nothing_else(args, kind):
    command = {"type": "call.received", "command_id": "k", "tool": "add", "body": {"args": args}}
    with pytest.raises(CodecError) as caught:
        codec.decode_command(msgspec.json.encode(command))
    assert str(caught.value) == f"command: $.body.args: arguments must be a JSON object, got {kind}"


@pytest.mark.parametrize(("args", "kind"), NOT_OBJECTS)
def test_arguments_of_a_well_formed_call_in_a_reply_are_an_object_and_nothing_else(args, kind):
    skeleton = {"type": "model.replied", "request_id": "m1", "finish": "tool_calls", "usage": {}}
    body = {"calls": [{"call": {"ordinal": 0, "tool": "add", "args": args}}]}
    with pytest.raises(CodecError) as caught:
        codec.decode(builders.line(skeleton, body))
    expected = f"model.replied: body: $.calls[0].call.args: arguments must be a JSON object, got {kind}"
    assert str(caught.value) == expected


def test_a_malformed_call_is_kept_as_the_text_it_is():
    """Text that holds JSON is never unwrapped into arguments."""
    skeleton = {"type": "model.replied", "request_id": "m1", "finish": "tool_calls", "usage": {}}
    body = {
        "calls": [{"call": {"ordinal": 0, "tool": "add", "malformed": '{"x": 1}', "error": "a text, not an object"}}]
    }
    reply = codec.decode(builders.line(skeleton, body)).events[0]
    assert isinstance(reply, ModelReplied)
    assert reply.body is not None
    assert reply.body.calls[0].call.args is None
    assert codec.echoed(reply, 0) == CallBody(malformed='{"x": 1}')


def test_any_other_json_may_be_free():
    """What a signal or a provider sends is not restricted to objects inside."""
    command = {"type": "signal.received", "command_id": "k", "kind": "mail", "body": {"payload": {"a": [1, None, "x"]}}}
    assert codec.encode_command(codec.decode_command(msgspec.json.encode(command))) == msgspec.json.encode(command)


# --- commands ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cls", [*DECISIONS, *(cls for cls in FACTS if cls not in COMMANDS)], ids=tag_of)
def test_nothing_that_the_runtime_alone_may_say_comes_in_as_a_command(cls):
    forged = msgspec.json.encode(builders.minimal(cls))
    with pytest.raises(CodecError, match=r"^command: \$\.type: Invalid value "):
        codec.decode_command(forged)


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b"", "command: Input data was truncated"),
        (b"{", "command: Input data was truncated"),
        (b"{]", "command: JSON is malformed: object keys must be strings (byte 1)"),
        (b"[]", "command: $: expected object, got array"),
        (b"null", "command: $: expected object, got null"),
        (b'{"command_id":"k"}', "command: Object missing required field `type`"),
        (b'{"type":7}', "command: $.type: Expected `str`"),
        (b'{"type":"tea.poured"}', "command: $.type: Invalid value 'tea.poured'"),
        (b'{"type":"wake.received"}', "command: Object missing required field `command_id`"),
        (b'{"type":"wake.received","command_id":1}', "command: $.command_id: expected str, got number"),
        (
            b'{"type":"prompt.received","command_id":"k","origin":{"kind":"alien"}}',
            "command: $.origin.kind: Invalid enum value 'alien'",
        ),
        (
            b'{"type":"prompt.received","command_id":"k","body":{"content":[{"type":"image","media_type":"image/png"}]}}',
            "command: $.body.content[0]: image block needs exactly one source (inline or blob)",
        ),
    ],
)
def test_a_bad_command_is_refused_with_the_path_and_the_reason(data, complaint):
    with pytest.raises(CodecError) as caught:
        codec.decode_command(data)
    assert str(caught.value) == complaint


def test_a_command_may_be_given_as_text():
    assert codec.decode_command('{"type":"prompt.received","command_id":"k"}') == PromptReceived(command_id="k")


def test_a_command_without_content_gets_what_its_type_says():
    command = codec.decode_command(b'{"type":"call.received","command_id":"k","tool":"add","body":{}}')
    assert isinstance(command, CallReceived)
    assert command.body is not None
    assert command.body.args == {}


# --- size --------------------------------------------------------------------------------------------------------


def test_content_that_is_too_large_for_an_event_is_sent_to_a_blob():
    event = builders.minimal(PromptReceived)
    body = {"content": [{"type": "text", "text": "x" * EVENT_BYTES_MAX}]}
    large = msgspec.structs.replace(event, body=msgspec.convert(body, codec._body_type(PromptReceived)))
    with pytest.raises(
        CodecError, match=r"prompt\.received: \d+ bytes, more than 1048576: put large content in a blob"
    ):
        codec.encode([large], prev_hash="", seq=1, at_ms=1, epoch=1, salt=builders.salt)
