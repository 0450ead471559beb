"""One terminal drives a session, another one has its say: through the inbox, while the first goes on."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

import pytest

from . import work
from .screens import settled
from .terminal import Terminal

WAIT = ("--wait", "20")


@pytest.fixture
def driving(tmp_path: pathlib.Path) -> Iterator[Terminal]:
    with Terminal(work.make_folder(tmp_path), columns=80) as terminal:
        yield terminal


@pytest.fixture
def beside(driving: Terminal) -> Iterator[Terminal]:
    with Terminal(driving.folder, columns=80) as terminal:
        yield terminal


def start(driving: Terminal, agent: str, beside: Terminal, event: str) -> None:
    """Has the first terminal run an agent as session `s`, until the log shows an event."""
    driving.start("run", "--agent", f"agents.py:{agent}", "Go.", "--session", "s")
    driving.wait_for("session s in windlass.db")
    beside.start("logs", "s", "--all", "-f")
    beside.wait_for(event)
    beside.key("C-c")
    assert beside.end() == 130


@pytest.mark.parametrize(
    ("verb", "told", "ended"),
    [
        ("interrupt", "interrupt: what runs is stopped and may go on later", "run interrupted"),
        ("cancel", "cancel: the run is closed for good", "run cancelled"),
    ],
)
def test_what_another_process_runs_can_be_stopped(
    verb: str, told: str, ended: str, driving: Terminal, beside: Terminal
):
    start(driving, "slow", beside, "model requested")
    assert beside.shown(verb, "s", "--reason", "lunch", *WAIT) == (
        f"{told}\ntaken by the process that drives the session; then {ended}\n"
    )
    assert driving.end() == 130
    assert settled(driving.history()).splitlines()[-2 if verb == "interrupt" else -1].startswith(verb)
    assert f"{verb:<20}by ada: lunch" in beside.shown("logs", "s")


def test_another_process_approves_what_the_first_one_asks_about(driving: Terminal, beside: Terminal):
    start(driving, "clerk", beside, "permission asked")
    driving.wait_for("what an approval is bound to")
    text = settled(beside.shown("approve", "s", *WAIT))
    assert "approved p8: pay may run\ntaken by the process that drives the session" in text
    assert driving.end() == 0
    assert "← paid I-7\n  Done: I-7 is paid.\n" in driving.history()


def test_idle_is_told_from_running(driving: Terminal, beside: Terminal):
    start(driving, "slow", beside, "model requested")
    assert beside.shown("wake", "s") == "session 's' is running: the session is at work already. Nothing was sent.\n"
    assert settled(beside.shown("ps")) == (
        "SESSION  STATE    AGENT  AGE    COST  WAITING FOR  TITLE\n"
        "s        running  slow   0 s    $0    -            Go.\n"
    )
    shown = beside.shown("show", "s")
    assert "state    running: a process drives it now\n" in shown
    assert shown.endswith("\n\n  windlass logs s -f\n")


def test_session_that_was_cut_off_says_so_once_nobody_holds_it(driving: Terminal, beside: Terminal):
    start(driving, "slow", beside, "model requested")
    driving.kill()
    give_up_lease(driving.folder / "windlass.db")
    assert settled(beside.shown("ps")) == (
        "SESSION  STATE    AGENT  AGE    COST  WAITING FOR                    TITLE\n"
        "s        running  slow   0 s    $0    whoever runs 'slow' (cut off)  Go.\n"
    )
    shown = beside.shown("show", "s")
    assert "state    running: cut off, and nobody drives it now\n" in shown
    assert shown.endswith("\n\n  windlass run --agent FILE.py:slow --session s\n")


def give_up_lease(store: pathlib.Path) -> None:
    """Has the lease of a dead process be over, which else takes a few seconds."""
    import apsw

    base = apsw.Connection(str(store))
    base.execute("update sessions set until_ms = 0")
    base.close()
