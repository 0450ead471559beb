"""`run` in scripts and on a terminal: where text goes, exit codes, approvals, Ctrl-C, going on, other processes."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import time

import msgspec
import pytest

from . import work
from .screen import PROGRAM, Screen, shown


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    return work.make_folder(tmp_path)


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
    text = shown(["inspect", "s"], folder)
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
    assert "approved            p8 by " in shown(["logs", "march"], folder)


def test_approval_on_the_terminal(folder: pathlib.Path):
    with Screen(["run", "--agent", "agents.py:clerk", "Pay it."], folder) as screen:
        screen.wait_for('"cents": 1200')
        screen.wait_for("> ")
        screen.type("perhaps\n")
        screen.wait_for("write y, s, n, n and why, or stop")
        screen.wait_for("> ")
        screen.type("n ask Ada first\n")
        screen.wait_for("not run (person)")
        assert screen.end() == 0


def test_going_on_asks_what_is_open(folder: pathlib.Path):
    assert ran(folder, "run", "--agent", "agents.py:poll", "Paint.", "--session", "q").returncode == 3
    with Screen(["run", "--agent", "agents.py:poll", "--session", "q"], folder) as screen:
        screen.wait_for("2) blue")
        screen.wait_for("> ")
        screen.type("1\n")
        screen.wait_for("So be it.")
        assert screen.end() == 0


def test_ctrl_c_interrupts_and_it_can_go_on(folder: pathlib.Path):
    with Screen(["run", "--agent", "agents.py:slow", "Wait.", "--session", "s"], folder) as screen:
        screen.wait_for("session s in windlass.db")
        time.sleep(0.3)  # the request must be out before it can be stopped
        screen.ctrl_c()
        screen.wait_for("interrupting")
        assert screen.end() == 130
        assert "go on with: windlass run --session s" in screen.text
    assert "run interrupted" in shown(["logs", "s"], folder)


def test_commands_of_other_processes_reach_a_running_session(folder: pathlib.Path):
    with Screen(["run", "--agent", "agents.py:slow", "Wait.", "--session", "s"], folder) as screen:
        screen.wait_for("session s in windlass.db")
        text = shown(["cancel", "s", "--wait", "10"], folder)
        assert "taken by the process that drives the session" in text
        assert screen.end() == 130
    assert "run cancelled" in shown(["logs", "s"], folder)


def test_logs_follow_what_another_process_does(folder: pathlib.Path):
    ran(folder, "run", "--agent", "agents.py:free", "Pay it.", "--session", "s")
    with Screen(["logs", "s", "-f"], folder) as screen:
        screen.wait_for("run completed")
        ran(folder, "run", "--agent", "agents.py:free", "Again.", "--session", "s")
        screen.wait_for("And again.")
        screen.ctrl_c()
        assert screen.end() == 130


def test_broken_agent_file_is_named_with_its_line(folder: pathlib.Path):
    (folder / "bad.py").write_text("import windlass\nx = 1 / 0\n", encoding="utf-8")
    done = ran(folder, "run", "--agent", "bad.py:agent", "Hi")
    assert done.returncode == 2
    assert done.stderr == "windlass: bad.py cannot be loaded: line 2: ZeroDivisionError: division by zero\n"


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
