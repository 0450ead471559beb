"""A session run again: from any record, with another model or policy, without effects, and the difference shown."""

from __future__ import annotations

import io
import json
import pathlib

import pytest

from windlass.cli.main import main

from .screens import Case, look, wanted

AGENTS = """
import windlass
from windlass.testing.scripted import ScriptedModel, by_history, call


@windlass.tool
def pay(cents: int) -> str:
    "Pay."
    with open("paid", "a") as file:
        file.write("x")
    return f"paid {cents}"


def agent(*turns, **more):
    return windlass.Agent("more", model=ScriptedModel(by_history(list(turns))), tools=[pay], **more)


TURNS = [call("pay", cents=7)], "Done: 7."
first = agent(*TURNS)
asks = agent(*TURNS, policy=windlass.Policy(rules=(windlass.ask("pay"),)))
other = agent([call("pay", cents=8)], "Done, I think.")
never = windlass.Policy(rules=(windlass.deny("pay", reason="not on Sundays"),))
"""

PROMPT, CALL, RESULT, END = 5, 9, 13, 16
"""Where the appends of the session end: its prompt, the reply with the call, the call's result, the last reply."""


@pytest.fixture
def folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """A folder with one session, `s`, that paid 7 and said so."""
    (tmp_path / "more.py").write_text(AGENTS, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO()))
    assert main(["run", "--agent", "more.py:first", "Pay it.", "--session", "s", "--quiet"]) == 0
    assert (tmp_path / "paid").read_text() == "x"
    return tmp_path


def changes(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The lines that differ, of what was printed last."""
    return [line for line in capsys.readouterr().out.splitlines() if line.startswith(("+ ", "- "))]


def test_same_agent_goes_as_before_and_no_tool_runs(folder: pathlib.Path, capsys: pytest.CaptureFixture[str]):
    capsys.readouterr()
    assert main(["replay", "s", "--agent", "more.py:first", "--as", "again"]) == 0
    assert capsys.readouterr().out == ("it went as before: 4 items; look at it with: windlass logs again\n")
    assert (folder / "paid").read_text() == "x"
    assert main(["replay", "s", "--agent", "more.py:first", "--live"]) == 0
    assert (folder / "paid").read_text() == "xx"


CALLED_OTHERWISE = ["-  → pay(cents=7)", "-  paid 7", "+  → pay(cents=8)"]
NOT_RECORDED = ["+  this call was not made in the recorded session, and tools do not run in a replay"]
ENDED_OTHERWISE = ["-  Done: 7.", "+  Done, I think."]


@pytest.mark.parametrize("at", range(END))
def test_from_any_record_the_past_stays_and_the_other_model_goes_on(
    at: int, folder: pathlib.Path, capsys: pytest.CaptureFixture[str]
):
    capsys.readouterr()
    code = main(["replay", "s", "--agent", "more.py:other", "--at", str(at)])
    found = changes(capsys)
    if at <= PROMPT:
        assert sorted(found) == sorted(CALLED_OTHERWISE + NOT_RECORDED + ENDED_OTHERWISE)
    elif at <= RESULT:
        assert found == ENDED_OTHERWISE
    else:
        assert found == []
    assert code == (1 if found else 0)
    assert (folder / "paid").read_text() == "x"


def test_other_policy_judges_the_calls_again(folder: pathlib.Path, capsys: pytest.CaptureFixture[str]):
    words = ["replay", "s", "--agent", "more.py:first", "--policy", "more.py:never"]
    capsys.readouterr()
    assert main([*words, "--at", str(CALL)]) == 1
    (gone, came) = changes(capsys)
    assert gone == "-  paid 7"
    assert "not on Sundays" in came
    assert main([*words, "--at", str(END - 1)]) == 1
    assert "it went differently before record 15 already" in capsys.readouterr().out
    assert main([*words, "--at", str(END - 1), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["same"] is False


def test_what_a_person_said_is_said_again(folder: pathlib.Path, capsys: pytest.CaptureFixture[str]):
    assert main(["run", "--agent", "more.py:asks", "Pay it.", "--session", "asked", "--quiet"]) == 3
    assert main(["approve", "asked", "--wait", "0"]) == 0
    assert main(["run", "--agent", "more.py:asks", "--session", "asked", "--quiet"]) == 0
    assert (folder / "paid").read_text() == "xx"
    capsys.readouterr()
    for at in ("0", "9", "12"):
        assert main(["replay", "asked", "--agent", "more.py:asks", "--at", at]) == 0, at
        assert "it went as before: 4 items" in capsys.readouterr().out
    assert (folder / "paid").read_text() == "xx"


def test_later_run_begins_with_the_history_before_it(folder: pathlib.Path, capsys: pytest.CaptureFixture[str]):
    assert main(["run", "--agent", "more.py:first", "And?", "--session", "s", "--quiet"]) == 1  # nothing is left to say
    capsys.readouterr()
    assert main(["replay", "s", "--agent", "more.py:first", "--at", str(END), "--as", "late"]) == 0
    assert main(["inspect", "late"]) == 0
    assert "Done: 7." in capsys.readouterr().out


@pytest.mark.parametrize("at", [CALL, RESULT])
def test_live_calls_are_not_made_again_from_within_a_run(
    at: int, folder: pathlib.Path, capsys: pytest.CaptureFixture[str]
):
    assert main(["replay", "s", "--agent", "more.py:first", "--live", "--at", str(at)]) == 2
    assert "or begin where the run does, with --at 1" in capsys.readouterr().err
    assert (folder / "paid").read_text() == "x"


SCREENS = [
    Case(
        verb="replay",
        kind="normal",
        words="replay done --agent agents.py:terse --at 13 --as other",
        code=1,
        shown="""\
--- done (then)
+++ other (now)
@@ -7,3 +7,3 @@
   paid I-7
 assistant
-  Done: I-7 is paid.
+  Paid.
it went differently; look at it with: windlass logs other
""",
    ),
    Case(
        verb="replay",
        kind="empty",
        words="replay done --agent agents.py:free --at 16",
        code=2,
        shown="""\
windlass: no prompt was given behind record 16: there is nothing to run again
""",
    ),
    Case(
        verb="replay",
        kind="error",
        words="replay done --agent agents.py:free --at 99",
        code=2,
        shown="""\
windlass: --at 99: session 'done' has the records 1 to 16
""",
    ),
]


@pytest.mark.parametrize("case", SCREENS, ids=[case.name for case in SCREENS])
def test_whole_screen(case, terminal, place):
    here = place(case.place)
    screen = wanted(case, here)
    assert look(terminal, case, here) == screen
