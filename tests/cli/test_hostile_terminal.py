"""Hostile text on a real terminal: what the user sees is letters, the terminal itself is left alone, and what a model
writes can never be taken for a question of ours."""

from __future__ import annotations

import pathlib
import re
import sys

import pytest

from .screens import copied, id_of
from .terminal import Terminal
from .test_hostile_text import AGENT, HOSTILE, hostile

__all__ = ["hostile"]

SPELT = (
    "\\x1b]0;owned\\x07\\x1b]52;c;ZXZpbA==\\x07\\x1b]8;;http://evil.invalid\\x1b\\link\\x1b]8;;\\x1b\\"
    "\\x1b[2J\\x1b[1;1H\\x1b[?1049h\\x1bP+q\\x1b\\\\x9b31m\\x85\\x07\\x08\\x7f\\x0d"
    "\\u202egnp.exe\\u202c\\u2066\\u200b\\ufeff\\u2028\\u061c\\U000e0041"
)
"""The same text as it is to be shown."""

VERBS = [
    ["ps"],
    ["logs", "free"],
    ["logs", "free", "--all", "--full"],
    ["logs", "free", "--json"],
    ["show", "asks"],
    ["inspect", "free"],
    ["cost", "free"],
    ["verify"],
    ["approve", "asks", "--wait", "0"],
    ["export", "free"],
    ["show", HOSTILE],
    ["run", "--agent", f"{HOSTILE}.py:agent", "Hi."],
    [HOSTILE],
]


@pytest.fixture
def fresh(tmp_path: pathlib.Path):
    with Terminal(tmp_path, columns=80) as terminal:
        yield terminal


def test_rig_sees_what_hostile_text_would_do(fresh: Terminal):
    before = fresh.steered()
    fresh.execute([sys.executable, "-c", f"print({HOSTILE!r}, end='', flush=True); import time; time.sleep(60)"])
    fresh.wait_until(lambda _: fresh.steered()["alternate_on"] == "1", "the other screen")
    after = fresh.steered()
    assert after["pane_title"] == "owned"
    assert after["clipboard"] == "evil"
    assert {name for name in after if after[name] != before[name]} >= {"pane_title", "alternate_on", "clipboard"}


@pytest.mark.parametrize("words", VERBS, ids=lambda words: ascii(" ".join(words))[:40])
def test_no_verb_lets_hostile_text_steer_the_terminal(
    words: list[str], terminal: Terminal, hostile: pathlib.Path, tmp_path: pathlib.Path
):
    answers = words[0] == "approve"  # what it answers stays open for the other tests
    terminal.folder = copied(hostile, tmp_path / "copy") if answers else hostile
    before = terminal.steered()
    terminal.start(*words)
    assert terminal.end() in (0, 2)
    assert terminal.steered() == before
    assert "\x1b" not in terminal.history()


def test_timeline_spells_out_what_a_terminal_would_obey(terminal: Terminal, hostile: pathlib.Path):
    terminal.folder = hostile
    shown = terminal.shown("logs", "free", "--full", "--after", "1")
    prompt = [line[37:] for line in shown.splitlines() if not line[:37].strip() or " prompt " in line[:37]]
    assert "".join(prompt).startswith(SPELT.replace(" ", ""))


def test_approval_is_whole_and_behind_a_bar(terminal: Terminal, hostile: pathlib.Path):
    terminal.folder = hostile
    shown = terminal.shown("show", "asks")
    permission = id_of(hostile, "asks", "permission")
    head = shown.index(f"pay wants to run (request {permission})\n")
    bars: list[str] = []
    rest: list[str] = []
    for line in shown[head:].splitlines()[1:]:
        (bars if line.startswith("│ ") else rest).append(line)
    assert all(len(line) <= 80 for line in bars)
    given = "".join(line[2:] for line in bars)
    assert re.sub(r"\s", "", given) == re.sub(
        r"\s", "", '{"invoice": "' + json_spelt() + "x" * 10_000 + '; rm -rf / # the end"}'
    )
    assert rest == [
        rest[0],
        f"  windlass approve asks {permission}",
        f"  windlass deny asks {permission} --feedback '...'",
    ]
    assert rest[0].startswith("an approval holds for exactly this call (digest ")


def json_spelt() -> str:
    """The text as JSON shows it, made visible after that: what JSON escapes itself stands as JSON writes it."""
    import json

    from windlass.cli.terminal.visible_text import visible

    return visible(json.dumps(HOSTILE, ensure_ascii=False)[1:-1])


def test_fake_prompt_cannot_be_taken_for_a_real_one(fresh: Terminal):
    (fresh.folder / "a.py").write_text(AGENT, encoding="utf-8")
    before = fresh.steered()
    fresh.start("run", "--agent", "a.py:agent", "Pay.", "--session", "s")
    fresh.line("y")  # typed before anything was asked: it must not answer
    shown = fresh.wait_for("an approval holds for exactly")
    mark = re.search(r"are marked (\w{3}):", shown)
    assert mark is not None
    shown = fresh.wait_for(f"\n{mark[1]}> ")
    lines = shown.splitlines()
    (real,) = [line for line in lines if line.startswith("── windlass asks")]
    assert mark[1] in real
    assert "  ── windlass asks · bcd ───" in lines  # the model's, behind a margin
    assert "  bcd> y" in lines
    assert not [line for line in lines if line.startswith(("bcd", "pay wants to run\n"))]
    assert fresh.steered() == before | {"cursor_flag": "1"}  # it is there to be typed at
    fresh.line("n")
    assert fresh.end() == 0
    assert fresh.steered() == before
    assert "not run: a person denied this" in fresh.history()
