"""`windlass run` in a folder: what it records, what it says first, and what it reads only when it is told to."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import msgspec
import pytest

import windlass
from windlass.cli.screen.setup import setup_lines
from windlass.events.values.setup import Limits, Workspace
from windlass.runtime.api.setup_summary import Collision, Knowledge, SetupSummary, ToolSetup
from windlass.runtime.workspace.instruction_files import InstructionFile

from .fixtures import by_hand, origin
from .test_instructions import digest

AGENT = """
import windlass
from windlass.testing.scripted import ScriptedModel, by_history


@windlass.tool
def pay(cents: int) -> str:
    "Pay."
    return "paid"


clerk = windlass.Agent(
    "clerk",
    model=ScriptedModel(by_history(["Done.", "Again."])),
    tools=[pay],
    policy=windlass.Policy(rules=(windlass.ask("pay"),)),
    instructions="Be brief.",
    budget=windlass.Budget(turns=3),
)
"""
TEXT = b"Write tests.\n"
RUN = ("run", "--agent", "agents.py:clerk", "--session", "s", "Go.")


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    root = by_hand(tmp_path / "work", config=origin("https://me:secret@example.org/acme/tools"))
    (root / "agents.py").write_text(AGENT)
    (root / "AGENTS.md").write_bytes(TEXT)
    return root


def ran(folder: pathlib.Path, *words: str) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "WINDLASS_STORE": "windlass.db"}
    program = [sys.executable, "-m", "windlass.cli.main", *words]
    return subprocess.run(
        program, cwd=folder, input="", capture_output=True, text=True, timeout=300, check=True, env=environ
    )


def inspected(folder: pathlib.Path, session: str = "s") -> str:
    told = msgspec.json.decode(ran(folder, "inspect", session, "--json").stdout)
    return str(told["instructions"])


async def test_a_folder_is_recorded_and_not_read_unless_it_is_trusted(folder):
    done = ran(folder, *RUN)
    assert done.stderr.splitlines()[1] == "found and not read: AGENTS.md (with --trust the agent follows them)"
    assert inspected(folder) == "Be brief."
    async with windlass.open(str(folder / "windlass.db")) as rt:
        state = await (await rt.get("s")).state()
        assert state.workspace.folder == Workspace(
            cwd=str(folder), git_root=str(folder), repository="acme/tools", branch="main"
        )


def test_a_trusted_folder_is_followed_and_inspect_shows_what_the_model_was_told(folder):
    done = ran(folder, *RUN, "--trust", "--verbose")
    assert done.stdout == "Done.\n"
    assert done.stderr.splitlines()[1:-1] == [
        "agent clerk · model scripted · interactive mode",
        f"workspace {folder} · acme/tools · main · trusted",
        "budget 3 turns a run",
        "tools",
        "  pay  tool  author  at_most_once  asked · ask pay",
        "instruction files",
        f"  AGENTS.md  13 bytes  {digest(TEXT)[:8]}  used",
    ]
    assert inspected(folder) == "Be brief.\n\n# Instructions from AGENTS.md\n\nWrite tests."


def test_a_replay_is_told_what_the_session_was_told(folder):
    ran(folder, *RUN, "--trust")
    (folder / "AGENTS.md").write_text("Something else.")
    ran(folder, "replay", "s", "--agent", "agents.py:clerk", "--as", "again")
    assert inspected(folder, "again") == "Be brief.\n\n# Instructions from AGENTS.md\n\nWrite tests."


def test_trust_is_for_one_invocation(folder):
    assert ran(folder, *RUN, "--trust").stderr.splitlines()[1] == "follows AGENTS.md"
    ran(folder, *RUN)
    assert inspected(folder) == "Be brief."


def test_a_setup_in_lines():
    summary = SetupSummary(
        session="s",
        agent="a\x1b[31m",
        model="m",
        mode="plan",
        tools=(
            ToolSetup(
                name="pay",
                kind="tool",
                source="author",
                contract="idempotent",
                verdict="asked",
                why="ask pay",
                conditions=("deny pay when args.cents > 5",),
                alias="spend",
                deferred=True,
            ),
        ),
        instructions=(
            InstructionFile(path="AGENTS.md", bytes=4, digest="0123456789", used=True),
            InstructionFile(path="x/AGENTS.md", note="not read: x/AGENTS.md leads out of the root"),
        ),
        knowledge=(Knowledge(title="Prices", tokens=7),),
        collisions=(Collision(kind="instructions", name="AGENTS.md", between=("a", "b"), note="the nearest wins"),),
        workspace=Workspace(cwd="w"),
        budget=Limits(cost_nanos=500_000_000, turns=1),
        session_budget=Limits(tokens=1_000, calls=2, time_ms=60_000),
    )
    assert setup_lines(summary) == [
        "agent a\\x1b[31m · model m · plan mode",
        "workspace w · as recorded",
        "budget $0.5000 a run, 1 turn a run, 1,000 tokens in all, 2 calls in all, 1 min in all",
        "tools",
        "  pay (as spend) (deferred)  tool  author  idempotent  asked · ask pay · deny pay when args.cents > 5",
        "instruction files",
        "  AGENTS.md    4 bytes  01234567  used",
        "  x/AGENTS.md                     not read: x/AGENTS.md leads out of the root",
        "knowledge",
        "  Prices (7 tokens)",
        "names that collide",
        "  AGENTS.md: a, b (the nearest wins)",
    ]
