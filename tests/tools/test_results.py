"""What tools return, as blocks: canonical forms, typed refusals, previews of what is large."""

from __future__ import annotations

import collections
import dataclasses
import datetime
import decimal
import enum
import hashlib
import math
import pathlib
import threading
import uuid
from typing import Any, NamedTuple

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.events.tools.calls import CallBody, ResultBody, ToolFinished, ToolSuspended, ToolTimedOut
from windlass.events.values.blocks import BlobRef, Data, Document, Image, Reasoning, Resource, Terminal, Text
from windlass.events.workspace import FileChange
from windlass.tools.context import Suspend, ToolError
from windlass.tools.planes.large_output import LARGE_BYTES, PREVIEW_BYTES, WHOLE_BYTES_MAX, Spool
from windlass.tools.planes.outcome import PRIVATE_ERROR_CHARS_MAX, Outcome, full_text, raised, returned, timed_out
from windlass.tools.planes.results import INLINE_MEDIA_BYTES, ToolResult
from windlass.tools.types.plain_values import base64_text

PNG = b"\x89PNG\r\n\x1a\n" + b"\x00" * 16


class Colour(enum.Enum):
    RED = "red"


@dataclasses.dataclass
class Point:
    x: int
    when: datetime.date


class Pair(NamedTuple):
    left: int
    right: str


class Order(msgspec.Struct, rename="camel", tag="order"):
    item_name: str
    note: str | msgspec.UnsetType = msgspec.UNSET


class Person(pydantic.BaseModel):
    name: str
    born: datetime.date


def content(value: Any) -> tuple[Any, ...]:
    outcome = returned(value)
    assert outcome.ok, outcome
    assert outcome.body is not None
    # What stands in an outcome must go through the log and back.
    assert msgspec.json.decode(msgspec.json.encode(outcome.body), type=ResultBody) == outcome.body
    return outcome.body.content


@pytest.mark.parametrize(
    ("value", "blocks"),
    [
        ("text", (Text(text="text"),)),
        ("", (Text(text=""),)),
        (None, (Text(text="(no result)"),)),
        (45, (Data(value=45),)),
        (True, (Data(value=True),)),
        (1.5, (Data(value=1.5),)),
        (2**64, (Data(value=2**64),)),
        (Colour.RED, (Text(text="red"),)),
        (decimal.Decimal("1.10"), (Text(text="1.10"),)),
        (uuid.UUID(int=1), (Text(text="00000000-0000-0000-0000-000000000001"),)),
        (datetime.date(2024, 2, 29), (Text(text="2024-02-29"),)),
        (pathlib.PurePosixPath("a/b"), (Text(text="a/b"),)),
        ([], (Data(value=[]),)),
        ((1, 2), (Data(value=[1, 2]),)),
        ({"b", "a"}, (Data(value=["a", "b"]),)),
        (collections.deque([1]), (Data(value=[1]),)),
        (collections.OrderedDict(a=1), (Data(value={"a": 1}),)),
        ({"a": {"b": [Colour.RED]}}, (Data(value={"a": {"b": ["red"]}}),)),
        ({2: "a", None: "b"}, (Data(value={"2": "a", "null": "b"}),)),
        (Point(1, datetime.date(2024, 2, 29)), (Data(value={"x": 1, "when": "2024-02-29"}),)),
        (Pair(1, "a"), (Data(value={"left": 1, "right": "a"}),)),
        (Order("a"), (Data(value={"type": "order", "itemName": "a"}),)),
        (Person(name="a", born=datetime.date(2000, 1, 2)), (Data(value={"name": "a", "born": "2000-01-02"}),)),
        ([Person(name="a", born=datetime.date(2000, 1, 2))], (Data(value=[{"name": "a", "born": "2000-01-02"}]),)),
        (Text(text="t"), (Text(text="t"),)),
        ([Text(text="t"), "u", {"n": 1}], (Text(text="t"), Text(text="u"), Data(value={"n": 1}))),
        (Terminal(text="ls", exit_code=1), (Terminal(text="ls", exit_code=1),)),
        (b"plain", (Text(text="plain"),)),
        (PNG, (Image(media_type="image/png", data=base64_text(PNG)),)),
        (b"%PDF-1.7", (Document(media_type="application/pdf", data=base64_text(b"%PDF-1.7")),)),
    ],
)
def test_value_becomes_these_blocks(value, blocks):
    assert content(value) == blocks


def cyclic_list() -> list[Any]:
    loop: list[Any] = []
    loop.append({"again": loop})
    return loop


def deep_list() -> list[Any]:
    deep: list[Any] = []
    for _ in range(10_000):
        deep = [deep]
    return deep


class Trap:
    """Raises from wherever it is looked at."""

    @property
    def __dict__(self) -> Any:  # type: ignore[override]
        raise RuntimeError("looked at")


class TrapDict(dict[str, int]):
    def items(self) -> Any:
        raise RuntimeError("/secret/path")


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (object(), "the tool's result cannot be passed on: 'object' has no JSON form"),
        ({"a": [1, {"b": object()}]}, "the tool's result cannot be passed on at a[1].b: 'object' has no JSON form"),
        (math.nan, "nan has no JSON form"),
        ([math.inf], "at [0]: inf has no JSON form"),
        ([10**5000], "is too large: return it as text"),
        (cyclic_list(), "at [0].again: it contains itself"),
        (deep_list(), "it is nested deeper than 100 levels"),
        ({"raw": b"\x00"}, "at raw: bytes have no JSON form"),
        ({(1, 2): 3}, "a key of type 'tuple' has no JSON form"),
        ({1: "a", "1": "b"}, "two keys are both written '1'"),
        (threading.Lock(), "has no JSON form"),
        (lambda: 0, "has no JSON form"),
        (Point, "has no JSON form"),
        (ValueError("x"), "has no JSON form"),
        (Trap(), "has no JSON form"),
        (TrapDict(a=1), "the tool's result cannot be read"),
        (Reasoning(text="r"), "a 'Reasoning' block cannot stand in a result"),
        (Image(media_type="image/png", data="*"), "is not base64"),
    ],
)
def test_value_without_a_form_is_a_typed_error_that_says_where(value, told):
    outcome = returned(value)
    assert (outcome.ok, outcome.error_code) == (False, "tool_result_invalid")
    assert outcome.failure is not None
    assert outcome.failure.kind == "tool_result_invalid"
    assert told in outcome.text
    assert "/secret/path" not in outcome.text


# --- hostile text ------------------------------------------------------------------------------------------------

HOSTILE = [
    "\x00",
    "a\x00b",
    "\ud800",
    "x\udfffy",
    "\x1b[31mred\x1b]0;title\x07",
    "\u202eevil\u2066",
    "\u2028\u2029",
    "\ufffe\uffff",
    "\U0001f469\u200d\U0001f4bb",
]


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("wrap", [lambda text: text, lambda text: {text: [text]}, lambda text: [Text(text=text)]])
def test_hostile_text_goes_through_the_log(text, wrap):
    content(wrap(text))


def test_lone_surrogates_leave_a_view_and_the_bytes():
    outcome = returned("x\ud800y")
    assert outcome.text == "x�y"
    (blob,) = outcome.blobs
    assert outcome.body is not None
    assert outcome.body.whole == blob.ref
    assert blob.read().decode("utf-8", "surrogatepass") == "x\ud800y"


def test_bytes_that_are_no_text_leave_a_view_and_the_bytes():
    outcome = returned(b"ab\xff\xfe")
    assert outcome.text == "ab��"
    (blob,) = outcome.blobs
    assert (blob.read(), blob.ref.media_type) == (b"ab\xff\xfe", "application/octet-stream")


@given(st.text(alphabet=st.characters(categories=None), max_size=50) | st.binary(max_size=50))
def test_any_text_or_bytes_goes_through_the_log_and_is_kept(value):
    outcome = returned(value)
    assert outcome.ok
    assert outcome.body is not None
    assert msgspec.json.decode(msgspec.json.encode(outcome.body), type=ResultBody) == outcome.body
    raw = value if isinstance(value, bytes) else value.encode("utf-8", "surrogatepass")
    if outcome.blobs:
        assert outcome.blobs[0].read() == raw
    elif isinstance(outcome.body.content[0], Text) and raw:
        assert outcome.text.encode() == raw


# --- large results -----------------------------------------------------------------------------------------------


def test_large_text_leaves_head_tail_and_sizes():
    text = "a" * 50_000 + "é" * 50_000
    outcome = returned(text)
    raw = text.encode()
    name = "sha256:" + hashlib.sha256(raw).hexdigest()
    assert outcome.text == (
        "a" * PREVIEW_BYTES
        + f"\n\n[… {150_000 - 2 * PREVIEW_BYTES} of 150000 bytes are not shown; all 150000 bytes are kept as {name} …]\n\n"
        + "é" * (PREVIEW_BYTES // 2)
    )
    (blob,) = outcome.blobs
    assert blob.ref == BlobRef(digest=name, size=150_000, media_type="text/plain; charset=utf-8")
    assert blob.read() == raw
    assert b"".join(blob.chunks(1000)) == raw
    assert outcome.spooled == 150_000
    assert outcome.size == len(outcome.text.encode()) < LARGE_BYTES


@pytest.mark.parametrize(
    ("value", "large"),
    [
        ("a" * LARGE_BYTES, False),
        ("a" * (LARGE_BYTES + 1), True),
        ("é" * (LARGE_BYTES // 2), False),
        ("é" * LARGE_BYTES, True),
    ],
)
def test_text_is_large_above_the_bound_in_bytes(value, large):
    assert bool(returned(value).blobs) == large


def test_large_data_and_large_blocks_leave_a_preview():
    data = returned({"rows": list(range(50_000))})
    assert data.text.startswith('{"rows":[0,1,2')
    assert data.text.endswith("49999]}")
    assert msgspec.json.decode(data.blobs[0].read()) == {"rows": list(range(50_000))}
    blocks = returned([Text(text="a" * 40_000), Image(media_type="image/png", data=base64_text(PNG))])
    assert blocks.body is not None
    assert [type(block) for block in blocks.body.content] == [Text, Image]
    assert blocks.body.whole == blocks.blobs[0].ref


def test_characters_are_not_cut_in_a_preview():
    for shift in range(4):
        outcome = returned("x" * shift + "😀" * 20_000)
        assert "�" not in outcome.text


def test_large_media_goes_to_a_blob():
    raw = PNG + bytes(INLINE_MEDIA_BYTES)
    outcome = returned(raw)
    (blob,) = outcome.blobs
    assert outcome.body is not None
    assert outcome.body.content == (Image(media_type="image/png", blob=blob.ref),)
    assert blob.read() == raw
    resource = returned(Resource(uri="a:b", data=base64_text(raw)))
    assert resource.body is not None
    assert resource.body.content == (
        Resource(uri="a:b", blob=msgspec.structs.replace(blob.ref, media_type="application/octet-stream")),
    )


def test_spool_counts_and_drops_what_is_above_its_limit():
    spool = Spool(limit=100_000)
    for _ in range(1000):
        spool.write(b"0123456789" * 100)
    assert (spool.size, spool.kept) == (1_000_000, 100_000)
    shown = spool.preview()
    assert "of 1000000 bytes are not shown; the first 100000 bytes are kept as" in shown
    assert shown.endswith("0123456789")
    assert len(spool.blob("text/plain").read()) == 100_000
    assert WHOLE_BYTES_MAX == 256 * 1024 * 1024


# --- exceptions, extras, facts -----------------------------------------------------------------------------------


def test_exception_text_stays_out_of_the_models_sight_w22():
    try:
        raise ValueError("token=s3cret in /home/me/.config")
    except ValueError as error:
        outcome = raised(error)
    assert outcome.text == "the tool failed (ValueError); the details are in the log"
    assert outcome.body is not None
    assert "s3cret" in str(outcome.body.private_error)
    assert outcome.failure is not None
    assert "s3cret" not in outcome.failure.message
    assert outcome.error_code == "ValueError"


def test_tool_error_tells_the_model_on_purpose():
    outcome = raised(ToolError("no such city", code="not_found", hint="try 'Paris'"))
    assert (outcome.text, outcome.error_code, outcome.ok) == ("no such city\ntry 'Paris'", "not_found", False)
    hidden = raised(ToolError("password wrong", code="auth", for_model=False))
    assert hidden.text == "the tool failed (ToolError); the details are in the log"
    assert hidden.error_code == "auth"
    assert hidden.body is not None
    assert "password wrong" in str(hidden.body.private_error)


def test_exception_that_cannot_be_printed_is_still_a_result():
    class Broken(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    assert raised(Broken()).text == "the tool failed (Broken); the details are in the log"
    assert len(full_text(ValueError("x" * 10_000_000))) < PRIVATE_ERROR_CHARS_MAX + 100


def test_tool_result_says_more():
    change = FileChange(path="a", operation="create", lines_added=1)
    outcome = returned(
        ToolResult(
            value="short",
            display={"all": 1},
            labels=("untrusted",),
            changes=(change,),
            telemetry={"ms": 3},
            ok=False,
            error_code="partial",
        )
    )
    fact = outcome.fact("c1.0", duration_ms=5, tokens=2)
    assert fact == ToolFinished(
        call_id="c1.0",
        ok=False,
        error_code="partial",
        tokens=2,
        bytes=5,
        duration_ms=5,
        labels=("untrusted",),
        changes=(change,),
        body=ResultBody(content=(Text(text="short"),), display=(Data(value={"all": 1}),), telemetry={"ms": 3}),
    )


def test_facts_of_a_suspension_and_a_time_out():
    assert returned(Suspend({"job": 1}, "waits")).fact("c1.0") == ToolSuspended(
        call_id="c1.0", note="waits", body=CallBody(args={"job": 1})
    )
    told = "the tool did not end within 1.5 s and was given up; it may have had effects"
    assert timed_out(1500).fact("c1.0", tokens=9) == ToolTimedOut(
        call_id="c1.0", timeout_ms=1500, tokens=9, body=ResultBody(content=(Text(text=told),))
    )
    assert isinstance(returned(Suspend({"job": object()})), Outcome)
    assert returned(Suspend({"job": object()})).error_code == "tool_result_invalid"
