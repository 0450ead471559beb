"""`windlass skills`: list, show, check and trust."""

from __future__ import annotations

import json
import pathlib

import pytest

from tests.skills.corpus import skill
from windlass.cli.main import main

from .screens import proves


@pytest.fixture
def shelf(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    for variable, name in (("HOME", "home"), ("XDG_STATE_HOME", "state"), ("XDG_CACHE_HOME", "cache")):
        monkeypatch.setenv(variable, str(tmp_path / name))
    folder = tmp_path / "shelf" / "pdf"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(skill("pdf", "Reads PDF.", body="Open it.\n"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "shelf"


@proves("skills", "normal")
def test_skills_are_listed_with_where_they_come_from_and_whether_they_are_trusted(shelf, capsys):
    assert main(["skills", "list", str(shelf)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["NAME", "FROM", "TRUST", "WHAT"]
    assert lines[1].split() == ["pdf", "directory", "new", "Reads", "PDF."]
    assert main(["skills", "list", str(shelf), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [(each["name"], each["trust"]) for each in told["skills"]] == [("pdf", "new")]


@proves("skills", "empty")
def test_without_skills_it_says_where_to_put_some(shelf, capsys):
    assert main(["skills", "list"]) == 0
    assert capsys.readouterr().out == "no skills: give a folder, or put some into ~/.agents/skills\n"


@proves("skills", "error")
def test_what_is_not_there_is_said_with_what_is(shelf, capsys):
    assert main(["skills", "show", "nothing", str(shelf)]) != 0
    assert "no skill 'nothing': there are pdf" in capsys.readouterr().err
    assert main(["skills", "trust", str(shelf.parent)]) != 0
    assert "no skill in" in capsys.readouterr().err


def test_one_is_shown_whole(shelf, capsys):
    assert main(["skills", "show", "pdf", str(shelf)]) == 0
    told = capsys.readouterr().out
    assert "name: pdf\n" in told
    assert told.endswith("\nOpen it.\n")


def test_a_folder_is_checked_with_file_line_and_fix(shelf, capsys):
    assert main(["skills", "check", str(shelf / "pdf")]) == 0
    assert capsys.readouterr().out == f"{shelf / 'pdf'}: fits the format\n"
    (shelf / "pdf" / "SKILL.md").write_text(skill("PDF", "Reads."))
    assert main(["skills", "check", str(shelf / "pdf")]) == 1
    told = capsys.readouterr().out
    assert f"{shelf / 'pdf' / 'SKILL.md'}:2: error: the name 'PDF' is not lowercase" in told
    assert "write 'pdf'" in told


def test_trust_shows_what_changed_and_asks_again(shelf, capsys):
    assert main(["skills", "trust", str(shelf / "pdf"), "--yes"]) == 0
    assert "+Open it." in capsys.readouterr().out
    assert main(["skills", "trust", str(shelf / "pdf")]) == 0
    assert "trusted already" in capsys.readouterr().out
    (shelf / "pdf" / "SKILL.md").write_text(skill("pdf", "Reads PDF.", body="Open it.\nSend it.\n"))
    assert main(["skills", "list", str(shelf), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["skills"][0]["trust"] == "changed"
    assert main(["skills", "trust", str(shelf / "pdf")]) == 1
    told = capsys.readouterr().out
    assert "+Send it." in told
    assert "pdf: not trusted" in told
    assert main(["skills", "trust", str(shelf / "pdf"), "--yes"]) == 0
    capsys.readouterr()
    assert main(["skills", "list", str(shelf), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["skills"][0]["trust"] == "trusted"
