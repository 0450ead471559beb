"""Small values with rules of their own: blocks with one source, usage that adds up, prices that round up, shares."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.events.budgets import BudgetWarned
from windlass.events.live import StreamTruncated, TextDelta
from windlass.events.values.blocks import (
    Audio,
    BlobRef,
    CallSlot,
    Document,
    Image,
    Refusal,
    Resource,
    Terminal,
    Text,
    plain_text,
)
from windlass.events.values.usage import Price, Usage

BLOB = BlobRef(digest="d", size=3)
COUNTS = st.integers(0, 10**9)
USAGES = st.builds(
    Usage, input_tokens=COUNTS, output_tokens=COUNTS, cache_read_tokens=COUNTS, cache_write_tokens=COUNTS
)


@pytest.mark.parametrize("cls", [Image, Audio, Document])
def test_a_picture_sound_or_document_has_exactly_one_source(cls):
    assert cls(media_type="x/y", data="aGk=").blob is None
    assert cls(media_type="x/y", blob=BLOB).data is None
    for sources in ({}, {"data": "aGk=", "blob": BLOB}):
        with pytest.raises(ValueError, match="needs exactly one source"):
            cls(media_type="x/y", **sources)


def test_an_embedded_resource_is_text_or_data_or_a_blob():
    for source in ({"text": "hi"}, {"data": "aGk="}, {"blob": BLOB}, {"text": ""}):
        Resource(uri="file:///a", **source)
    for sources in ({}, {"text": "hi", "data": "aGk="}, {"text": "hi", "data": "aGk=", "blob": BLOB}):
        with pytest.raises(ValueError, match="resource block needs exactly one source"):
            Resource(uri="file:///a", **sources)


def test_blocks_keep_their_order_and_say_what_they_are():
    blocks = (Text(text="a"), Image(media_type="image/png", data="aGk="), Text(text="b"))
    wire = msgspec.json.decode(msgspec.json.encode(blocks))
    assert [block["type"] for block in wire] == ["text", "image", "text"]
    assert wire[1] == {"type": "image", "media_type": "image/png", "data": "aGk="}


def test_the_text_of_blocks_is_what_can_be_read():
    blocks = (Text(text="a"), Text(text=""), Terminal(text="b", exit_code=1))
    assert plain_text(blocks) == "a\nb"
    assert plain_text((Refusal(text="no"), CallSlot(ordinal=0))) == "no"


@given(USAGES, USAGES, USAGES)
def test_usage_adds_up_in_any_order(one, two, three):
    assert (one + two) + three == one + (two + three) == three + two + one
    assert one + Usage() == one


def test_an_estimate_makes_the_sum_an_estimate():
    assert (Usage(input_tokens=1) + Usage(input_tokens=1, estimated=True)).estimated


@given(USAGES, st.integers(0, 10**8), st.integers(0, 10**8))
def test_a_cost_is_never_rounded_down_and_never_counts_a_cached_token_twice(usage, price_in, price_out):
    price = Price(input=price_in, output=price_out)
    exact = usage.input_tokens * price_in + usage.output_tokens * price_out
    cost = price.cost_nanos(usage)
    assert (cost - 1) * 1_000 < exact <= cost * 1_000 or exact == cost == 0


def test_cached_tokens_have_their_own_price():
    price = Price(input=3_000_000, output=15_000_000, cache_read=300_000, cache_write=3_750_000)
    usage = Usage(input_tokens=1_000, output_tokens=10, cache_read_tokens=600, cache_write_tokens=300)
    assert price.cost_nanos(usage) == 100 * 3_000 + 600 * 300 + 300 * 3_750 + 10 * 15_000


@given(st.integers(0, 10**12), st.integers(0, 10**12))
def test_a_used_share_is_a_fraction_between_0_and_1(used, allowed):
    warned = BudgetWarned(limit="tokens", scope="run", used=used, allowed=allowed)
    assert 0 <= warned.fraction <= 1
    if allowed > used:
        assert warned.fraction == used / allowed


def test_a_live_event_has_no_seq_of_its_own():
    assert "seq" not in TextDelta.__struct_fields__
    event = TextDelta(after_seq=5, index=2, request_id="m5", text="hi")
    assert msgspec.json.decode(msgspec.json.encode(event)) == {
        "type": "text.delta",
        "after_seq": 5,
        "index": 2,
        "request_id": "m5",
        "text": "hi",
    }


def test_a_reader_that_was_too_slow_is_told_where_to_go_on():
    event = StreamTruncated(reason="disconnected", dropped=3, cursor="march:7:abc")
    assert msgspec.json.decode(msgspec.json.encode(event), type=StreamTruncated) == event
