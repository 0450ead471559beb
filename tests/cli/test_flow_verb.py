"""`windlass flow`: a workflow is checked, carried out with a line for each node, looked at and drawn."""

from __future__ import annotations

import json
import os
import pathlib
import re
from xml.etree import ElementTree

import pytest

from tests.isolation.support import branches, repository, worktrees
from windlass.cli.main import main

from .screens import proves

FLOWS = """
import windlass
from windlass import flows
from windlass.testing import ScriptedModel

worker = windlass.Agent("worker", ScriptedModel(lambda request: "All is well."))
flow = flows.Flow(
    "review",
    [
        flows.spawn("look", worker, "Look at {input}."),
        flows.reduce("end", "concat", ["look"]),
    ],
)
asking = flows.Flow("asking", [flows.gate("agree", "Go on?")])
failing = flows.Flow("failing", [flows.map_over("each", "input", worker, "{item}")])
"""
NODE = {"name": "look", "agent": "worker", "task": "Look."}
FILE = {"name": "filed", "agents": {"worker": {"instructions": "Work."}}, "nodes": [NODE]}


@pytest.fixture(autouse=True)
def folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "review.py").write_text(FLOWS)
    (tmp_path / "filed.json").write_text(json.dumps(FILE))
    return tmp_path


@proves("flow", "normal")
def test_a_workflow_is_checked_carried_out_and_looked_at(capsys):
    assert main(["flow", "check", "review.py:flow"]) == 0
    assert capsys.readouterr().out == (
        "review: 2 nodes, sound\n"
        "NODE  WHAT            NEEDS\n"
        "look  spawn: worker\n"
        "end   reduce: concat  look\n"
    )  # fmt: skip
    assert main(["flow", "run", "review.py:flow", "--id", "march", "--input", "the plan"]) == 0
    told = capsys.readouterr()
    assert told.out == "All is well.\n"
    assert told.err == (
        "workflow march\n"
        "[0/2] ▸ look\n"
        "[1/2] ✓ look done\n"
        "[1/2] ▸ end\n"
        "[2/2] ✓ end done\n"
    )  # fmt: skip
    assert main(["flow", "show", "march"]) == 0
    assert capsys.readouterr().out == (
        "workflow march\n"
        "NODE  STATE  OUTPUT\n"
        "look  done   All is well.\n"
        "end   done   All is well.\n"
    )  # fmt: skip


def test_the_same_name_finds_what_was_done(capsys):
    for _ in range(2):
        assert main(["flow", "run", "review.py:flow", "--id", "march"]) == 0
        assert capsys.readouterr().out == "All is well.\n"


def test_a_resumed_workflow_tells_what_is_new_and_how_to_go_on(capsys):
    assert main(["flow", "run", "review.py:asking", "--id", "asks"]) == 3
    told = capsys.readouterr().err
    assert "  windlass flow run review.py:asking --id asks\n" in told
    question = told.partition("it waits for ")[2].partition(":")[0]
    assert main(["answer", "asks", question, "yes", "--wait", "0"]) == 0
    assert "  windlass flow run FILE --id asks\n" in capsys.readouterr().out
    assert main(["flow", "run", "review.py:asking", "--id", "asks"]) == 0
    again = capsys.readouterr()
    assert again.err == "workflow asks: 0 of 1 nodes had ended before\n[1/1] ✓ agree done\n"
    assert again.out == "yes\n"
    assert main(["show", "asks"]) == 0
    assert "windlass flow show asks" in capsys.readouterr().out


def test_another_input_for_the_same_name_is_refused_and_both_are_named(capsys):
    assert main(["flow", "run", "review.py:flow", "--id", "march", "--input", "one"]) == 0
    assert main(["flow", "run", "review.py:flow", "--id", "march", "--input", "two"]) == 2
    assert 'workflow \'march\' was begun with the input "one", not with "two"' in capsys.readouterr().err


def test_a_missing_key_of_a_child_is_explained_at_the_root(folder, monkeypatch, capsys):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    keyless = {**FILE, "agents": {"worker": {"model": "openai/gpt-5-mini"}}}
    (folder / "keyless.json").write_text(json.dumps(keyless))
    why = "no key for 'openai': set OPENAI_API_KEY"
    for _ in range(2):
        assert main(["flow", "run", "keyless.json", "--id", "keyless"]) == 3
        told = capsys.readouterr().err
        assert f"it waits for a key: look (worker): {why}" in told
        assert "  windlass flow run keyless.json --id keyless\n" in told
    assert main(["show", "keyless"]) == 0
    shown = capsys.readouterr().out
    assert f"it waits for a key: {why}" in shown
    assert "  windlass flow run FILE --id keyless\n" in shown


def test_a_fork_of_a_workflow_is_told_to_go_on_as_one(capsys):
    assert main(["flow", "run", "review.py:flow", "--id", "march"]) == 0
    assert main(["fork", "march", "--as", "april"]) == 0
    assert "  windlass flow run FILE --id april\n" in capsys.readouterr().out


def test_a_workflow_that_waits_says_for_whom_and_one_that_failed_says_why(capsys):
    assert main(["flow", "run", "review.py:asking", "--id", "asks"]) == 3
    assert "it waits for q" in capsys.readouterr().err
    assert main(["flow", "run", "review.py:failing", "--id", "fails", "--input", '{"a": 1}']) == 1
    told = capsys.readouterr().err
    assert "[1/1] ✗ each failed: it goes over a list" in told
    assert "windlass: the workflow did not end well: each: it goes over a list" in told


@proves("flow", "empty")
def test_what_is_no_workflow_is_not_shown_as_one(capsys):
    assert main(["run", "--agent", "review.py:worker", "--session", "other", "Hello."]) == 0
    capsys.readouterr()
    assert main(["flow", "show", "other"]) == 2
    assert "'other' is no workflow: 'windlass show other' shows any session" in capsys.readouterr().err


@proves("flow", "error")
@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"needs": ["lok"]}, "- look: it needs 'lok', which is no node: did you mean 'look'?"),
        ({"kind": "magic"}, "- look: kind 'magic' is none of spawn, "),
        ({"agent": "nobody"}, "- look: there is no agent 'nobody': there are worker"),
    ],
)
def test_a_workflow_that_cannot_be_carried_out_is_refused_with_what_is_wrong(folder, change, said, capsys):
    node = {**NODE, **change}
    (folder / "wrong.json").write_text(json.dumps({**FILE, "nodes": [node]}))
    assert main(["flow", "check", "wrong.json"]) == 2
    told = capsys.readouterr().err
    assert said in told
    assert "Traceback" not in told


def test_what_is_no_file_of_a_workflow_is_named(capsys):
    assert main(["flow", "check", "review.txt"]) == 2
    assert "'review.txt' is no file of a workflow: .yaml, .json or FILE.py:NAME" in capsys.readouterr().err


def test_diagrams_and_json_are_printed_for_programs(capsys):
    assert main(["flow", "show", "filed.json", "--mermaid"]) == 0
    assert capsys.readouterr().out == 'flowchart TD\n    n_look["look<br/>spawn: worker"]\n'
    assert main(["flow", "run", "review.py:flow", "--id", "march", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["nodes"]["end"]["output"] == "All is well."
    assert main(["flow", "show", "march", "--svg"]) == 0
    drawn = ElementTree.fromstring(capsys.readouterr().out)
    assert [text.text for text in drawn.iter("{http://www.w3.org/2000/svg}text")] == [
        "look",
        "spawn, done",
        "end",
        "reduce, done",
    ]


def test_a_list_of_sessions_says_how_far_each_workflow_has_got(capsys):
    assert main(["flow", "run", "review.py:flow", "--id", "march"]) == 0
    assert main(["flow", "run", "review.py:failing", "--id", "fails", "--input", "1"]) == 1
    assert main(["flow", "run", "review.py:asking", "--id", "asks"]) == 3
    capsys.readouterr()
    assert main(["ps"]) == 0
    rows = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
    assert re.search(r" 0 of 1 nodes ended: question q\S+ ", rows["asks"])
    assert re.search(r" 2 of 2 nodes ended +review$", rows["march"])
    assert re.search(r" 1 of 1 nodes ended, without each +failing$", rows["fails"])
    assert main(["ps", "--json", "--text", "fails"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["stands"] == "1 of 1 nodes ended, without each"
    assert main(["show", "fails"]) == 0
    assert "workflow 1 of 1 nodes ended, without each" in " ".join(capsys.readouterr().out.split())


def test_a_workflow_that_was_cancelled_is_shown_as_such(capsys):
    assert main(["flow", "run", "review.py:asking", "--id", "asks"]) == 3
    assert main(["cancel", "asks"]) == 0
    assert main(["flow", "run", "review.py:asking", "--id", "asks"]) == 1
    capsys.readouterr()
    assert main(["flow", "show", "asks"]) == 0
    assert re.search(r"agree +cancelled", capsys.readouterr().out)
    assert main(["flow", "show", "asks", "--mermaid"]) == 0
    assert "class n_agree cancelled" in capsys.readouterr().out
    assert main(["ps"]) == 0
    assert re.search(r"^asks +idle .* cancelled, 0 of 1 nodes ended +asking$", capsys.readouterr().out, re.M)
    assert main(["ps", "--tree"]) == 0
    assert "(cancelled)" in capsys.readouterr().out


WRITING = """
import windlass
from windlass import flows
from windlass.testing import ScriptedModel, by_history, call

model = ScriptedModel(by_history([call("write", path="new.txt", content="new"), "written"]))
writer = windlass.Agent("writer", model, tools=["write"], isolation="worktree", policy=windlass.Policy(rules=[windlass.allow("*")]))
flow = flows.Flow("writes", [flows.spawn("write", writer, "Write.")])
"""


def test_a_workflow_works_in_the_folder_that_it_is_run_in(folder: pathlib.Path, capsys):
    place = repository(folder / "repo")
    (folder / "writes.py").write_text(WRITING)
    os.chdir(place)
    assert main(["flow", "run", "../writes.py:flow", "--id", "w"]) == 0, capsys.readouterr().err
    assert capsys.readouterr().out == "written\n"
    assert (place / "new.txt").read_text() == "new"
    assert (worktrees(place), branches(place)) == (0, [])


def test_the_cost_of_a_workflow_is_that_of_its_nodes_by_model(capsys):
    assert main(["flow", "run", "review.py:flow", "--id", "march"]) == 0
    assert main(["cost", "march~c5.0", "--json"]) == 0
    of_child = json.loads(capsys.readouterr().out.removeprefix("All is well.\n"))
    assert [row["model"] for row in of_child] == ["scripted"]
    assert of_child[0]["input_tokens"] > 0
    assert main(["cost", "march", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == of_child


def test_a_file_without_a_workflow_is_told_what_to_write(folder: pathlib.Path, capsys):
    (folder / "two.py").write_text("a = 2\n")
    assert main(["flow", "run", "two.py:a"]) == 2
    assert "give a variable the value windlass.flows.Flow(...)" in capsys.readouterr().err
