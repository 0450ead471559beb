"""`chat` as a person types it, on a real terminal: talk, steer, queue, stop, approve, answer, and go on after a kill."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess

import pytest

from .screen import PROGRAM, Screen, shown

AGENTS = """
import asyncio
import pathlib

import windlass
from windlass.testing.scripted import ScriptedModel, by_history, call

GO = pathlib.Path(__file__).with_name("go")


@windlass.tool(contract="pure")
async def work(n: int) -> str:
    "Work."
    while not GO.exists():
        await asyncio.sleep(0.02)
    return f"worked {n}"


@windlass.tool(contract="idempotent")
def pay(cents: int) -> str:
    "Pay."
    return "paid"


def model(*turns):
    return ScriptedModel(by_history(list(turns)))


PICK = call("ask_user", questions=[{"question": "Which?", "options": [{"label": "red"}, {"label": "blue"}]}])
ASK = windlass.Policy(rules=(windlass.ask("pay"),))
talker = windlass.Agent("talker", model=model("Hello, Ada.", "Still here."))
worker = windlass.Agent("worker", model=model([call("work", n=1)], "All done.", "More done.", "Third."), tools=[work])
payer = windlass.Agent("payer", model=model([call("pay", cents=7)], "It is paid."), tools=[pay], policy=ASK)
picker = windlass.Agent("picker", model=model([PICK], "As you like."), tools=["ask_user"])
"""


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    (tmp_path / "agents.py").write_text(AGENTS, encoding="utf-8")
    return tmp_path


def chat(folder: pathlib.Path, agent: str, *more: str) -> Screen:
    return Screen(["chat", "--agent", f"agents.py:{agent}", *more], folder)


def test_talk_and_leave(folder: pathlib.Path):
    with chat(folder, "talker", "--session", "s") as screen:
        screen.wait_for("session s in windlass.db")
        screen.wait_for("> ")
        screen.type("Hi\n")
        screen.wait_for("  Hello, Ada.")
        screen.wait_for("(completed; 10 in, 10 out, $0)")
        screen.wait_for("> ")
        screen.type("/cost\n")
        screen.wait_for("10 in, 10 out (tokens), $0")
        screen.type("/nonsense\n")
        screen.wait_for("no command '/nonsense': /help lists them")
        screen.type("/help\n")
        screen.wait_for("stop what it is doing")
        screen.type("/quit\n")
        assert screen.end() == 0
        assert screen.text
    assert "Hello, Ada." in shown(["logs", "s"], folder)


def test_going_on_shows_what_was_said(folder: pathlib.Path):
    with chat(folder, "talker", "--session", "s") as screen:
        screen.wait_for("> ")
        screen.type("Hi\n")
        screen.wait_for("(completed")
        screen.type("\x04")
        assert screen.end() == 0
    with chat(folder, "talker", "--session", "s") as screen:
        screen.wait_for("> Hi")
        screen.wait_for("Hello, Ada.")
        screen.type("And now?\n")
        screen.wait_for("Still here.")
        screen.type("/quit\n")
        assert screen.end() == 0


def test_what_is_typed_while_it_works_steers_it_and_the_queue_waits(folder: pathlib.Path):
    with chat(folder, "worker", "--session", "s") as screen:
        screen.wait_for("> ")
        screen.type("Work\n")
        screen.wait_for("→ work(n=1)")
        screen.type("faster\n")
        screen.wait_for("(it reads that before its next step)")
        screen.type("/queue then rest\n")
        screen.wait_for("(queued: 1 prompt)")
        screen.type("/queue\n")
        found = screen.wait_for("  then rest")
        name = found.split()[-3]
        screen.type(f"/edit {name} then sleep\n")
        screen.wait_for("is changed)")
        (folder / "go").touch()
        screen.wait_for("← worked 1")
        screen.wait_for("All done.")
        screen.wait_for("More done.")
        screen.wait_for("(completed")
        screen.type("/quit\n")
        assert screen.end() == 0
    text = shown(["inspect", "s"], folder)
    assert "│ faster\n" in text
    assert "│ then sleep\n" in text
    assert text.index("faster") < text.index("All done.") < text.index("then sleep") < text.index("More done.")


def test_ctrl_c_stops_the_run_and_not_the_program(folder: pathlib.Path):
    with chat(folder, "worker", "--session", "s") as screen:
        screen.wait_for("> ")
        screen.type("Work\n")
        screen.wait_for("→ work(n=1)")
        screen.ctrl_c()
        screen.wait_for("(interrupted")
        screen.ctrl_c()
        screen.wait_for("nothing runs; Ctrl-C again or /quit leaves")
        screen.ctrl_c()
        assert screen.end() == 0
    assert "run interrupted" in shown(["logs", "s"], folder)


def test_approval_and_question_are_asked_on_the_spot(folder: pathlib.Path):
    with chat(folder, "payer", "--session", "p") as screen:
        screen.wait_for("> ")
        screen.type("Pay\n")
        screen.wait_for('"cents": 7')
        screen.wait_for("> ")
        screen.type("y\n")
        screen.wait_for("It is paid.")
        screen.wait_for("(completed")
        screen.type("/quit\n")
        assert screen.end() == 0
    with chat(folder, "picker", "--session", "q") as screen:
        screen.wait_for("> ")
        screen.type("Paint\n")
        screen.wait_for("2) blue")
        screen.wait_for("> ")
        screen.type("2\n")
        screen.wait_for("As you like.")
        screen.type("/quit\n")
        assert screen.end() == 0
    assert "answered blue" in shown(["logs", "q"], folder)


@pytest.mark.guard(120)
def test_a_session_goes_on_after_kill_9(folder: pathlib.Path):
    with chat(folder, "worker", "--session", "s") as screen:
        screen.wait_for("> ")
        screen.type("Work\n")
        screen.wait_for("→ work(n=1)")
        os.kill(screen.pid, signal.SIGKILL)
        assert screen.end() == -signal.SIGKILL
    (folder / "go").touch()
    with chat(folder, "worker", "--session", "s") as screen:
        screen.wait_for("All done.")
        screen.wait_for("(completed")
        screen.type("/quit\n")
        assert screen.end() == 0


def test_chat_needs_a_terminal(folder: pathlib.Path):
    ran = subprocess.run(
        [*PROGRAM, "chat"], cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 2
    assert ran.stderr == "windlass: chat needs a terminal: use 'windlass run' in scripts\n"
