"""The view over committed logs of real runs, and the table of the docs that says what they prove."""

from __future__ import annotations

import json

import pytest

from windlass.adapters.duet.log_lines import JsonLines
from windlass.adapters.duet.view.event_view import TERMINALS, DuetView
from windlass.adapters.log_views import views
from windlass.events.live import Live
from windlass.events.runs import RunStarted, Terminal
from windlass.runtime.streams.record import Record

from .told_runs import events_of, names, told

LIVE_STEPS = ("text_delta", "reasoning_delta")


@pytest.mark.parametrize("name", names())
def test_every_turn_of_a_run_has_one_terminal_with_the_whole_state(name):
    """A turn begins with a run behind the end of the one before; runs that follow by themselves are part of it."""
    view, open_turns, ends = DuetView(name), 0, 0
    for one in told(name):
        before = view.fold.open
        made = [event for event in view.feed(one) if event["type"] in TERMINALS]
        event = one.event if isinstance(one, Record) else None
        if isinstance(event, RunStarted) and not before:
            open_turns += 1
        assert len(made) <= 1
        assert not made or isinstance(event, Terminal)
        for end in made:
            assert isinstance(one, Record)
            ends += 1
            assert ends == open_turns, "a terminal without a turn"
            assert end["state"]["status"] != "running"
            assert end["state"]["agent"]["session"] == {"id": name, "cursor": one.cursor}
            assert set(end["usage"]) >= {"inputTokens", "outputTokens"}
    assert ends == open_turns - view.fold.open


@pytest.mark.parametrize("name", names())
def test_a_telling_without_live_events_gives_the_same_events(name):
    view = DuetView(name)
    whole = [event for one in told(name) if not isinstance(one, Live) for event in view.feed(one)]
    live = [
        event
        for event in events_of(name)
        if not (event["type"] == "step" and event["step"]["type"] in LIVE_STEPS)
        and not (event["type"] == "system" and event["level"] == "debug")
    ]
    assert whole == live


@pytest.mark.parametrize("name", names())
def test_a_call_goes_from_pending_to_one_end(name):
    order = {"pending": 0, "running": 1, "completed": 2, "error": 2}
    seen: dict[str, int] = {}
    for event in events_of(name):
        if event["type"] == "step" and event["step"]["type"] == "tool_call":
            call = event["step"]
            rank = order[call["status"]]
            assert seen.get(call["toolCallId"], 0) <= rank, call
            assert seen.get(call["toolCallId"]) != 2, "a call that has ended is told of again"
            assert ("output" in call) == (rank == 2)
            seen[call["toolCallId"]] = rank


def test_lines_are_ascii_json():
    lines = JsonLines("machine")
    made = [line for one in told("machine") for line in lines.feed(one)]
    assert [json.loads(line) for line in made] == list(events_of("machine"))
    assert all(line.isascii() for line in made)
    assert "duet" in views()
