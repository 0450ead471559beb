"""The timeline by itself: days, screens of any width, and words for records of every kind."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

import msgspec
import pytest

from windlass.cli.render import TELLERS, UNTOLD, Timeline
from windlass.cli.text import Paint, cells
from windlass.events import runs, sessions, specs, turns
from windlass.events.base import Event
from windlass.events.blocks import Text
from windlass.events.usage import Usage

NOON_MS = 1_772_539_200_000  # 2026-03-03 12:00:00 UTC
DAY_MS = 86_400_000


@pytest.fixture
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def prompt(text: str) -> Event:
    return runs.PromptReceived(command_id="c", body=runs.PromptBody(content=(Text(text=text),)))


def told(*records: tuple[int, Event], width: int = 80) -> list[str]:
    view = Timeline(width=width, paint=Paint(on=False))
    return [line for seq, (at_ms, event) in enumerate(records, start=1) for line in view.lines(seq, at_ms, event)]


def test_every_day_is_named_once(utc: None):
    assert told((NOON_MS, prompt("a")), (NOON_MS + 1000, prompt("b")), (NOON_MS + 20 * DAY_MS, prompt("c"))) == [
        "       2026-03-03 UTC",
        "    1  12:00:00  prompt              a",
        "    2  12:00:01  prompt              b",
        "       2026-03-23 UTC",
        "    3  12:00:00  prompt              c",
    ]


def test_narrow_screen_has_the_text_beneath_its_label(utc: None):
    lines = told((NOON_MS, prompt("Pay everything that is due in March.")), width=40)
    assert lines[1:] == [
        "    1  12:00:00  prompt",
        "       Pay everything that is due in",
        "       March.",
    ]


@pytest.mark.parametrize("width", [20, 40, 59, 80, 200])
def test_no_line_is_wider_than_the_screen(width: int):
    event = turns.ModelReplied(
        request_id="q",
        finish="stop",
        usage=Usage(),
        body=turns.ReplyBody(blocks=(Text(text="many words " * 40 + "y" * 300),)),
    )
    assert max(map(cells, told((NOON_MS, prompt("many words " * 40)), (NOON_MS, event), width=width))) <= max(width, 38)


@pytest.mark.parametrize(
    ("event", "says"),
    [
        (
            sessions.ModelChanged(previous="a/one", model=specs.ModelRef(name="b/two"), reason="resume"),
            "model changed       a/one to b/two (resume)",
        ),
        (
            sessions.AgentChanged(
                previous=specs.AgentRef(name="clerk", digest="1"),
                agent=specs.AgentRef(name="clerk"),
                missing=("pay", "list"),
            ),
            "agent changed       clerk: its code is not the recorded one; tools: without pay, list",
        ),
        (
            sessions.LimitsChanged(run_limits=specs.Limits(turns=3, cost_nanos=250_000_000), limits=specs.Limits()),
            "limits changed      $0.2500 a run, 3 turns a run",
        ),
    ],
)
def test_changes_are_told_in_words(event: Event, says: str):
    assert told((NOON_MS, event), width=200)[1][len("    1  12:00:00  ") :] == says


def test_records_without_words_of_their_own_show_no_notation_of_a_language():
    event = sessions.MetadataChanged(metadata={"team": "red"})
    assert type(event) not in TELLERS
    (line,) = told((NOON_MS, event), width=200)[1:]
    assert line.endswith("metadata changed    metadata team red")
    assert not re.search(r"[={}\[\]']", line)
    assert set(UNTOLD) >= {"erased", "body"}
    assert "metadata" in msgspec.to_builtins(event)
