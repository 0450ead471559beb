"""Logs of other versions: what is not known yet is kept byte for byte, what is old is brought up to date."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.events import builders
from windlass.events.base import ignorable, plain_name, version_of
from windlass.events.changes import TitleChanged
from windlass.events.errors import CodecError, NeedsNewer
from windlass.events.runs import WakeReceived
from windlass.events.stored import codec, record
from windlass.events.stored.registry import BY_TAG, UPCASTERS, Upcaster

SKIPPABLE = b'{ "type":"tea.poured?",  "cup": 1.50, "cup": [null] }'
NEEDED = b'{"hot":true,"type":"tea.poured@3"}'
BODY = b'{"taste" :  "strong"}'


def line(*entries: tuple[bytes, bytes]) -> bytes:
    stored = [(skeleton, body, builders.SALT if body else "") for skeleton, body in entries]
    return record.seal(record.GENESIS, 1, 1_000, 1, stored).data


# --- newer -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("skeleton", [SKIPPABLE, NEEDED])
@pytest.mark.parametrize("body", [b"", BODY])
def test_an_event_that_is_not_known_is_kept_byte_for_byte(skeleton, body):
    known = msgspec.json.encode(WakeReceived(command_id="k"))
    data = line((known, b""), (skeleton, body))
    fact, kept = codec.decode(data).events
    assert fact == WakeReceived(command_id="k")
    assert isinstance(kept, codec.Unknown)
    assert (kept.skeleton, kept.body) == (skeleton, body)
    again = codec.encode([fact, kept], prev_hash=record.GENESIS, seq=1, at_ms=1_000, epoch=1, salt=builders.salt)
    assert again.data == data


def test_an_unknown_event_may_be_skipped_only_where_its_tag_says_so():
    skippable, needed = codec.decode(line((SKIPPABLE, b""), (NEEDED, b""))).events
    assert codec.require_known(skippable, 1) is None
    with pytest.raises(NeedsNewer) as caught:
        codec.require_known(needed, 2)
    assert (caught.value.tag, caught.value.seq) == ("tea.poured@3", 2)
    assert "upgrade windlass to write to this session" in str(caught.value)


def test_a_known_event_is_handed_on():
    event = WakeReceived(command_id="k")
    assert codec.require_known(event, 1) is event


def test_a_newer_version_of_a_known_name_is_not_read_as_the_old_one():
    newer = b'{"type":"title.changed@2","title":{"text":"x","language":"en"}}'
    assert isinstance(codec.decode(line((newer, b""))).events[0], codec.Unknown)


def test_an_unknown_body_can_be_erased_too():
    data = line((NEEDED, BODY))
    erased = record.erase(data, 1, by="legal", why="asked to", at_ms=7)
    record.check(erased, prev_hash=record.GENESIS, expected_seq=1)
    assert BODY not in erased


@pytest.mark.parametrize("skeleton", [b"{}", b'{"type":null}', b'{"type":["x"]}', b"[]", b'"tea.poured"', b"7"])
def test_what_has_no_tag_is_no_event(skeleton):
    with pytest.raises(CodecError, match=r"^event 1: "):
        codec.decode(line((skeleton, b"")))


# --- older -------------------------------------------------------------------------------------------------------


@pytest.fixture
def older() -> Iterator[dict[str, Upcaster]]:
    """The table of upcasters, as it was again afterwards."""
    before = dict(UPCASTERS)
    yield UPCASTERS
    UPCASTERS.clear()
    UPCASTERS.update(before)


def renamed(old: str, new: str, tag: str) -> Upcaster:
    """An upcaster that renames one field and says the next tag."""

    def upcast(value: dict[str, Any], body: Any) -> tuple[dict[str, Any], Any]:
        return {new if key == old else key: tag if key == "type" else inner for key, inner in value.items()}, body

    return upcast


def test_old_versions_are_brought_up_to_date_step_by_step(older):
    older["heading.changed"] = renamed("heading", "name", "heading.changed@2")
    older["heading.changed@2"] = renamed("name", "title", "title.changed")
    old = [b'{"type":"heading.changed","heading":"a"}', b'{"type":"heading.changed@2","name":"b"}']
    found = codec.decode(line(*((skeleton, b"") for skeleton in old))).events
    assert found == [TitleChanged(title="a"), TitleChanged(title="b")]


def test_an_old_event_beside_current_ones_keeps_its_place(older):
    older["heading.changed"] = renamed("heading", "title", "title.changed")
    current = msgspec.json.encode(WakeReceived(command_id="k"))
    found = codec.decode(line((current, b""), (b'{"type":"heading.changed","heading":"a"}', b""), (SKIPPABLE, b"")))
    assert found.events[:2] == [WakeReceived(command_id="k"), TitleChanged(title="a")]
    assert isinstance(found.events[2], codec.Unknown)


def test_an_old_event_that_is_wrong_is_refused_under_its_own_tag(older):
    older["heading.changed"] = renamed("heading", "title", "title.changed")
    with pytest.raises(CodecError) as caught:
        codec.decode(line((b'{"type":"heading.changed","heading":7}', b"")))
    assert str(caught.value) == "event 1: heading.changed: $.title: expected str, got number"


@pytest.mark.parametrize("tag", ["heading.changed", "heading.changed@9"])
def test_an_upcaster_that_leads_nowhere_ends_in_an_error_not_in_a_loop(older, tag):
    older["heading.changed"] = renamed("heading", "title", tag)
    with pytest.raises(CodecError, match=r"^event 1: heading\.changed: \$\.type: Invalid value "):
        codec.decode(line((b'{"type":"heading.changed","heading":"a"}', b"")))


def upcasters_that_lead_nowhere(table: dict[str, Upcaster], current: dict[str, Any]) -> list[str]:
    """Versions that no chain of upcasters brings up to date: each must lead to the next version of its name."""
    found = [f"{tag} is current and must not be upcast" for tag in table if tag in current]
    names = {plain_name(tag): version_of(tag) for tag in current}
    for tag in table:
        name = plain_name(tag)
        if name not in names:
            found.append(f"{tag} has no current version")
            continue
        steps = [f"{name}@{step}" if step > 1 else name for step in range(version_of(tag) + 1, names[name])]
        known = {other.removesuffix("?") for other in table}
        found += [f"{tag} stops at {step}" for step in steps if step not in known]
        if version_of(tag) >= names[name]:
            found.append(f"{tag} does not lead upwards")
    return found


def identity(value: dict[str, Any], body: Any) -> tuple[dict[str, Any], Any]:
    return value, body


def test_every_upcaster_leads_to_a_current_version():
    assert upcasters_that_lead_nowhere(UPCASTERS, BY_TAG) == []


@pytest.mark.parametrize(
    ("olds", "current", "complaint"),
    [
        (["tea.poured"], "tea.poured", ["tea.poured is current and must not be upcast", "tea.poured does not lead upwards"]),
        (["tea.poured"], "tea.poured@3", ["tea.poured stops at tea.poured@2"]),
        (["tea.poured@4"], "tea.poured@3", ["tea.poured@4 does not lead upwards"]),
        (["tea.poured"], "cup.filled", ["tea.poured has no current version"]),
        (["tea.poured", "tea.poured@2?"], "tea.poured@3", []),
        ([], "tea.poured@3", []),
    ],
)  # fmt: skip
def test_gaps_and_circles_among_upcasters_are_named(olds, current, complaint):
    table: dict[str, Upcaster] = dict.fromkeys(olds, identity)
    assert upcasters_that_lead_nowhere(table, {current: object}) == complaint


# --- tags --------------------------------------------------------------------------------------------------------


@given(
    st.from_regex(r"[a-z][a-z_]{0,8}\.[a-z][a-z_]{0,8}", fullmatch=True),
    st.none() | st.integers(2, 999),
    st.booleans(),
)
def test_a_tag_is_a_name_then_its_version_then_its_mark(name, version, skippable):
    tag = f"{name}{'' if version is None else f'@{version}'}{'?' if skippable else ''}"
    assert (plain_name(tag), version_of(tag), ignorable(tag)) == (name, version or 1, skippable)
