"""Defects that the codec once had, each held by the case that showed it."""

from __future__ import annotations

import msgspec
import pytest
from dev import vocabulary
from msgspec import inspect as mi

from tests.events import builders
from windlass.events.commands import PromptBody, PromptReceived
from windlass.events.errors import CodecError, Damaged
from windlass.events.sessions import NoticeGiven
from windlass.events.signals import SignalBody
from windlass.events.stored import codec, record
from windlass.events.stored.registry import EVENTS, UPCASTERS
from windlass.events.tools.calls import CallReceived, UserCallBody
from windlass.events.values.blocks import Text


def test_bad_utf8_in_a_command_is_a_codec_error():
    with pytest.raises(CodecError):
        codec.decode_command(b'{"type":"prompt.received","command_id":"\xff"}')


def test_bad_utf8_in_a_line_is_damaged():
    with pytest.raises((CodecError, Damaged)):
        codec.decode(
            b'{"seq":1,"at":1,"epoch":1,"events":[[{"type":"notice.given?","code":"\xff","message":""}]],"hash":""}'
        )


def test_bad_utf8_in_a_tombstone_is_damaged():
    data = codec.encode(
        [PromptReceived(command_id="a", body=PromptBody(content=(Text(text="x"),)))],
        prev_hash="",
        seq=1,
        at_ms=1,
        epoch=1,
        salt=builders.salt,
    ).data
    erased = record.erase(data, 1, by="legal", why="asked", at_ms=1)
    with pytest.raises(Damaged):
        record.check(erased.replace(b"legal", b"leg\xffl"), prev_hash="", expected_seq=1)


@pytest.mark.parametrize("salt", ["é", "a" * 65])
def test_an_impossible_salt_is_damaged(salt):
    line = f'{{"seq":1,"at":1,"epoch":1,"events":[[{{}},{{}},"{salt}"]],"hash":""}}'.encode()
    with pytest.raises(Damaged):
        record.check(line, prev_hash="", expected_seq=1)


def test_deep_nesting_in_a_command_is_a_codec_error():
    deep = b"[" * 5000 + b"]" * 5000
    with pytest.raises(CodecError):
        codec.decode_command(
            b'{"type":"call.received","command_id":"k","tool":"t","body":{"args":{"a":' + deep + b"}}}"
        )


@pytest.mark.parametrize(("depth", "taken"), [(490, True), (501, False), (5_000, False)])
def test_how_deep_a_command_may_be_does_not_depend_on_the_stack(depth: int, taken: bool):
    """Brackets in texts are letters, and count for nothing."""
    deep = b"[" * depth + b'"' + b"[{" * 600 + b'\\"[' + b'"' + b"]" * depth
    data = b'{"type":"call.received","command_id":"k","tool":"t","body":{"args":{"a":' + deep + b"}}}"
    if taken:
        codec.decode_command(data)
    else:
        with pytest.raises(CodecError, match="nested deeper than 500 levels"):
            codec.decode_command(data)


def test_a_client_cannot_send_an_erased_command():
    """Taken, it could never be written to the log: a poisoned inbox."""
    with pytest.raises(CodecError, match=r"\$\.erased"):
        codec.decode_command(
            b'{"type":"prompt.received","command_id":"x","erased":{"digest":"d","by":"b","why":"w","at_ms":1}}'
        )


def test_an_event_without_body_has_the_same_size_limit():
    with pytest.raises(CodecError):
        codec.encode(
            [NoticeGiven(code="x", message="y" * 3_000_000)], prev_hash="", seq=1, at_ms=1, epoch=1, salt=builders.salt
        )


@pytest.mark.parametrize("bodies", [True, False])
def test_an_empty_append_is_refused_on_the_fast_path_too(bodies):
    with pytest.raises(Damaged):
        codec.decode(b'{"seq":0,"at":1,"epoch":1,"events":[],"hash":""}', bodies=bodies)


def test_a_body_inside_a_skeleton_is_not_read():
    """It would escape erasure."""
    line = builders.line({"type": "prompt.received", "command_id": "x", "body": {"content": []}})
    with pytest.raises(Damaged, match="content inside a skeleton"):
        codec.decode(line, bodies=False)


def test_an_unknown_event_whose_body_was_erased_can_be_sealed_again():
    data = record.seal("", 1, 1, 1, [(b'{"type":"tea.poured"}', b'{"a":1}', builders.SALT)]).data
    erased = record.erase(data, 1, by="b", why="w", at_ms=1)
    kept = codec.decode(erased).events
    again = codec.encode(kept, prev_hash="", seq=1, at_ms=1, epoch=1, salt=builders.salt)
    record.check(again.data, prev_hash="", expected_seq=1)


def test_text_that_is_no_unicode_is_kept_with_a_mark_in_its_place():
    """A model or a tool may say it; the log must go on."""
    notice = NoticeGiven(code="x", message="a\ud800b")
    sealed = codec.encode([notice], prev_hash="", seq=1, at_ms=1, epoch=1, salt=builders.salt)
    assert codec.decode(sealed.data).events == [NoticeGiven(code="x", message="a?b")]


def test_nan_in_arguments_is_refused_not_written_as_null():
    with pytest.raises(CodecError):
        codec.encode_command(CallReceived(command_id="k", tool="t", body=UserCallBody(args={"x": float("nan")})))


@pytest.mark.parametrize(
    "broken", [lambda value, body: ({}, body), lambda value, body: ({**value, "type": value["missing"]}, body)]
)
def test_a_failing_upcaster_is_a_codec_error(broken):
    UPCASTERS["tea.poured"] = broken
    try:
        with pytest.raises(CodecError):
            codec.decode_known(b'{"type":"tea.poured"}', b"")
    finally:
        del UPCASTERS["tea.poured"]


def test_a_call_is_exactly_one_of_args_text_and_malformed():
    skeleton = {"type": "model.replied", "request_id": "m1", "finish": "tool_calls", "usage": {}}
    with pytest.raises(CodecError):
        codec.decode(
            builders.line(
                skeleton, {"calls": [{"call": {"ordinal": 0, "tool": "x", "args": {}, "text": "a", "malformed": "b"}}]}
            )
        )


def test_every_count_is_a_natural_number():
    kept = [*EVENTS, *vocabulary.reachable()]
    unbounded = {
        f"{cls.__name__}.{field.name}"
        for cls in kept
        for field in builders.info(cls).fields
        for kind in builders.members(field.type)
        if isinstance(kind, mi.IntType) and kind.ge is None and kind.gt is None
    }
    assert unbounded == {"Terminal.exit_code", "JobFinished.exit_code", "ModelSettings.seed"}


def test_every_event_has_a_json_schema_without_help():
    msgspec.json.schema(SignalBody)
