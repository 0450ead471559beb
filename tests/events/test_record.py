"""The stored form: one line per append, and no byte of it can change unnoticed."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.events import builders
from windlass.events.base import Event
from windlass.events.commands import PromptBody, PromptReceived
from windlass.events.errors import Damaged, UsageError
from windlass.events.runs import RunStarted
from windlass.events.sessions import NoticeGiven
from windlass.events.stored import codec, record
from windlass.events.tools.calls import CallReceived, ToolAllowed, ToolRequested, UserCallBody
from windlass.events.values.blocks import Text

LOG: list[list[Event]] = [
    [
        PromptReceived(command_id="a", body=PromptBody(content=(Text(text='say "hé"\n'),))),
        RunStarted(run_id="r2", trigger="prompt", commands=("a",)),
    ],
    [NoticeGiven(code="mcp", message="server is back")],
    [
        CallReceived(command_id="b", tool="add", body=UserCallBody(args={"x": [1, 2.5, None]})),
        ToolRequested(call_id="c4.0", tool="add", by_person=True),
        ToolAllowed(call_id="c4.0", by="default"),
    ],
]


def sealed_log() -> list[record.Sealed]:
    found: list[record.Sealed] = []
    for number, events in enumerate(LOG):
        seq = found[-1].last_seq + 1 if found else 1
        prev = found[-1].hash if found else record.GENESIS
        salts = iter(record.stored_text(bytes([number, index]) * 6) for index in range(len(events)))
        found.append(codec.encode(events, prev_hash=prev, seq=seq, at_ms=1_000 + number, epoch=2, salt=salts.__next__))
    return found


def verify(lines: list[bytes]) -> str:
    """Checks the lines as one log, from its beginning; returns the last hash."""
    prev, seq = record.GENESIS, 1
    for data in lines:
        line = record.check(data, prev_hash=prev, expected_seq=seq)
        prev, seq = line.hash, line.seq + len(line.events)
    return prev


LINES = [append.data for append in sealed_log()]
WHOLE = b"\n".join(LINES)


def noticed(data: bytes) -> bool:
    """Whether a changed log is refused as damaged, or not the same log any more; nothing else may be raised."""
    try:
        return verify(data.split(b"\n")) != sealed_log()[-1].hash
    except Damaged:
        return True


def test_the_log_verifies_and_reads_back():
    assert verify(LINES) == sealed_log()[-1].hash
    read = [event for data in LINES for event in codec.decode(data).events]
    written = [event for events in LOG for event in events]
    assert [type(event) for event in read] == [type(event) for event in written]


def test_no_single_bit_can_change_unnoticed():
    for place in range(len(WHOLE)):
        for bit in range(8):
            changed = bytearray(WHOLE)
            changed[place] ^= 1 << bit
            assert noticed(bytes(changed)), f"byte {place}, bit {bit}: {bytes(changed)!r}"


@pytest.mark.parametrize("byte", [b"0", b"9", b" ", b'"', b"\\", b"}", b"\x00", b"\xff"])
def test_no_single_byte_can_be_overwritten_unnoticed(byte):
    for place in range(len(WHOLE)):
        changed = WHOLE[:place] + byte + WHOLE[place + 1 :]
        if changed != WHOLE:
            assert noticed(changed), f"byte {place} became {byte!r}"


def test_no_byte_can_be_lost_and_no_tail_cut_unnoticed():
    for place in range(len(WHOLE)):
        assert noticed(WHOLE[:place] + WHOLE[place + 1 :]), f"byte {place} lost"
        assert noticed(WHOLE[:place]), f"cut at {place}"


@given(st.data())
def test_a_stretch_of_bytes_cannot_be_replaced_unnoticed(data):
    start = data.draw(st.integers(0, len(WHOLE) - 1))
    end = data.draw(st.integers(start, min(len(WHOLE), start + 12)))
    changed = WHOLE[:start] + data.draw(st.binary(max_size=12)) + WHOLE[end:]
    # Blanks between the parts of a line are no content, so a log that only gained some is the same log.
    if b"".join(changed.split()) != b"".join(WHOLE.split()):
        assert noticed(changed)


@pytest.mark.parametrize("order", [(1, 0, 2), (0, 2, 1), (0, 0, 1, 2), (0, 2), (1, 2), (2,)])
def test_appends_can_neither_change_places_nor_be_left_out_nor_come_twice(order):
    with pytest.raises(Damaged, match=r"append begins at \d, expected \d"):
        verify([LINES[index] for index in order])


def test_an_append_of_another_log_is_refused_though_its_own_numbers_fit():
    other = codec.encode(LOG[1], prev_hash="another", seq=3, at_ms=1_001, epoch=2, salt=builders.salt)
    with pytest.raises(Damaged, match="append 3 does not match its hash") as caught:
        verify([LINES[0], other.data])
    assert caught.value.seq == 3


def test_the_hash_covers_the_header_and_the_split_between_events():
    parts = [(b'{"a":1}', ""), (b'{"b":2}', "")]
    seen = {
        record.chain_hash("p", 1, 2, 3, parts),
        record.chain_hash("q", 1, 2, 3, parts),
        record.chain_hash("p", 2, 2, 3, parts),
        record.chain_hash("p", 1, 3, 3, parts),
        record.chain_hash("p", 1, 2, 4, parts),
        record.chain_hash("p", 1, 2, 3, parts[::-1]),
        record.chain_hash("p", 1, 2, 3, [(b'{"a":1}{"b":2}', "")]),
        record.chain_hash("p", 1, 2, 3, [(b'{"a":1}', "x"), (b'{"b":2}', "")]),
        record.chain_hash("p", 1, 2, 3, [(b'{"a":1}', ""), (b'{"b":2}', "x")]),
    }
    assert len(seen) == 9


def test_the_same_body_has_another_digest_under_another_salt():
    """So that a short content cannot be guessed from the digest that an erasure leaves."""
    body = b'{"text":"yes"}'
    assert record.digest_text(body, key=b"one") != record.digest_text(body, key=b"two")


UNREAD = "not a readable append: "


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", UNREAD + "Input data was truncated"),
        (b"{}", UNREAD + "Object missing required field `seq`"),
        (b"null", UNREAD + "Expected `object`, got `null`"),
        (b"[]", UNREAD + "Expected `object`, got `array`"),
        (b"\xff\xfe", UNREAD + "JSON is malformed: invalid character (byte 0)"),
        (b'{"seq":1,"at":1,"epoch":1,"events":[],"hash":"%s"}', "append at 1 is empty or misnumbered"),
        (b'{"seq":0,"at":1,"epoch":1,"events":[[{}]],"hash":"%s"}', "append at 0 is empty or misnumbered"),
        (
            b'{"seq":1.5,"at":1,"epoch":1,"events":[[{}]],"hash":"%s"}',
            UNREAD + "Expected `int`, got `float` - at `$.seq`",
        ),
        (
            b'{"seq":1,"at":1,"epoch":1,"events":[{}],"hash":"%s"}',
            UNREAD + "Expected `array`, got `object` - at `$.events[0]`",
        ),
        (
            b'{"seq":1,"at":1,"epoch":1,"events":[[]],"hash":"%s"}',
            UNREAD + "Expected `array` of at least length 1, got 0 - at `$.events[0]`",
        ),
        (b'{"seq":1,"at":1,"epoch":1,"events":[[{}]],"hash":"%s"}', "append 1 does not match its hash"),
    ],
)
def test_what_is_not_an_append_of_ours_is_damaged_and_that_is_said_of_it(data, why):
    """Its hash is that of an append without events: it must be refused for what it is, not for a wrong hash alone."""
    sealed = record.chain_hash(record.GENESIS, 1, 1, 1, []).encode()
    with pytest.raises(Damaged) as caught:
        record.check(data % sealed if b"%s" in data else data, prev_hash=record.GENESIS, expected_seq=1)
    assert str(caught.value) == why


# --- erasure -----------------------------------------------------------------------------------------------------

ERASED = [record.erase(LINES[0], 1, by="legal", why="asked to", at_ms=9), *LINES[1:]]


def test_an_erased_log_has_the_same_hashes_and_the_content_is_gone():
    assert verify(ERASED) == verify(LINES)
    assert b"say" in b"".join(LINES)
    assert b"say" not in b"".join(ERASED)


def test_erasing_twice_changes_nothing():
    assert record.erase(ERASED[0], 1, by="other", why="other", at_ms=99) == ERASED[0]


def test_erasing_leaves_the_other_events_of_the_append_alone():
    before, after = codec.decode(LINES[0]).events, codec.decode(ERASED[0]).events
    assert after[1:] == before[1:]


@pytest.mark.parametrize(
    ("seq", "complaint"),
    [(2, "event 2 has no content to erase"), (0, "event 0 is not in the append"), (3, "event 3 is not in the append")],
)
def test_only_content_can_be_erased(seq, complaint):
    with pytest.raises(UsageError, match=complaint):
        record.erase(LINES[0], seq, by="legal", why="asked to", at_ms=9)


def test_the_chain_covers_all_of_an_erased_log_but_what_the_tombstone_says_of_itself():
    """Who erased and why is the record `content.erased`, which the chain covers; the tombstone only repeats it."""
    own = msgspec.json.encode({"by": "legal", "why": "asked to", "at_ms": 9})[1:-1]
    start = ERASED[0].index(own)
    unnoticed = set()
    for place in range(len(ERASED[0])):
        for bit in range(7):  # the eighth makes bytes that are no text
            changed = bytearray(ERASED[0])
            changed[place] ^= 1 << bit
            if not noticed(b"\n".join([bytes(changed), *LINES[1:]])):
                unnoticed.add(place)
    assert unnoticed
    assert unnoticed <= set(range(start, start + len(own)))


def test_a_body_cannot_be_passed_off_as_a_tombstone():
    forged = LINES[0].replace(f',"{record.stored_text(bytes([0, 0]) * 6)}"'.encode(), b"")
    assert forged != LINES[0]
    with pytest.raises(Damaged, match="body without salt is not a tombstone"):
        verify([forged, *LINES[1:]])


def test_a_line_written_before_can_be_taken_over_only_where_it_belongs():
    first, second, _ = sealed_log()
    assert record.resealed(second.data, prev_hash=first.hash) == second
    with pytest.raises(Damaged):
        record.resealed(second.data, prev_hash=record.GENESIS)
