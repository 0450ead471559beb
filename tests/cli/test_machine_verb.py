"""`windlass machine`: a state machine is checked, drawn, and looked at where a session stands in it."""

from __future__ import annotations

import json
import pathlib
import re
from xml.etree import ElementTree

import pytest

from windlass.cli.main import main

from .screens import proves

AGENTS = """
import windlass
from windlass import machines
from windlass.testing import ScriptedModel

shepherd = machines.Machine(
    "pull_request",
    [
        machines.agent("work", "Do {input.task}.", next="watch"),
        machines.timer("watch", after="1h", next="review"),
        machines.park("review", "Merge it?", next=["done", "work"]),
        machines.completed("done", "it is merged"),
    ],
)
select = windlass.testing.call("select_state", state="work", input={"task": "the tests"})
agent = windlass.Agent("shepherd", ScriptedModel([select, "It is done.", "It stays."]), machine=shepherd)
other = windlass.Agent("other", ScriptedModel(["Hello."]))
"""
NAP = {"name": "nap", "states": [{"name": "nap", "kind": "timer", "after": "1h", "next": "done"}, {"name": "done", "kind": "completed"}]}  # fmt: skip


@pytest.fixture(autouse=True)
def folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "agents.py").write_text(AGENTS)
    (tmp_path / "nap.json").write_text(json.dumps(NAP))
    return tmp_path


def same_time(text: str) -> str:
    """The text with each time replaced."""
    return re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "TIME", text)


@proves("machine", "normal")
def test_a_machine_is_checked_gone_through_and_looked_at(capsys):
    assert main(["machine", "check", "agents.py:shepherd"]) == 0
    assert capsys.readouterr().out == (
        "pull_request: 4 states, sound; it begins with work\n"
        "STATE   WHAT              THEN\n"
        "work    agent             watch\n"
        "watch   timer: 1h         review\n"
        "review  a person decides  done work\n"
        "done    completed\n"
    )
    assert main(["run", "--agent", "agents.py:agent", "--session", "pr", "Look after the change."]) == 4
    capsys.readouterr()
    assert main(["machine", "show", "pr"]) == 0
    assert same_time(capsys.readouterr().out) == (
        "session pr, machine pull_request: in watch (timer): until TIME UTC\n"
        "TIME                     STATE  BY     CAME TO\n"
        "TIME UTC  work   agent  done: It is done.\n"
        "TIME UTC  watch  rule   (it is there)\n"
    )
    assert main(["show", "pr"]) == 0
    told = same_time(capsys.readouterr().out)
    assert "machine  pull_request: in watch (timer): until TIME UTC\n" in told
    assert "so far: work 1×, watch 1×\n" in told
    assert main(["ps", "--tree"]) == 0
    assert "in watch: timer " in capsys.readouterr().out


def test_a_list_of_sessions_says_where_each_machine_stands_and_until_when_it_sleeps(capsys):
    assert main(["run", "--agent", "agents.py:agent", "--session", "pr", "Look after the change."]) == 4
    capsys.readouterr()
    assert main(["ps"]) == 0
    assert re.search(r"^pr +sleeping .* in watch \(timer\): a timer, in (59 m|1 h)", capsys.readouterr().out, re.M)
    assert main(["ps", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["session"], row["state"], row["stands"]) == ("pr", "sleeping", "in watch (timer)")
    assert main(["cancel", "pr", "--wait", "0"]) == 0
    assert main(["run", "--agent", "agents.py:agent", "--session", "pr", "Leave it."]) == 0
    assert "It stays." in capsys.readouterr().out  # the machine alone was cancelled: nobody had said this yet
    assert main(["ps"]) == 0
    assert "machine cancelled in watch" in capsys.readouterr().out


def test_a_list_of_sessions_says_where_a_machine_was_stopped(capsys):
    assert main(["run", "--agent", "agents.py:agent", "--session", "pr", "Look after the change."]) == 4
    assert main(["interrupt", "pr", "--wait", "0"]) == 0
    assert main(["run", "--agent", "agents.py:agent", "--session", "pr", "Leave it."]) == 0
    capsys.readouterr()
    assert main(["ps"]) == 0
    assert "stopped in watch (timer)" in capsys.readouterr().out


def test_programs_get_the_machine_as_json(capsys):
    assert main(["run", "--agent", "agents.py:agent", "--session", "pr", "Look after the change."]) == 4
    capsys.readouterr()
    assert main(["machine", "show", "pr", "--json"]) == 0
    view = json.loads(capsys.readouterr().out)
    assert (view["state"], view["status"]) == ("watch", "sleeping")
    assert [step["state"] for step in view["history"] if step["kind"] == "moved"] == ["work", "watch"]
    assert main(["show", "pr", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["machine"] == view
    assert main(["machine", "check", "nap.json", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"machine": "nap", "states": ["nap", "done"], "sound": True}


def test_a_machine_is_drawn_with_the_current_state_filled(capsys):
    assert main(["machine", "diagram", "nap.json"]) == 0
    assert capsys.readouterr().out.startswith("flowchart TD\n")
    assert main(["run", "--agent", "agents.py:agent", "--session", "pr", "Look after the change."]) == 4
    capsys.readouterr()
    assert main(["machine", "diagram", "pr"]) == 0
    assert "class s_watch current" in capsys.readouterr().out
    assert main(["machine", "diagram", "pr", "--svg"]) == 0
    assert ElementTree.fromstring(capsys.readouterr().out).tag.endswith("svg")


@proves("machine", "empty")
def test_a_session_without_a_machine_is_not_shown_as_one(capsys):
    assert main(["run", "--agent", "agents.py:other", "--session", "plain", "Hello."]) == 0
    capsys.readouterr()
    assert main(["machine", "show", "plain"]) == 2
    assert "'plain' has no state machine: 'windlass show plain' shows any session" in capsys.readouterr().err


@proves("machine", "error")
def test_a_machine_that_cannot_be_gone_through_is_refused_with_all_that_is_wrong(folder, capsys):
    states = [{"name": "nap", "kind": "timer", "after": "soon", "next": "dnoe"}, NAP["states"][1]]
    (folder / "wrong.json").write_text(json.dumps({"name": "nap", "states": states}))
    assert main(["machine", "check", "wrong.json"]) == 2
    told = capsys.readouterr().err
    assert "'soon' is no duration" in told
    assert "did you mean 'done'?" in told
    assert main(["machine", "check", "pr"]) == 2
    assert "'pr' is no file of a state machine: .yaml, .json or FILE.py:NAME" in capsys.readouterr().err
