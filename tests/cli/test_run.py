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
from .screens import id_of, settled
from .terminal import PATIENCE_S, PROGRAM, Terminal


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    return work.make_folder(tmp_path)


@pytest.fixture
def screen(folder: pathlib.Path) -> Iterator[Terminal]:
    with Terminal(folder, columns=80) as terminal:
        yield terminal


def ran(folder: pathlib.Path, *words: str, given: str = "") -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "WINDLASS_STORE": "windlass.db"}
    return subprocess.run(
        [*PROGRAM, *words],
        cwd=folder,
        input=given,
        capture_output=True,
        text=True,
        timeout=300,
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
    assert done.stderr == "I will pay it.\nDone: I-7 is paid.\n"
    assert "print the result as JSON; the model's text goes to standard error" in " ".join(
        ran(folder, "run", "--help").stdout.split()
    )


def test_prompt_from_a_pipe_and_from_files(folder: pathlib.Path):
    (folder / "notes.txt").write_text("seven", encoding="utf-8")
    words = ["run", "--agent", "agents.py:free", "--session", "s", "--attach", "notes.txt", "Look:"]
    assert ran(folder, *words, given="from a pipe\n").returncode == 0
    text = ran(folder, "inspect", "s").stdout
    assert (
        "│ Look:\n│ \n│ from a pipe\n│ [attached file 'notes.txt']\n│ seven\n│ [end of the attached file 'notes.txt']\n"
        in text
    )


def test_nothing_to_do_is_wrong_usage(folder: pathlib.Path):
    done = ran(folder, "run", "--agent", "agents.py:free")
    assert done.returncode == 2
    assert "nothing to do: write a prompt, pipe one in, or name a --session to resume" in done.stderr


def test_nobody_there_ends_asked_and_an_approval_lets_it_go_on(folder: pathlib.Path):
    asked = ran(folder, "run", "--agent", "agents.py:clerk", "Pay it.", "--session", "march")
    assert asked.returncode == 3
    assert "it waits for you: windlass show march" in asked.stderr
    assert ran(folder, "approve", "march", "--wait", "0").returncode == 0
    went_on = ran(folder, "run", "--agent", "agents.py:clerk", "--session", "march")
    assert (went_on.returncode, went_on.stdout) == (0, "Done: I-7 is paid.\n")
    assert f"approved            {id_of(folder, 'march', 'permission')} by " in ran(folder, "logs", "march").stdout


def test_a_tool_that_asks_while_it_runs_is_waited_for_with_a_word(folder: pathlib.Path):
    environ = {**os.environ, "WINDLASS_STORE": "windlass.db"}
    words = [*PROGRAM, "run", "--agent", "agents.py:tailor", "A shirt.", "--session", "march", "--quiet"]
    with subprocess.Popen(
        words, cwd=folder, env=environ, stdin=subprocess.DEVNULL, stdout=-1, stderr=-1, text=True
    ) as running:
        assert running.stderr is not None
        assert running.stderr.readline() == "it waits for you: windlass show march\n"
        assert ran(folder, "show", "march").stdout.count("Which size?") == 1
        assert ran(folder, "answer", "march", "2", "--wait", "60").returncode == 0
        out, err = running.communicate(timeout=300)
    assert (running.returncode, out, err) == (0, "It is ordered.\n", "")
    assert "ordered L" in ran(folder, "logs", "march").stdout


def test_a_tool_that_asks_while_it_runs_asks_the_person_at_the_terminal(screen: Terminal):
    screen.start("run", "--agent", "agents.py:tailor", "A shirt.", "--session", "s")
    screen.wait_for("Which size?")
    screen.line("2")
    screen.wait_for("It is ordered.")
    assert screen.end() == 0


def test_a_skill_that_is_not_to_be_had_is_told_when_the_session_begins(folder: pathlib.Path):
    broken = folder / "shelf" / "notes"
    broken.mkdir(parents=True)
    (broken / "SKILL.md").write_text("no frontmatter\n")
    (folder / "reader.py").write_text(
        "import windlass\nfrom windlass.testing.scripted import ScriptedModel\n"
        "reader = windlass.Agent('reader', ScriptedModel(lambda request: 'Read.'), tools=['read'], skills='shelf')\n"
    )
    first = ran(folder, "run", "--agent", "reader.py:reader", "Read.", "--session", "s")
    assert (first.returncode, first.stdout) == (0, "Read.\n")
    (told,) = [line for line in first.stderr.splitlines() if line.startswith("(skill ")]
    assert told.startswith("(skill notes: not parsed: ")
    assert "it does not begin with frontmatter" in told
    again = ran(folder, "run", "--agent", "reader.py:reader", "Read.", "--session", "s")
    assert "(skill " not in again.stderr


def test_an_approval_for_a_pattern_lets_what_fits_pass_and_the_rest_is_asked_about(folder: pathlib.Path):
    words = ["run", "--agent", "agents.py:look", "--session", "s"]
    assert ran(folder, *words, "Read them.").returncode == 3
    shown = ran(folder, "show", "s").stdout
    assert "│ subject: a.txt\n" in shown
    assert f'│   "path": "{folder / "a.txt"}",\n' in shown
    approved = ran(folder, "approve", "s", "--pattern", "?.txt", "--wait", "0")
    assert "read may run, and so may calls of it whose subject fits '?.txt'\n" in approved.stdout
    asked = ran(folder, *words)
    assert asked.returncode == 3
    log = ran(folder, "logs", "s", "--all").stdout
    assert (log.count("permission asked"), log.count("by a standing approval")) == (2, 1)
    shown = ran(folder, "show", "s").stdout
    assert "subject:" not in shown
    assert "a\\u001b[2J\\nb.txt" in shown
    assert "\x1b" not in shown
    assert ran(folder, "approve", "s", "--wait", "0").returncode == 0
    done = ran(folder, *words)
    assert (done.returncode, done.stdout) == (0, "Read.\n")


def test_approval_on_the_terminal(screen: Terminal):
    screen.start("run", "--agent", "agents.py:clerk", "Pay it.")
    screen.wait_for("> ")
    screen.line("perhaps")
    screen.wait_for("write y, s, n (with a reason, if you like) or stop")
    screen.wait_for("> ", times=2)
    screen.line("n ask Ada first")
    screen.wait_for("not run: a person denied this")
    assert screen.end() == 0


def test_going_on_asks_what_is_open(folder: pathlib.Path, screen: Terminal):
    assert ran(folder, "run", "--agent", "agents.py:poll", "Paint.", "--session", "q").returncode == 3
    screen.start("run", "--agent", "agents.py:poll", "--session", "q")
    screen.wait_for("2) blue")
    screen.wait_for("> ")
    screen.line("1")
    screen.wait_for("So be it.")
    assert screen.end() == 0


def test_resuming_what_has_ended_says_that_nothing_was_done(folder: pathlib.Path):
    words = ["run", "--agent", "agents.py:free", "--session", "s"]
    first = ran(folder, *words, "Pay it.")
    assert "nothing was left to do" not in first.stderr
    again = ran(folder, *words)
    assert (again.returncode, again.stdout) == (0, "")
    assert "nothing was left to do; this is how it ended before:\ncompleted" in again.stderr


def test_a_prompt_on_a_terminal_asks_first_what_is_open(folder: pathlib.Path, screen: Terminal):
    assert ran(folder, "run", "--agent", "agents.py:clerk", "Pay it.", "--session", "march").returncode == 3
    screen.start("run", "--agent", "agents.py:clerk", "And then?", "--session", "march")
    screen.wait_for("pay wants to run")
    screen.wait_for("> ")
    screen.line("y")
    screen.wait_for("Done: I-7 is paid.")
    screen.end()  # the clerk has no words for the prompt that follows
    told = ran(folder, "logs", "march").stdout
    assert told.index("And then?") < told.index("approved") < told.index("Done: I-7 is paid.")


def test_what_somebody_else_answers_is_asked_no_longer(folder: pathlib.Path, screen: Terminal):
    assert ran(folder, "run", "--agent", "agents.py:clerk", "Pay it.", "--session", "march").returncode == 3
    screen.start("run", "--agent", "agents.py:clerk", "--session", "march")
    screen.wait_for("> ")
    assert ran(folder, "approve", "march", "--wait", "20").returncode == 0
    screen.wait_for("Done: I-7 is paid.")
    assert screen.end() == 0
    assert "never retrieved" not in screen.history()


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
        "resume with: windlass run --agent agents.py:slow --session s",
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


@pytest.mark.parametrize("times", [2, 5])
def test_ctrl_c_again_and_again_tears_nothing_apart(folder: pathlib.Path, screen: Terminal, times: int):
    screen.start("run", "--agent", "agents.py:deaf", "Wait.", "--session", "s")
    screen.wait_for("→ stare()")
    screen.key("C-c")
    screen.wait_for("interrupting")
    screen.key(*["C-c"] * times)
    assert screen.end() == 130
    left = screen.history().partition("leaves at once)\n")[2].strip("^C\n")
    assert left in ("", "✗ outcome unknown: it was cut off while it ran")


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
