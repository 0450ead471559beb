"""SIGTERM to `windlass run`, and Ctrl-C pressed twice: what runs is brought to its end, and nothing is torn apart."""

from __future__ import annotations

import pathlib
import signal
import subprocess
import sys
import time

import pytest

from .terminal import PROGRAM

AGENTS = """
import asyncio, pathlib, windlass
from windlass.testing.scripted import ScriptedModel, by_history, call, hang

@windlass.tool(contract="at_most_once")
async def stare() -> str:
    await asyncio.sleep(0.3)
    return "stared"

@windlass.tool(contract="at_most_once")
async def gaze() -> str:
    pathlib.Path("begun").touch()
    while not pathlib.Path("go").exists():
        await asyncio.sleep(0.01)
    return "gazed"

@windlass.tool
def pay() -> str:
    return "paid"

def agent(name, *turns, **more):
    model = ScriptedModel(by_history(list(turns)))
    return windlass.Agent(name, model=model, tools=[stare, gaze, pay], **more)

stares = agent("stares", call("stare"), [hang()], policy=windlass.ALLOW_ALL)
slow = agent("slow", [hang()])
talks = agent("talks", ["I look.", call("gaze")], [hang()], policy=windlass.ALLOW_ALL)
clerk = agent("clerk", call("pay"), "It is paid.", "And more.", policy=windlass.Policy(rules=(windlass.ask("pay"),)))
"""


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    (tmp_path / "agents.py").write_text(AGENTS, encoding="utf-8")
    return tmp_path


def begun(folder: pathlib.Path, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*PROGRAM, *words],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def until_said(process: subprocess.Popen[str], what: str) -> None:
    assert process.stderr is not None
    for line in process.stderr:
        if what in line:
            return
    raise AssertionError(f"it never said {what!r}")


def test_sigterm_lets_the_tool_end_and_says_how_to_resume(folder: pathlib.Path):
    with begun(folder, "run", "--agent", "agents.py:stares", "Go.", "--session", "s") as process:
        until_said(process, "→ stare()")
        process.send_signal(signal.SIGTERM)
        _, told = process.communicate(timeout=60)
    assert process.returncode == 143
    assert told.splitlines() == [
        "(asked to stop: what runs is brought to its end first; a second SIGTERM leaves at once)",
        "← stared",
        "stopped; resume with: windlass run --agent agents.py:stares --session s",
    ]


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_a_run_whose_output_nobody_reads_does_what_it_does_otherwise(folder: pathlib.Path, signum: int):
    """`windlass run | head`: the line that could not be written kept what was to be done from being done."""
    with begun(folder, "run", "--agent", "agents.py:talks", "Go.", "--session", "s") as process:
        assert process.stdout is not None
        process.stdout.close()
        try:
            until_there(folder / "begun", process)
            process.send_signal(signum)
            until_said(process, "asked to stop" if signum == signal.SIGTERM else "interrupting")
            (folder / "go").touch()
            told = process.communicate(timeout=60)[1]
        finally:
            process.kill()
    assert "Traceback" not in told
    assert "never retrieved" not in told
    assert "BrokenPipe" not in told
    code = process.returncode
    with begun(folder, "logs", "s") as process:
        log = process.communicate(timeout=60)[0]
    if signum == signal.SIGTERM:
        assert code == 143
        assert told.splitlines()[-1] == "stopped; resume with: windlass run --agent agents.py:talks --session s"
        assert "gazed" in log
    else:
        assert "run interrupted     user abort" in log


def until_there(path: pathlib.Path, process: subprocess.Popen[str]) -> None:
    while not path.exists():
        assert process.poll() is None
        time.sleep(0.01)


@pytest.mark.parametrize("twice", [False, True])
def test_sigterm_waits_no_longer_than_it_may(folder: pathlib.Path, twice: bool):
    words = ("run", "--agent", "agents.py:slow", "Go.", "--session", "s", "--drain", "60" if twice else "0.1")
    with begun(folder, *words) as process:
        until_said(process, "session s in")
        process.send_signal(signal.SIGTERM)
        if twice:
            until_said(process, "asked to stop")
            process.send_signal(signal.SIGTERM)
        _, told = process.communicate(timeout=60)
    assert process.returncode == 143
    assert "Traceback" not in told


def test_a_drain_that_is_no_time_is_refused(folder: pathlib.Path):
    with begun(folder, "run", "--agent", "agents.py:slow", "Go.", "--drain", "-1") as process:
        assert process.communicate(timeout=60)[1] == "windlass: --drain -1: give a number of seconds from 0 to 3600\n"
    assert process.returncode == 2


def test_two_interrupts_in_a_row_leave_without_a_traceback(folder: pathlib.Path):
    with begun(folder, "run", "--agent", "agents.py:slow", "Go.", "--session", "s") as process:
        until_said(process, "session s in")
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in told
    assert "never retrieved" not in told


@pytest.mark.parametrize("life", range(3))
def test_an_interrupt_before_the_prompt_is_sent_leaves(folder: pathlib.Path, life: int):
    """It was taken for one of a session at rest, and the run that began after it never ended."""
    with begun(folder, "run", "--agent", "agents.py:slow", "Go.", "--session", "s") as process:
        until_said(process, "session s in")
        process.send_signal(signal.SIGINT)
        try:
            process.communicate(timeout=30)
        finally:
            process.kill()
    assert process.returncode == 130


def test_an_interrupt_while_the_program_ends_is_silent():
    script = (
        "import os, signal, sys, windlass.cli.main as main\n"
        "main.begin = lambda words: (_ for _ in ()).throw(KeyboardInterrupt)\n"
        "code = main.main(['ps'])\n"
        "os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.exit(code)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (130, "")


def test_a_prompt_to_a_session_that_waits_for_somebody_is_kept_and_says_what_for(folder: pathlib.Path):
    def run(*words: str) -> tuple[int, str, str]:
        with begun(folder, *words) as process:
            out, err = process.communicate(timeout=60)
        return process.returncode, out, err

    clerk = ("--agent", "agents.py:clerk", "--session", "m")
    assert run("run", *clerk, "Pay it.")[0] == 3
    code, _, told = run("run", *clerk, "And then?")
    assert code == 3
    assert "the prompt is kept: it is read once p8 is answered\n" in told
    assert "it waits for you: windlass show m\n" in told
    assert run("approve", "m", "--wait", "0")[0] == 0
    code, out, _ = run("run", *clerk)
    assert (code, out) == (0, "It is paid.\nAnd more.\n")
