"""`--url`: the verbs on sessions, on those of a server. The same words do the same; what cannot be done there says so."""

from __future__ import annotations

import argparse
import json
import pathlib
import subprocess
import sys
import types
from collections.abc import Callable, Iterator

import pytest

from windlass.cli.main import build, main
from windlass.cli.verbs import VERBS
from windlass.server.access.token_file import TokenFile
from windlass.store.remote import asker

from .terminal import Terminal

ROOT = pathlib.Path(__file__).parents[2]


class Served:
    """A server in a process of its own, and its first token."""

    def __init__(self, url: str, token: str) -> None:
        self.url = url
        self.token = token


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("served")
    tokens = TokenFile(folder / "tokens.json")
    tokens.ensure_first(tenant="default", now_ms=0)
    words = [sys.executable, "-m", "tests.server.kill_target", str(folder)]
    with subprocess.Popen(words, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("go\n")
        process.stdin.flush()
        word, pid, url = process.stdout.readline().split()
        assert word == "up"
        yield Served(url, tokens.first_path.read_text().strip())
        subprocess.run(["kill", "-KILL", pid], check=True)
        process.stdin.close()


Said = tuple[int, str, str]


@pytest.fixture
def say(
    served: Served, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: pathlib.Path
) -> Callable[..., Said]:
    """Types a command against the server: its code, and what it prints to either side."""
    monkeypatch.setenv("WINDLASS_URL", served.url)
    monkeypatch.setenv("WINDLASS_TOKEN", served.token)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", None)

    def typed(*words: str) -> Said:
        capsys.readouterr()
        code = main(list(words))
        out = capsys.readouterr()
        return code, out.out, out.err

    return typed


def test_a_session_is_run_looked_at_and_answered_over_a_server(say: Callable[..., Said], served: Served):
    code, out, err = say("run", "--agent", "clerk", "--session", "march", "Pay the invoice.")
    assert (code, out) == (3, "")
    assert f"session march at {served.url} · agent clerk · model scripted · tools pay" in err
    code, out, _ = say("ps", "--json")
    assert [(row["session"], row["state"]) for row in json.loads(out)] == [("march", "asked")]
    code, out, _ = say("show", "march", "--json")
    asked = json.loads(out)
    assert (code, asked["state"], asked["agent"]) == (0, "asked", "clerk")
    code, out, _ = say("approve", "march", "--wait", "60")
    assert code == 0
    assert "taken by the process that drives the session" in out
    code, out, _ = say("run", "--session", "march", "--json")
    assert (code, json.loads(out)["text"]) == (0, "It is paid.")
    code, out, _ = say("logs", "march", "--json")
    given = [json.loads(line)["event"] for line in out.splitlines()]
    approved = next(event for event in given if event["type"] == "permission.approved")
    assert (approved["actor"], approved["auth"]) == ("first", "token")
    code, out, _ = say("verify", "march", "--json")
    assert [row["sound"] for row in json.loads(out)] == [True]
    code, out, _ = say("cost", "march", "--json")
    assert (code, [row["model"] for row in json.loads(out)]) == (0, ["scripted"])
    code, out, _ = say("inspect", "march", "--json")
    assert (code, json.loads(out)["session"]) == (0, "march")


def test_a_session_is_denied_forked_compared_and_told_to_stop_over_a_server(say: Callable[..., Said]):
    assert say("run", "--agent", "clerk", "--session", "april", "Pay.")[0] == 3
    code, out, _ = say("fork", "april", "--as", "twin", "--json")
    assert (code, json.loads(out)["session"]) == (0, "twin")
    assert "  windlass run --session third 'what to do now'\n" in say("fork", "april", "--as", "third")[1]
    code, out, _ = say("diff", "april", "twin", "--json")
    assert (code, json.loads(out)["sessions"]) == (1, ["april", "twin"])  # the twin does not ask any more
    code, out, _ = say("deny", "april", "--feedback", "not now", "--wait", "60")
    assert (code, "taken by" in out) == (0, True)
    assert say("run", "--session", "april")[0] == 0  # waits until what the answer led to is over
    code, out, _ = say("cancel", "april")
    assert (code, "Nothing was sent" in out) == (0, True)
    assert say("interrupt", "april")[0] == 0
    code, out, _ = say("signal", "april", "mail", "There is mail.", "--wait", "60")
    assert code == 0, out


def test_an_export_of_one_server_is_brought_back_under_another_name(say: Callable[..., Said], tmp_path: pathlib.Path):
    assert say("run", "--agent", "reader", "--session", "book", "Read.")[0] == 0
    file = tmp_path / "book.jsonl"
    assert say("export", "book", str(file))[0] == 0
    assert say("import", str(file), "--as", "copy")[0] == 0
    _, out, _ = say("verify", "copy", "--json")
    assert [row["sound"] for row in json.loads(out)] == [True]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["prune", "--older-than", "1d"], "pruning is done where the store is"),
        (["replay", "march", "--agent", "x.py:x"], "a replay is done where the store is"),
        (["serve"], "is done where the store is"),
        (["demo"], "is done where the store is"),
        (["ps", "--store", "a.db", "--url", "http://127.0.0.1:9"], "two places"),
        (["run", "Pay.", "--model", "sonnet"], "--model is for agents of this machine"),
        (["run", "Pay."], "--agent NAME: there are reader, clerk, tailor"),
        (["run", "Pay.", "--agent", "cook"], "no agent 'cook' is served here"),
        (["show", "nobody"], "no session 'nobody'"),
        (["ps", "--url", "nowhere"], "is no address of a server"),
    ],
)
def test_what_cannot_be_done_over_a_server_says_so(say: Callable[..., Said], words: list[str], why: str):
    code, _, err = say(*words)
    assert code == 2
    assert why in err


def test_a_store_that_is_named_is_meant_whatever_the_environment_says(say: Callable[..., Said], tmp_path: pathlib.Path):
    code, _, err = say("ps", "--store", "none.db")
    assert (code, "there is no store at 'none.db'" in err) == (2, True)


def test_somebody_chats_with_a_session_of_a_server(served: Served, tmp_path: pathlib.Path):
    environ = {"WINDLASS_URL": served.url, "WINDLASS_TOKEN": served.token}
    with Terminal(tmp_path, columns=100) as terminal:
        terminal.start("chat", "--agent", "clerk", "--session", "may", "--no-history", environ=environ)
        terminal.wait_for("Ctrl-D leaves")
        terminal.line("Pay the invoice.")
        terminal.wait_for("pay(amount=3)")
        terminal.wait_for("it waits for your answer")
        terminal.line("y")
        terminal.wait_for("It is paid.")
        terminal.key("C-d")
        assert terminal.end() == 0


def test_what_a_tool_asks_while_it_runs_on_a_server_is_put_before_the_person(served: Served, tmp_path: pathlib.Path):
    environ = {"WINDLASS_URL": served.url, "WINDLASS_TOKEN": served.token}
    with Terminal(tmp_path, columns=100) as terminal:
        terminal.start("run", "--agent", "tailor", "--session", "shirt", "A shirt.", environ=environ)
        terminal.wait_for("Which size?")
        terminal.line("2")
        terminal.wait_for("It is ordered.")
        assert terminal.end() == 0
        terminal.start("chat", "--agent", "tailor", "--session", "more", "--no-history", environ=environ)
        terminal.wait_for("Ctrl-D leaves")
        terminal.line("A shirt.")
        terminal.wait_for("it waits for your answer")
        terminal.line("2")
        terminal.wait_for("It is ordered.")
        terminal.key("C-d")
        assert terminal.end() == 0


def test_a_server_that_does_not_answer_is_told_of_before_it_is_given_up(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: pathlib.Path
):
    # The second try is the last: the clock says so, not the machine.
    monkeypatch.setattr(asker, "TOLD_AFTER", 0)
    monkeypatch.setattr(asker, "time", types.SimpleNamespace(monotonic=iter((0.0, 0.0, 3600.0)).__next__))
    monkeypatch.setenv("WINDLASS_TOKEN", "a-token-of-nobody")
    monkeypatch.chdir(tmp_path)
    assert main(["ps", "--url", "unix:nobody.sock"]) != 0
    said = capsys.readouterr().err.splitlines()
    assert said[0].startswith("(no server answers at unix:nobody.sock: ")
    assert said[0].endswith("; asked again for 30 seconds)")
    assert said[-1].startswith("windlass: no server answers at unix:nobody.sock: ")


def options_of(parser: argparse.ArgumentParser) -> set[str]:
    """The options of a verb, and of those beneath it."""
    found: set[str] = set()
    for action in parser._actions:
        found.update(action.option_strings)
        if isinstance(action, argparse._SubParsersAction):
            found.update(*map(options_of, action.choices.values()))
    return found


@pytest.mark.parametrize("verb", sorted(VERBS))
def test_every_verb_that_takes_a_store_takes_a_server_in_its_place(verb: str):
    (verbs,) = (one for one in build([verb])._actions if isinstance(one, argparse._SubParsersAction))
    options = options_of(verbs.choices[verb])
    assert ("--url" in options) == ("--store" in options)
