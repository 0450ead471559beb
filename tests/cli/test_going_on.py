"""Going on with a session: options are recalled from its log, and commands that are shown work as they are copied."""

from __future__ import annotations

import pathlib
import re
import shlex
import subprocess
from collections.abc import Iterator

import msgspec
import pytest

from . import work
from .terminal import PROGRAM, Terminal
from .test_run import ran

NO_KEY = ("--model", "anthropic/claude-sonnet-4-5")
"""A model that no test has a key for, so that nothing is asked of it."""

MOODY = """
import windlass
from windlass.testing.scripted import ScriptedModel, fail

BUSY = fail("rate_limited", "too many at once", retry_after_ms=1)
moody = windlass.Agent("moody", model=ScriptedModel([BUSY, BUSY, fail("overloaded", "out for lunch", retry_after_ms=1), "Hi."]))
"""


@pytest.fixture
def folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    return work.make_folder(tmp_path)


@pytest.fixture
def screen(folder: pathlib.Path) -> Iterator[Terminal]:
    with Terminal(folder) as terminal:
        yield terminal


def events(folder: pathlib.Path, session: str) -> list[str]:
    lines = ran(folder, "logs", session, "--json").stdout.splitlines()
    return [msgspec.json.decode(line)["event"]["type"] for line in lines]


def test_options_are_recalled_from_the_session(folder: pathlib.Path):
    (folder / "schema.json").write_text(
        '{"type": "object", "properties": {"n": {"type": "integer"}}}', encoding="utf-8"
    )
    said = ["--tool", "list", "--tool", "todo", "--instructions", "Be brief.", "--policy", "read-only"]
    limits = ["--budget-usd", "0.25", "--budget-turns", "3", "--output-schema", "schema.json"]
    assert ran(folder, "run", "Look.", "--session", "s", *NO_KEY, *said, *limits).returncode == 3
    again = ran(folder, "run", "--session", "s")
    assert again.stderr.splitlines()[0] == (
        "session s in windlass.db · model anthropic/claude-sonnet-4-5 · tools list, todo"
    )
    changes = {kind for kind in events(folder, "s") if kind.endswith(".changed")} - {
        "queue.changed",
        "workspace.changed",
    }
    assert changes == set()


def test_what_is_said_now_counts_more_than_what_is_recalled(folder: pathlib.Path):
    assert ran(folder, "run", "Look.", "--session", "s", *NO_KEY, "--tool", "list").returncode == 3
    again = ran(
        folder, "run", "--session", "s", "--model", "anthropic/claude-haiku-4-5", "--tool", "list", "--tool", "glob"
    )
    assert again.returncode == 3
    assert again.stderr.splitlines()[0] == (
        "session s in windlass.db · model anthropic/claude-haiku-4-5 · tools list, glob"
    )
    shown = msgspec.json.decode(ran(folder, "inspect", "s", "--json").stdout)
    assert shown["model"] == "anthropic/claude-haiku-4-5"
    assert "model changed" in ran(folder, "logs", "s").stdout


def test_session_of_a_file_needs_its_file(folder: pathlib.Path):
    assert ran(folder, "run", "Pay it.", "--agent", "agents.py:free", "--session", "s").returncode == 0
    for words in (["run", "More.", "--session", "s"], ["replay", "s"]):
        done = ran(folder, *words)
        assert (done.returncode, done.stderr) == (
            2,
            "windlass: session 's' is one of agent 'free': add --agent FILE.py:free\n",
        )


def copied(text: str, beginning: str) -> list[str]:
    """The words of the first command in a text that begins so, as a shell reads them."""
    found = text[text.index(beginning) :].splitlines()[0]
    return shlex.split(found)[1:]


def test_commands_with_blanks_in_their_names_are_quoted(folder: pathlib.Path):
    store = ["--store", "my store.db"]
    asked = ran(folder, "run", "Pay it.", "--agent", "agents.py:clerk", "--session", "the clerk's", *store)
    show = copied(asked.stderr, "windlass show")
    assert show == ["show", "the clerk's", *store]
    approve = copied(ran(folder, *show).stdout, "windlass approve")
    assert approve == ["approve", "the clerk's", approve[2], *store]
    assert approve[2] in ran(folder, *show).stdout.partition("(request ")[2]
    kept = ran(folder, *approve, "--wait", "0")
    go_on = copied(kept.stdout, "windlass run")
    assert go_on == ["run", "--agent", "FILE.py:clerk", "--session", "the clerk's", *store]
    done = ran(folder, *[word.replace("FILE.py", "agents.py") for word in go_on])
    assert (done.returncode, done.stdout) == (0, "Done: I-7 is paid.\n")


def test_chat_says_how_to_come_back_and_that_works(folder: pathlib.Path, screen: Terminal):
    screen.start("chat", "--agent", "agents.py:free", "--session", "s", "--budget-turns", "5", "--store", "x y.db")
    screen.wait_for("> ")
    screen.key("C-d")
    assert screen.end() == 0
    back = copied(screen.history(), "windlass chat")
    assert back == shlex.split("chat --agent agents.py:free --session s --store 'x y.db'")
    screen.start(*back)
    screen.wait_for("> ")
    screen.key("C-d")
    assert screen.end() == 0
    assert limits_of(folder, "s", "--store", "x y.db") == {"turns": 5}


def limits_of(folder: pathlib.Path, session: str, *words: str) -> object:
    """The limits of each run that a session has at the end of its log."""
    limits: object = None
    for line in ran(folder, "logs", session, "--json", *words).stdout.splitlines():
        event = msgspec.json.decode(line)["event"]
        if event["type"] == "session.started":
            limits = event["setup"].get("run_limits", {})
        elif event["type"] == "limits.changed":
            limits = event["run_limits"]
    return limits


def test_options_beside_a_file_hold_when_the_session_is_resumed_by_the_hint(folder: pathlib.Path):
    said = ["--policy", "read-only", "--instructions", "Be brief.", "--budget-usd", "0.25", "--budget-turns", "3"]
    held_up = ran(folder, "run", "Pay it.", "--agent", "agents.py:free", "--session", "s", *NO_KEY, *said)
    assert held_up.returncode == 3  # no key
    hint = copied(held_up.stderr, "windlass run")
    assert hint == shlex.split("run --agent agents.py:free --session s")
    again = ran(folder, *hint)
    assert again.stderr.splitlines()[0] == ("session s in windlass.db · model anthropic/claude-sonnet-4-5 · tools pay")
    assert limits_of(folder, "s") == {"turns": 3, "cost_nanos": 250_000_000}
    shown = msgspec.json.decode(ran(folder, "inspect", "s", "--json").stdout)
    assert (shown["model"], shown["instructions"]) == ("anthropic/claude-sonnet-4-5", "Be brief.")
    changed = {kind for kind in events(folder, "s") if kind.endswith(".changed")}
    assert changed <= {"queue.changed", "workspace.changed"}


def test_an_agent_may_be_named_by_its_own_name(folder: pathlib.Path):
    (folder / "one.py").write_text("import windlass\nfirst = windlass.Agent('clerk of works')\n", encoding="utf-8")
    done = ran(folder, "run", "--agent", "one.py:clerk of works", "Hi.", *NO_KEY)
    assert done.returncode == 3, done.stderr
    assert subprocess.run([*PROGRAM, "ps"], cwd=folder, capture_output=True, text=True, check=True).stdout.count(
        "clerk of works"
    )


def test_missing_key_is_said_where_it_is_missed(folder: pathlib.Path):
    why = "no key for 'anthropic': set ANTHROPIC_API_KEY (in Python also: credential=)"
    done = ran(folder, "run", "Hi.", "--session", "s", *NO_KEY)
    assert done.returncode == 3
    assert done.stderr.splitlines()[1] == f"it cannot continue: {why}"
    assert done.stderr.splitlines()[-1] == "then resume with: windlass run --session s"
    quiet = ran(folder, "run", "Hi.", "--quiet", *NO_KEY)
    assert (quiet.stdout, quiet.stderr) == ("", f"it cannot continue: {why}\n")
    as_json = msgspec.json.decode(ran(folder, "run", "Hi.", "--json", *NO_KEY).stdout)
    assert (as_json["status"], as_json["failure"]["message"]) == ("asked", why)
    shown = ran(folder, "show", "s").stdout.splitlines()
    assert shown[1:3] == ["state    asked: waits for credentials", f"why      {why}"]
    assert shown[-1] == "  windlass run --session s"


def test_why_it_tries_again_is_said_once(folder: pathlib.Path):
    (folder / "moody.py").write_text(MOODY, encoding="utf-8")
    done = ran(folder, "run", "Hi.", "--agent", "moody.py:moody")
    assert done.returncode == 0, done.stderr
    told = [line for line in done.stderr.splitlines() if line.startswith("(")]
    assert [re.sub(r"waiting .*, then", "waiting, then", line) for line in told] == [
        "(too many at once)",
        "(waiting, then attempt 2 of 6)",
        "(waiting, then attempt 3 of 6)",
        "(out for lunch)",
        "(waiting, then attempt 4 of 6)",
    ]
