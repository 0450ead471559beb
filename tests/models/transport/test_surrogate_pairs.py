"""What a provider may do to characters and nesting: halves that arrive apart, and arguments without a bottom."""

from __future__ import annotations

import msgspec
import pytest

from windlass.models.base import ARGUMENT_DEPTH_MAX, TOO_DEEP, complete_args, is_deep
from windlass.models.transport.surrogate_pairs import SurrogatePairs
from windlass.models.wires.partial_reply import whole_object


def texts(*events: bytes) -> list[str]:
    pairs = SurrogatePairs()
    return [msgspec.json.decode(one)["t"] for event in events for one in pairs.joined([event])]


@pytest.mark.parametrize(
    ("events", "said"),
    [
        ([rb'{"t":"a\ud83d"}', rb'{"t":"\ude00b"}'], ["a", "😀b"]),
        ([rb'{"t":"\uD83D"}', rb'{"t":""}', rb'{"t":"\uDE00"}'], ["", "", "😀"]),
        ([rb'{"t":"\ud83d\ude00"}'], ["😀"]),
        ([rb'{"t":"\ud83d"}', rb'{"t":"\ud83d\ude00"}', rb'{"t":"\ude00"}'], ["", "😀", "😀"]),
        ([rb'{"t":"\ude00 alone"}'], ["� alone"]),
        ([rb'{"t":"\ud83d"}', rb'{"t":"\ud83d"}', rb'{"t":"\ude00"}'], ["", "�", "😀"]),
        ([rb'{"t":"\\ud83d is text"}'], ["\\ud83d is text"]),
        ([rb'{"t":"\\\ud83d"}', rb'{"t":"\ude00"}'], ["\\", "😀"]),
        ([b'{"t":"plain"}'], ["plain"]),
    ],
)
def test_halves_of_a_character_are_put_together_over_events(events, said):
    assert texts(*events) == said


def test_what_needs_no_mending_is_not_copied():
    events = [b'{"t":"plain"}', rb'{"t":"\u00e9"}']
    assert SurrogatePairs().joined(events) is events


@pytest.mark.parametrize("depth", [ARGUMENT_DEPTH_MAX + 1, 500, 5_000, 100_000])
def test_arguments_nested_too_deeply_are_an_argument_error(depth):
    raw = '{"a":' + "[" * depth + "]" * depth + "}"
    assert complete_args(raw) == (None, TOO_DEEP)


def test_arguments_may_be_nested_as_deep_as_is_said():
    inner: list[object] = []
    for _ in range(ARGUMENT_DEPTH_MAX - 2):
        inner = [inner]
    assert not is_deep({"a": inner})
    assert whole_object({"a": [inner]}) == (None, TOO_DEEP)
