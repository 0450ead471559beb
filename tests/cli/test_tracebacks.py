"""What a tool raised is shown to whoever looks at the session; what goes to a file is not laid out for a screen."""

from __future__ import annotations

import asyncio
import os
import pathlib
import pty
import subprocess

import pytest

import windlass
from windlass.testing.scripted import ScriptedModel, by_history, call

from .terminal import PROGRAM


@windlass.tool
def divide(by: int) -> float:
    "Divide."
    return 1 / by


@windlass.tool
def pay(note: str) -> str:
    "Pay."
    return "paid"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A store with `failed`, whose tool raised, and `asked`, which waits for leave to do something long."""
    place = tmp_path_factory.mktemp("raised")
    failing = windlass.Agent(
        "failing", model=ScriptedModel(by_history([[call("divide", by=0)], "It failed."])), tools=[divide]
    )
    asking = windlass.Agent(
        "asking",
        model=ScriptedModel(by_history([[call("pay", note="word " * 100)], "Done."])),
        tools=[pay],
        policy=windlass.Policy(rules=(windlass.ask("pay"),)),
    )

    async def fill() -> None:
        async with windlass.open(str(place / "windlass.db"), agents=[failing, asking]) as runtime:
            for agent, name in ((failing, "failed"), (asking, "asked")):
                session = await runtime.session(agent, name)
                await session.prompt("Go.")
                await session.result()

    asyncio.run(fill())
    return place


def ran(folder: pathlib.Path, *words: str) -> str:
    return subprocess.run(
        [*PROGRAM, *words], cwd=folder, capture_output=True, text=True, timeout=120, check=True
    ).stdout


def test_full_timeline_has_the_traceback_and_the_short_one_has_not(folder: pathlib.Path):
    full = ran(folder, "logs", "failed", "--full")
    assert "Traceback (most recent call last):" in full
    assert "return 1 / by" in full
    assert "ZeroDivisionError: division by zero" in full
    assert "Traceback" not in ran(folder, "logs", "failed")


def test_show_has_the_last_exception_and_says_where_all_is(folder: pathlib.Path):
    lines = ran(folder, "show", "failed").splitlines()
    head = next(index for index, line in enumerate(lines) if line.startswith("divide [c") and line.endswith("raised"))
    end = lines.index("  windlass logs failed --full")
    assert lines[end - 1] == "│ ZeroDivisionError: division by zero"
    assert all(line.startswith("│ ") for line in lines[head + 1 : end])
    assert "raised" not in ran(folder, "show", "asked")


def test_lines_that_go_to_a_file_are_whole_whatever_is_on_the_other_stream(folder: pathlib.Path):
    screen, errors = pty.openpty()
    try:
        with (folder / "shown.txt").open("wb") as out:
            subprocess.run(
                [*PROGRAM, "show", "asked"],
                cwd=folder,
                stdout=out,
                stderr=errors,
                timeout=120,
                check=True,
                env=os.environ,
            )
    finally:
        os.close(screen)
        os.close(errors)
    shown = (folder / "shown.txt").read_text(encoding="utf-8").splitlines()
    assert '│   "note": "' + "word " * 100 + '"' in shown
