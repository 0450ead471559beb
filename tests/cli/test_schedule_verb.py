"""`windlass schedule`: made, listed, looked at, steered, and refused if it makes no sense."""

from __future__ import annotations

import pathlib
import re

import pytest

from windlass.cli.main import main

from .screens import proves

AGENT = """
import windlass
from windlass.testing import ScriptedModel

reporter = windlass.Agent("reporter", model=ScriptedModel(["done"]))
"""
ADD = ["schedule", "add", "nightly", "--agent", "report.py:reporter", "--prompt", "Report."]


@pytest.fixture(autouse=True)
def folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "report.py").write_text(AGENT)
    return tmp_path


@proves("schedule", "normal")
def test_a_schedule_is_made_listed_shown_and_steered(capsys):
    assert main([*ADD, "--cron", "0 2 * * *", "--zone", "Europe/Berlin"]) == 0
    assert re.fullmatch(r"schedule nightly: next \d{4}-\d\d-\d\d 02:00:00\+0[12]:00\n", capsys.readouterr().out)
    assert main(["schedule", "list"]) == 0
    assert re.match(r"nightly  next \d{4}-\d\d-\d\d 0[01]:00:00\+00:00  reporter  ", capsys.readouterr().out)
    assert main(["schedule", "show", "nightly"]) == 0
    shown = capsys.readouterr().out
    assert "when       cron 0 2 * * * in Europe/Berlin; next " in shown
    assert "what       Report. -> a new session each time\n" in shown
    assert main(["schedule", "pause", "nightly", "--wait", "0"]) == 0
    assert capsys.readouterr().out.startswith("schedule: pause\nkept in the inbox")


@proves("schedule", "empty")
def test_without_schedules_it_says_how_one_is_made(capsys):
    assert main(["run", "--agent", "report.py:reporter", "--session", "other", "Hello."]) == 0
    capsys.readouterr()
    assert main(["schedule", "list"]) == 0
    assert capsys.readouterr().out == "no schedules yet: make one with 'windlass schedule add'\n"
    assert main(["schedule", "show", "other"]) == 2
    assert "'other' is no schedule" in capsys.readouterr().err


@proves("schedule", "error")
@pytest.mark.parametrize(
    ("more", "said"),
    [
        ([], "cron"),
        (["--cron", "0 2 * *"], "0 2 * *"),
        (["--cron", "0 2 * * *", "--zone", "Europe/Nowhere"], "Europe/Nowhere"),
        (["--every", "0"], "every"),
    ],
)
def test_a_plan_that_makes_no_sense_is_refused_with_what_is_wrong(more, said, capsys):
    assert main([*ADD, *more]) == 2
    told = capsys.readouterr().err
    assert said in told
    assert "Traceback" not in told


def test_a_schedule_must_be_named(capsys):
    assert main(["schedule", "pause"]) == 2
    assert "which schedule? windlass schedule pause NAME" in capsys.readouterr().err
