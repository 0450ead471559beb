"""One terminal drives a session, another one has its say: through the inbox, while the first goes on."""

from __future__ import annotations

import asyncio
import json
import os
import pathlib
import pwd
import re
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from windlass.cli import stores
from windlass.runtime.api.runtime_options import LEASE_MS
from windlass.store import open_store
from windlass.store import runner_names as runners
from windlass.store.base import LEASE_MS_MAX, Key

from . import work
from .screens import Place, id_of, settled, with_ids
from .terminal import PATIENCE_S, PROGRAM, Terminal
from .test_run import ran

WAIT = ("--wait", "20")
ME = pwd.getpwuid(os.getuid()).pw_name
"""Who the operating system runs the terminals as; `$USER` says somebody else there."""


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
        ("interrupt", "interrupt: it is stopped, and may continue later", "run interrupted"),
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
    assert f"{verb:<20}by {ME}: lunch" in beside.shown("logs", "s")


def test_another_process_approves_what_the_first_one_asks_about(driving: Terminal, beside: Terminal):
    start(driving, "clerk", beside, "permission asked")
    driving.wait_for("an approval holds for exactly")
    text = settled(beside.shown("approve", "s", *WAIT))
    permission = id_of(driving.folder, "s", "permission")
    assert f"approved {permission}: pay may run\ntaken by the process that drives the session" in text
    assert driving.end() == 0
    assert "← paid I-7\n  Done: I-7 is paid.\n" in driving.history()


def test_idle_is_told_from_running_and_who_runs_it_is_named(driving: Terminal, beside: Terminal):
    start(driving, "slow", beside, "model requested")
    assert beside.shown("wake", "s") == "session 's' is running: the session is at work already. Nothing was sent.\n"
    process = f"process {driving.pid}"
    assert settled_but_for_processes(beside.shown("ps")) == (
        f"SESSION  STATE    AGENT  AGE    COST  {'DRIVEN BY':<{len(process)}}  WAITING FOR  TITLE\n"
        f"s        running  slow   0 s    $0    {process}  -            Go.\n"
    )
    shown = beside.shown("show", "s")
    assert f"state    running: {process} drives it now\n" in shown
    assert "open in" not in shown
    assert shown.endswith("\n\n  windlass logs s -f\n")


def test_programs_learn_who_runs_it(driving: Terminal, beside: Terminal):
    start(driving, "slow", beside, "model requested")
    for words in (("ps", "--json"), ("show", "s", "--json")):
        answer = printed(driving, *words)
        found = answer[0] if isinstance(answer, list) else answer
        assert found["held"] is True
        runner, until_ms = found["holder"].pop("runner"), found["holder"].pop("until_ms")
        host = runners.whereabouts(runner).host
        assert found["holder"] == {"epoch": 1, "host": host, "pid": driving.pid, "here": True}
        assert 0 < until_ms - stores.now_ms() <= LEASE_MS


def test_narrow_screen_names_who_runs_it_beneath(driving: Terminal, beside: Terminal):
    start(driving, "slow", beside, "model requested")
    with Terminal(driving.folder, columns=44) as narrow:
        assert settled_but_for_processes(narrow.shown("ps")) == (
            "SESSION  STATE    AGENT  AGE    COST\n"
            "s        running  slow   0 s    $0\n"
            "  “Go.”\n"
            f"  driven by process {driving.pid}\n"
        )


def test_session_that_rests_in_a_chat_says_where_it_is_open(driving: Terminal, beside: Terminal):
    driving.start("chat", "--agent", "agents.py:free", "--session", "s")
    driving.wait_for("> ")
    driving.type("Pay.")
    driving.key("Enter")
    driving.wait_for("Done: I-7 is paid.")
    wait_until_idle(beside)
    shown = beside.shown("show", "s")
    assert "state    idle\n" in shown
    assert f"open in  process {driving.pid}\n" in shown
    driving.key("C-d")
    assert driving.end() == 0
    assert "open in" not in beside.shown("show", "s")


def wait_until_idle(beside: Terminal) -> None:
    for _ in range(100):
        if " idle " in beside.shown("ps"):
            return
    raise AssertionError("it never came to rest")


def test_process_on_another_machine_is_named_with_its_host(place: Callable[[Place], pathlib.Path], terminal: Terminal):
    terminal.folder = place("made")
    taken_by(terminal.folder, "march", "runner-1/build-7@0abc-1:4711:99")
    taken_by(terminal.folder, "done", "runner-2/" + "long-" * 8)
    taken_by(terminal.folder, "poll", "by hand \x1b[31m")
    lines = settled(terminal.shown("ps", "--agent", "clerk")).splitlines()
    assert lines == [
        "SESSION  STATE  AGENT  AGE    COST",
        "march    asked  clerk  0 s    $0",
        "  “the march one”",
        "  driven by process 7 on build-7",
        with_ids("  waits for permission <permission of march> (pay)", terminal.folder),
    ]
    assert "open in  process 4711 on build-7\n" in terminal.shown("show", "march")
    assert "open in  a process on long-long-long-long-long-l…\n" in terminal.shown("show", "done")
    assert "open in  'by hand \\x1b[31m'\n" in terminal.shown("show", "poll")
    assert terminal.shown("deny", "march", "--wait", "0").splitlines()[-2:] == [
        "kept in the inbox; process 4711 on build-7 drives the session and has not",
        "  taken it yet",
    ]


def taken_by(folder: pathlib.Path, session: str, runner: str) -> None:
    async def take() -> None:
        store = await open_store(folder / "windlass.db")
        await store.leases.claim(Key("default", session), runner=runner, ttl_ms=LEASE_MS_MAX, now_ms=stores.now_ms())
        await store.close()

    asyncio.run(take())


def settled_but_for_processes(text: str) -> str:
    """A screen whose columns are as wide as the real numbers make them."""
    numbers = re.findall(r"process (\d+)", text)
    text = settled(text)
    for number in numbers:
        text = text.replace("process 7", f"process {number}", 1)
    return text


def printed(terminal: Terminal, *words: str) -> Any:
    """What a command prints for programs, where no screen is in the way."""
    done = subprocess.run([*PROGRAM, *words], cwd=terminal.folder, capture_output=True, check=True, timeout=PATIENCE_S)
    return json.loads(done.stdout)


def test_session_that_was_cut_off_says_so_at_once(driving: Terminal, beside: Terminal):
    """Its lease still lasts, but its process is known to be gone."""
    start(driving, "slow", beside, "model requested")
    driving.kill()
    listed = beside.shown("ps")  # in columns or, if it was slow to come, in lines
    assert "running" in listed
    assert "a process that runs 'slow' (cut off)" in listed
    shown = beside.shown("show", "s")
    assert "state    running: cut off, and nobody drives it now\n" in shown
    assert shown.endswith("\n\n  windlass run --agent FILE.py:slow --session s\n")


def test_each_chat_shows_what_the_other_one_says(driving: Terminal, beside: Terminal):
    for terminal in (driving, beside):
        terminal.start("chat", "--agent", "agents.py:free", "--session", "s")
        terminal.wait_for("requests to you are marked")
        terminal.wait_until(lambda shown: shown.endswith("\n>\n"), "an input")
    driving.line("Pay I-7.")
    beside.wait_for("(completed;")
    beside.line("And once more.")
    driving.wait_for("(completed;", times=2)
    said = [line for line in driving.history().splitlines() if line.startswith(("> ", f"{ME}> "))]
    assert said == ["> Pay I-7.", f"{ME}> And once more."]
    said = [line for line in beside.history().splitlines() if line.startswith(("> ", f"{ME}> "))]
    assert said == [f"{ME}> Pay I-7.", "> And once more."]


def test_a_resumed_chat_asks_no_longer_what_another_terminal_has_answered(driving: Terminal, beside: Terminal):
    assert ran(driving.folder, "run", "--agent", "agents.py:clerk", "Pay it.", "--session", "s").returncode == 3
    driving.start("chat", "--agent", "agents.py:clerk", "--session", "s")
    driving.wait_for("it waits for your answer")
    assert "approved" in beside.shown("approve", "s", *WAIT)
    driving.wait_for("Done: I-7 is paid.")
    driving.wait_until(lambda shown: shown.endswith("\n>\n"), "an input")
    driving.line("/quit")
    assert driving.end() == 0
    assert "never retrieved" not in driving.history()
    assert driving.history().count("pay wants to run") == 1
