"""`run` in scripts and on a terminal: where text goes, exit codes, approvals, Ctrl-C, going on, other processes."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import time
from collections.abc import Iterator

import msgspec
import pytest

from . import work
from .screens import settled
from .terminal import PATIENCE_S, PROGRAM, Terminal


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    return work.make_folder(tmp_path)


@pytest.fixture
def screen(folder: pathlib.Path) -> Iterator[Terminal]:
    with Terminal(folder, columns=80) as terminal:
        yield terminal


def ran(folder: pathlib.Path, *words: str, given: str = "") -> subprocess.CompletedProcess[str]:
    environ = {key: value for key, value in os.environ.items() if key != "WINDLASS_STORE"}
    return subprocess.run(
        [*PROGRAM, *words],
        cwd=folder,
        input=given,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=environ,
    )


def test_text_goes_to_stdout_and_the_rest_to_stderr(folder: pathlib.Path):
    done = ran(folder, "run", "--agent", "agents.py:free", "Pay it.", "--session", "s")
    assert (done.returncode, done.stdout) == (0, "I will pay it.\nDone: I-7 is paid.\n")
    lines = done.stderr.splitlines()
    assert lines[:3] == [
        "session s in windlass.db · model scripted · tools pay",
        '→ pay(invoice="I-7", cents=1200)',
        "← paid I-7",
    ]
    assert lines[3].startswith("completed · 2 turns · 20 in, 20 out · $0 · ")


def test_quiet_and_json(folder: pathlib.Path):
    assert ran(folder, "run", "--agent", "agents.py:free", "Pay it.", "--quiet").stderr == ""
    done = ran(folder, "run", "--agent", "agents.py:free", "Pay it.", "--json")
    result = msgspec.json.decode(done.stdout)
    assert (result["status"], result["text"], result["turns"]) == ("completed", "Done: I-7 is paid.", 2)


def test_prompt_from_a_pipe_and_from_files(folder: pathlib.Path):
    (folder / "notes.txt").write_text("seven", encoding="utf-8")
    words = ["run", "--agent", "agents.py:free", "--session", "s", "--file", "notes.txt", "Look:"]
    assert ran(folder, *words, given="from a pipe\n").returncode == 0
    text = ran(folder, "inspect", "s").stdout
    assert "│ Look:\n│ \n│ from a pipe\n│ [file notes.txt]\n│ seven\n" in text


def test_nothing_to_do_is_wrong_usage(folder: pathlib.Path):
    done = ran(folder, "run", "--agent", "agents.py:free")
    assert done.returncode == 2
    assert "nothing to do: write a prompt, pipe one in, or name a --session to go on with" in done.stderr


def test_nobody_there_ends_asked_and_an_approval_lets_it_go_on(folder: pathlib.Path):
    asked = ran(folder, "run", "--agent", "agents.py:clerk", "Pay it.", "--session", "march")
    assert asked.returncode == 3
    assert "it waits for you: windlass show march" in asked.stderr
    assert ran(folder, "approve", "march", "--wait", "0").returncode == 0
    went_on = ran(folder, "run", "--agent", "agents.py:clerk", "--session", "march")
    assert (went_on.returncode, went_on.stdout) == (0, "Done: I-7 is paid.\n")
    assert "approved            p8 by " in ran(folder, "logs", "march").stdout


def test_approval_on_the_terminal(screen: Terminal):
    screen.start("run", "--agent", "agents.py:clerk", "Pay it.")
    screen.wait_for("> ")
    screen.line("perhaps")
    screen.wait_for("write y, s, n, n and why, or stop")
    screen.wait_for("> ", times=2)
    screen.line("n ask Ada first")
    screen.wait_for("not run (person)")
    assert screen.end() == 0


def test_going_on_asks_what_is_open(folder: pathlib.Path, screen: Terminal):
    assert ran(folder, "run", "--agent", "agents.py:poll", "Paint.", "--session", "q").returncode == 3
    screen.start("run", "--agent", "agents.py:poll", "--session", "q")
    screen.wait_for("2) blue")
    screen.wait_for("> ")
    screen.line("1")
    screen.wait_for("So be it.")
    assert screen.end() == 0


def test_ctrl_c_interrupts_and_it_can_go_on(folder: pathlib.Path, screen: Terminal):
    screen.start("run", "--agent", "agents.py:slow", "Wait.", "--session", "s")
    screen.wait_for("session s in windlass.db")
    until_requested(folder)
    screen.key("C-c")
    assert screen.end() == 130
    told = settled(screen.history()).splitlines()
    assert told[-4:] == [
        "^C",
        "(interrupting; Ctrl-C again leaves at once)",
        "interrupted · 1 turn · about 2 in, 16,384 out · $0 · 0 s",
        "go on with: windlass run --agent agents.py:slow --session s",
    ]
    assert "run interrupted" in ran(folder, "logs", "s").stdout


def until_requested(folder: pathlib.Path) -> None:
    """Waits until the model is asked: only then is there something to stop."""
    until = time.monotonic() + PATIENCE_S
    while "model requested" not in ran(folder, "logs", "s", "--all").stdout:
        assert time.monotonic() < until


def test_second_ctrl_c_leaves_at_once(folder: pathlib.Path, screen: Terminal):
    screen.start("run", "--agent", "agents.py:deaf", "Wait.", "--session", "s")
    screen.wait_for("→ stare()")
    screen.key("C-c")
    screen.wait_for("interrupting")
    screen.key("C-c")
    assert screen.end() == 130
    assert "Traceback" not in screen.history()


def test_logs_follow_what_another_process_does(folder: pathlib.Path, screen: Terminal):
    ran(folder, "run", "--agent", "agents.py:free", "Pay it.", "--session", "s")
    screen.start("logs", "s", "-f")
    screen.wait_for("run completed")
    ran(folder, "run", "--agent", "agents.py:free", "Again.", "--session", "s")
    screen.wait_for("And again.")
    screen.key("C-c")
    assert screen.end() == 130


def test_broken_agent_file_is_named_with_its_line(folder: pathlib.Path):
    (folder / "bad.py").write_text("import windlass\nx = 1 / 0\n", encoding="utf-8")
    done = ran(folder, "run", "--agent", "bad.py:agent", "Hi")
    assert done.returncode == 2
    assert done.stderr == "windlass: bad.py cannot be loaded: line 2: ZeroDivisionError: division by zero\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import sys\nsys.exit('bye')\n", "bad.py cannot be loaded: line 2: SystemExit: bye"),
        ("x = 1\n", "bad.py has no agent in it: give a variable the value windlass.Agent(...)"),
    ],
)
def test_file_without_an_agent_is_told_from_one_that_ends(folder: pathlib.Path, text: str, said: str):
    (folder / "bad.py").write_text(text, encoding="utf-8")
    done = ran(folder, "run", "--agent", "bad.py:agent", "Hi")
    assert (done.returncode, done.stderr) == (2, f"windlass: {said}\n")


@pytest.mark.long
def test_help_and_parsing_are_quick():
    """At most 150 ms of CPU over an empty program; twice that here, for machines that are busy."""

    def cpu_s(*words: str) -> float:
        found = []
        for _ in range(5):
            before = os.times()
            subprocess.run([sys.executable, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
            after = os.times()
            found.append(after.children_user + after.children_system - before.children_user - before.children_system)
        return min(found)

    empty = cpu_s("-c", "pass")
    for words in (["--help"], ["run", "--help"], ["logs", "--help"], ["approve"]):
        assert cpu_s("-m", "windlass.cli.main", *words) - empty < 0.3, words


def test_ctrl_d_leaves_a_request_open_and_ends_its_line(screen: Terminal):
    screen.start("run", "--agent", "agents.py:clerk", "Pay it.", "--session", "s")
    screen.wait_for("> ")
    screen.key("C-d")
    assert screen.end() == 3
    marked, told, what_next = settled(screen.history()).splitlines()[-3:]
    assert marked.endswith(">")
    assert told.startswith("asked · 1 turn")
    assert what_next == "it waits for you: windlass show s"
