"""`--json` of every verb that has it: one valid value on standard output, ASCII, and nothing beside it."""

from __future__ import annotations

import json
import pathlib
import shlex
from collections.abc import Callable
from typing import Any

import pytest

from windlass.cli.reference import parser_of
from windlass.cli.verbs import VERBS

from .screens import Place
from .test_run import ran

EXAMPLE = pathlib.Path(__file__).parents[2] / "examples" / "research_with_verifiers.py"
SHEPHERD = EXAMPLE.with_name("pull_request_shepherd.py")
CASES: dict[str, Callable[[Any], object]] = {
    "run --agent agents.py:free 'Pay.' --session new --json": lambda found: found["status"],
    "ps --json": lambda found: sorted((row["session"], row["state"], row["cost_nanos"] > 0) for row in found)[:2],
    "ps --state new --json": lambda found: found,
    "show march --json": lambda found: (found["session"], found["state"]),
    "inspect done --json": lambda found: found["session"],
    "cost --json": lambda found: len(found),
    "cost done --json": lambda found: [row["model"] for row in found],
    "queue held --json": lambda found: [row["text"] for row in found],
    "queue done --json": lambda found: found,
    "grants done --json": lambda found: found,
    "jobs done --json": lambda found: found,
    "files done --json": lambda found: found,
    "policy check read-only --json": lambda found: (found["policy"], found["default"]),
    "skills list . --json": lambda found: found["skills"],
    "fork done --at 2 --as twin --json": lambda found: found,
    "diff done march --json": lambda found: (found["sessions"], found["same"]),
    "replay done --agent agents.py:free --json": lambda found: found["same"],
    "verify done --json": lambda found: [row["sound"] for row in found],
    "prune --older-than 0s --json": lambda found: (
        {(row["session"], row["removed"]) for row in found} >= {("done", False)}
    ),
    "doctor --json": lambda found: {row["status"] for row in found} <= {"ok", "remark", "wrong"},
    "models --model embedded --json": lambda found: [row["provider"] for row in found],
    f"flow check {EXAMPLE}:flow --json": lambda found: (found["flow"], found["sound"]),
    f"machine check {SHEPHERD}:SHEPHERD --json": lambda found: (found["machine"], found["sound"]),
    "token list --json": lambda found: found,
    "mcp list --json": lambda found: found["servers"],
}
WANTED: dict[str, object] = {
    "run --agent agents.py:free 'Pay.' --session new --json": "completed",
    "ps --json": [("asleep", "sleeping", False), ("done", "idle", False)],
    "ps --state new --json": [],
    "show march --json": ("march", "asked"),
    "inspect done --json": "done",
    "cost --json": 6,
    "cost done --json": ["scripted"],
    "queue held --json": ["Then sweep the floor.", "Then close the door."],
    "queue done --json": [],
    "grants done --json": [],
    "jobs done --json": [],
    "files done --json": [],
    "policy check read-only --json": ("read-only", "deny"),
    "skills list . --json": [],
    "fork done --at 2 --as twin --json": {"session": "twin", "origin": "done", "at_seq": 1},
    "diff done march --json": (["done", "march"], False),
    "replay done --agent agents.py:free --json": True,
    "verify done --json": [True],
    "prune --older-than 0s --json": True,
    "doctor --json": True,
    "models --model embedded --json": ["embedded"],
    f"flow check {EXAMPLE}:flow --json": ("research", True),
    f"machine check {SHEPHERD}:SHEPHERD --json": ("pull_request", True),
    "token list --json": [],
    "mcp list --json": [],
}


@pytest.mark.parametrize("words", CASES)
def test_json_is_one_value_and_nothing_else(words: str, place: Callable[[Place], pathlib.Path]):
    done = ran(place("made"), *shlex.split(words))
    assert done.stdout.isascii()
    assert CASES[words](json.loads(done.stdout)) == WANTED[words], done.stderr


def test_logs_as_json_are_one_value_a_line(place: Callable[[Place], pathlib.Path]):
    lines = ran(place("made"), "logs", "done", "--json").stdout.splitlines()
    assert [json.loads(line)["seq"] for line in lines] == list(range(1, 17))


def test_every_verb_with_json_is_here():
    having = {verb for verb in VERBS if any("--json" in action.option_strings for action in parser_of(verb)._actions)}
    assert having == {words.split()[0] for words in CASES} | {"logs"}
