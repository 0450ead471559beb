"""Server-sent events out of network chunks, however they are cut."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.models.transport.sse import EventParser, LineTooLong

line_text = st.text(st.characters(exclude_characters="\r\n", codec="utf-8"), max_size=12)


def test_events_are_their_data() -> None:
    stream = (
        b": a comment\nevent: x\ndata: one\nid: 7\n\ndata:two\ndata: lines\n\n\nretry: 5\n\ndata\n\ndata: left open\n"
    )
    assert EventParser().feed(stream) == [b"one", b"two\nlines"]


@given(
    events=st.lists(st.lists(line_text, min_size=1, max_size=3), max_size=5),
    end=st.sampled_from(("\n", "\r\n", "\r")),
    cuts=st.lists(st.integers(0, 400), max_size=12),
)
def test_any_cut_gives_the_same_events(events: list[list[str]], end: str, cuts: list[int]) -> None:
    stream = "".join("".join(f"data: {line}{end}" for line in event) + end for event in events).encode()
    stream += b": last\n"  # a CR alone says that its line has ended only once something follows
    parser = EventParser()
    found: list[bytes] = []
    places = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    for start, stop in itertools.pairwise(places):
        found += parser.feed(stream[start:stop])
    assert found == ["\n".join(event).encode() for event in events]


def test_every_byte_alone() -> None:
    stream = 'data: {"a": "ü世🌍"}\r\n\r\ndata: [DONE]\r\n\r\n'.encode()
    parser = EventParser()
    found = [event for at in range(len(stream)) for event in parser.feed(stream[at : at + 1])]
    assert found == ['{"a": "ü世🌍"}'.encode(), b"[DONE]"]


def test_a_line_has_a_bound() -> None:
    parser = EventParser(line_max=100)
    for _ in range(100):
        parser.feed(b"x")
    with pytest.raises(LineTooLong):
        parser.feed(b"x")
    parser = EventParser(line_max=100)
    for _ in range(100):
        parser.feed(b"data: short\n\n")
