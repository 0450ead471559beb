"""`windlass schedule`: made, listed, looked at, steered, and refused if it makes no sense."""

from __future__ import annotations

import pathlib
import re
import signal
import subprocess
from xml.etree import ElementTree

import pytest

from windlass.cli.main import main
from windlass.runtime.api.termination import TERMINATED

from .screens import proves
from .terminal import PROGRAM

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
    assert re.fullmatch(
        r"schedule nightly of agent reporter: next \d{4}-\d\d-\d\d 02:00:00\+0[12]:00\n", capsys.readouterr().out
    )
    assert main(["schedule", "list"]) == 0
    assert re.fullmatch(r"nightly  next \d{4}-\d\d-\d\d 02:00:00\+0[12]:00  reporter\n", capsys.readouterr().out)
    assert main(["schedule", "show", "nightly"]) == 0
    shown = capsys.readouterr().out
    assert "when       cron 0 2 * * * in Europe/Berlin; next " in shown
    assert "what       Report. -> a new session each time\n" in shown
    assert main(["schedule", "pause", "nightly", "--wait", "0"]) == 0
    told = capsys.readouterr().out
    assert told.startswith("schedule: pause\nkept in the inbox")
    assert told.endswith("\n  windlass schedule serve --agent FILE.py:reporter\n")
    assert main(["schedule", "list"]) == 0
    assert " (a command waits)  reporter\n" in capsys.readouterr().out


def test_a_schedule_is_drawn(capsys):
    assert main([*ADD, "--every", "60"]) == 0
    capsys.readouterr()
    assert main(["schedule", "diagram", "nightly"]) == 0
    assert capsys.readouterr().out.startswith('flowchart TD\n    n0(["nightly<br/>every 60 s"])\n    n1["20')
    assert main(["schedule", "diagram", "nightly", "--svg"]) == 0
    drawn = ElementTree.fromstring(capsys.readouterr().out)
    assert "Report." in [text.text for text in drawn.iter("{http://www.w3.org/2000/svg}text")]


def test_a_name_that_is_taken_keeps_its_plan_and_says_so(capsys):
    assert main([*ADD, "--cron", "0 2 * * *"]) == 0
    assert main([*ADD, "--cron", "0 2 * * *"]) == 0, "the same once more"
    capsys.readouterr()
    assert main([*ADD, "--cron", "0 5 * * *"]) == 2
    assert "'nightly' is there with cron='0 2 * * *', not '0 5 * * *': remove it" in capsys.readouterr().err
    assert main(["run", "--agent", "report.py:reporter", "--session", "other", "Hello."]) == 0
    assert main(["schedule", "add", "other", *ADD[3:], "--every", "60"]) == 2
    assert "'other' is a session and no schedule" in capsys.readouterr().err
    assert main(["schedule", "pause", "other"]) == 2
    assert "'other' is no schedule" in capsys.readouterr().err


def test_serving_says_what_is_begun_and_drains_on_ctrl_c(folder, monkeypatch):
    monkeypatch.setenv("WINDLASS_MODEL", "sonnet")  # of the agent that nobody names; never asked for anything
    assert main([*ADD, "--every", "0.2"]) == 0
    assert main(["schedule", "add", "alone", "--every", "60", "--prompt", "x"]) == 0
    words = [*PROGRAM, "schedule", "serve", "--agent", "report.py:reporter"]
    with subprocess.Popen(words, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as serving:
        assert serving.stdout is not None
        lines = iter(serving.stdout)
        assert next(lines) == "not driven here: alone, a schedule of agent assistant\n"
        assert next(lines).startswith("driving the schedules of reporter; ")
        assert next(line for line in lines if line.startswith("nightly: begun nightly~o"))
        serving.send_signal(signal.SIGINT)
        serving.stdout.read()
        assert serving.wait() == TERMINATED


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
        ([], "--cron"),
        (["--cron", "0 25 * * *"], "hour 0 to 23"),
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
