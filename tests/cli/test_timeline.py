"""The timeline by itself: days, screens of any width, and words for records of every kind."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

import msgspec
import pytest

from tests.kernel.session import ASK_PAY, TOOLS, Session, call
from windlass.cli.screen.timeline import TELLERS, UNTOLD, Timeline, TimelinePage
from windlass.cli.terminal.text import Paint, cells
from windlass.events.base import Auth, Event
from windlass.events.changes import (
    ChangePins,
    ChangeReceived,
    ChangeTitle,
    LimitsChanged,
    MetadataChanged,
    ModelChanged,
)
from windlass.events.commands import PromptBody, PromptReceived
from windlass.events.sessions import AgentChanged
from windlass.events.tools.permissions import PermissionApproved
from windlass.events.turns import ModelReplied, ReplyBody
from windlass.events.values.blocks import Text
from windlass.events.values.models import ModelRef
from windlass.events.values.setup import AgentRef, Limits
from windlass.events.values.usage import Usage
from windlass.events.workspace import InstructionsRendered
from windlass.runtime.streams.record import Record

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
    return PromptReceived(command_id="c", body=PromptBody(content=(Text(text=text),)))


def told(*records: tuple[int, Event], width: int = 80) -> list[str]:
    view, page = Timeline(), TimelinePage(width=width, paint=Paint(on=False))
    fed = [Record(seq=seq, at_ms=at_ms, event=event, first=seq) for seq, (at_ms, event) in enumerate(records, start=1)]
    return [line for record in fed for entry in view.feed(record) for line in page.lines(entry)]


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


def test_label_that_fills_its_column_does_not_touch_what_is_said(utc: None):
    view, page = Timeline(all_records=True), TimelinePage(width=80, paint=Paint(on=False))
    event = InstructionsRendered(name="clerk", digest="d", tokens=9)
    (entry,) = view.feed(Record(seq=2, at_ms=NOON_MS, event=event, first=2))
    assert list(page.lines(entry))[1:] == [
        "    2  12:00:00  instructions rendered",
        "                                     name clerk, digest d, tokens 9",
    ]


@pytest.mark.parametrize("width", [20, 40, 59, 80, 200])
def test_no_line_is_wider_than_the_screen(width: int):
    event = ModelReplied(
        request_id="q",
        finish="stop",
        usage=Usage(),
        body=ReplyBody(blocks=(Text(text="many words " * 40 + "y" * 300),)),
    )
    assert max(map(cells, told((NOON_MS, prompt("many words " * 40)), (NOON_MS, event), width=width))) <= max(width, 38)


@pytest.mark.parametrize(
    ("event", "says"),
    [
        (
            ModelChanged(previous="a/one", model=ModelRef(name="b/two"), reason="resume"),
            "model changed       a/one to b/two (resume)",
        ),
        (
            AgentChanged(
                previous=AgentRef(name="clerk", digest="1"),
                agent=AgentRef(name="clerk"),
                missing=("pay", "list"),
            ),
            "agent changed       clerk: its code is not the recorded one; tools: without pay, list",
        ),
        (
            LimitsChanged(run_limits=Limits(turns=3, cost_nanos=250_000_000), limits=Limits()),
            "limits changed      $0.2500 a run, 3 turns a run",
        ),
        (
            ChangeReceived(command_id="c", actor="ada", change=ChangeTitle(title="March")),
            "change asked for    title March (by ada)",
        ),
        (
            ChangeReceived(command_id="c", actor="ada", change=ChangePins(pin=(3, 7))),
            "change asked for    pins pin 3, 7 (by ada)",
        ),
    ],
)
def test_changes_are_told_in_words(event: Event, says: str):
    assert told((NOON_MS, event), width=200)[1][len("    1  12:00:00  ") :] == says


def test_records_without_words_of_their_own_show_no_notation_of_a_language():
    event = MetadataChanged(metadata={"team": "red"})
    assert type(event) not in TELLERS
    (line,) = told((NOON_MS, event), width=200)[1:]
    assert line.endswith("metadata changed    metadata team red")
    assert not re.search(r"[={}\[\]']", line)
    assert set(UNTOLD) >= {"erased", "body"}
    assert "metadata" in msgspec.to_builtins(event)


def test_a_request_that_is_put_again_says_what_changed():
    session = Session(policy=ASK_PAY)
    session.prompt()
    session.reply("", call("pay"))
    session.nobody()
    other = tuple(msgspec.structs.replace(spec, digest=f"{spec.digest}2") for spec in TOOLS)
    session.crash(tools=other)
    session.prepare(session.called())
    shown = "\n".join(told(*((NOON_MS, event) for event in session.events()), width=200))
    assert "judged again        pay [c6.0]: the tool's code has changed" in shown
    assert "may pay [c6.0] run? (rule: ask about pay); asked again: the tool's code has changed" in shown


@pytest.mark.parametrize(("auth", "actor"), [("none", "root (once, auth os_user)"), ("os_user", "root")])
def test_an_approval_says_last_how_it_is_known_who_gave_it(utc: None, auth: Auth, actor: str):
    event = PermissionApproved(command_id="c", actor=actor, auth=auth, request_id="p8", digest="d")
    assert told((NOON_MS, event), width=200)[-1].endswith(f"p8 by {actor} (once, auth {auth})")
