"""The view over committed logs of real runs, and the table of the docs that says what they prove."""

from __future__ import annotations

import collections
import json
import pathlib
import re

import pytest

from tests.adapters.committed_runs import names, told
from windlass.adapters.log_views import view_named, views
from windlass.adapters.meerkat.codec import agent_events as events
from windlass.adapters.meerkat.codec.envelope import order
from windlass.adapters.meerkat.codec.wire import builtins, read_envelope
from windlass.adapters.meerkat.log_lines import JsonLines, VerboseLines
from windlass.adapters.meerkat.view.event_view import MeerkatView
from windlass.events.errors import UsageError
from windlass.events.live import Live

from .told_runs import envelopes, kinds

PAGE = pathlib.Path(__file__).parents[3] / "docs" / "tasks" / "meerkat.md"
TYPES = [str(event.__struct_config__.tag) for event in events.EVENTS]


@pytest.mark.parametrize("name", names())
def test_the_strict_decoder_reads_every_event_of_a_run(name):
    for envelope in envelopes(name):
        assert read_envelope(builtins(envelope)) == envelope


@pytest.mark.parametrize("name", names())
def test_a_telling_without_live_events_gives_the_same_events(name):
    view = MeerkatView(name)
    whole = [made for one in told(name) if not isinstance(one, Live) for made in view.feed(one)]
    live = (events.TextDelta, events.ReasoningDelta, events.StreamTruncated)
    assert whole == [one for one in envelopes(name) if not isinstance(one.payload, live)]
    assert [one.seq for one in whole] == list(range(1, len(whole) + 1))
    assert len({order(one) for one in whole}) == len(whole)


@pytest.mark.parametrize("name", names())
def test_a_call_is_asked_for_once_and_has_one_result(name):
    asked: collections.Counter[str] = collections.Counter()
    given: collections.Counter[str] = collections.Counter()
    for envelope in envelopes(name):
        match envelope.payload:
            case events.ToolCallRequested(id=call_id):
                asked[call_id] += 1
            case events.ToolResultReceived(id=call_id):
                assert asked[call_id] == 1
                given[call_id] += 1
    assert not {call_id for call_id, count in (asked | given).items() if count > 1}


def test_lines_are_ascii_json_and_words():
    lines, said = JsonLines("output"), VerboseLines("output")
    records = [one for one in told("output") if not isinstance(one, Live)]
    made = [line for one in records for line in lines.feed(one)]
    assert [json.loads(line) for line in made] == [
        builtins(one) for one in envelopes("output") if type(one.payload) is not events.TextDelta
    ]
    assert all(line.isascii() for line in made)
    assert any("━━━ Turn 1" in line for one in records for line in said.feed(one))


def test_views_are_found_by_their_folders():
    assert {"meerkat", "meerkat-verbose"} <= set(views())
    with pytest.raises(UsageError, match=r"there is no such view; there are .*meerkat"):
        view_named("mercat", "s")


def test_the_table_is_what_the_runs_prove():
    table = dict(re.findall(r"^\| `([a-z_]+)` \| (.+) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE))
    assert table == {kind: f"run `{kinds()[kind]}`" for kind in TYPES}
