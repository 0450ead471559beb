"""The tools that run commands: off unless named, asked about by default, their result a terminal block."""

from __future__ import annotations

import shutil

import pytest

import windlass
from windlass.events.tools.calls import ToolFinished
from windlass.events.tools.permissions import PermissionRequested, ShellDetail
from windlass.events.values.blocks import Terminal
from windlass.testing.scripted import ScriptedModel, call
from windlass.tools.shell.shown_output import bounded_text, shown_text

ALLOWED = windlass.Policy(default="allow")


async def ran(tmp_path, *calls, policy=ALLOWED, tools=("shell", "run_program")):
    """The events of a session whose model makes these calls, each in a turn of its own."""
    agent = windlass.Agent(
        "coder", model=ScriptedModel([*[[one] for one in calls], "done"]), tools=tools, policy=policy
    )
    async with windlass.open(agents=[agent]) as runtime:
        session = await runtime.session(agent, workspace=tmp_path)
        async for _ in session.prompt("go"):
            pass
        return [record.event async for record in session.records()]


def terminals(events):
    blocks = [event.body.content[0] for event in events if isinstance(event, ToolFinished) and event.body is not None]
    assert all(isinstance(block, Terminal) for block in blocks)
    return blocks


async def test_the_result_is_what_was_printed_with_exit_code_and_folder(tmp_path):
    (tmp_path / "sub").mkdir()
    events = await ran(tmp_path, call("shell", command="pwd; echo wrong >&2; exit 3", cwd="sub"))
    (block,) = terminals(events)
    assert block == Terminal(text=f"{tmp_path}/sub\nwrong\n", exit_code=3, cwd="sub")
    finished = next(event for event in events if isinstance(event, ToolFinished))
    assert (finished.ok, finished.error_code) == (False, "exit_code")


async def test_a_program_gets_its_words_as_they_are(tmp_path):
    events = await ran(tmp_path, call("run_program", argv=["printf", "%s|", "$HOME", "a b", "*"]))
    assert terminals(events)[0].text == "$HOME|a b|*|"


async def test_no_start_file_of_the_users_shell_is_read(tmp_path, monkeypatch):
    (tmp_path / ".bashrc").write_text("echo leaked\n")
    (tmp_path / ".profile").write_text("echo leaked\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("BASH_ENV", str(tmp_path / ".bashrc"))
    events = await ran(tmp_path, call("shell", command="echo clean"))
    assert terminals(events)[0].text == "clean\n"


async def test_without_bash_sh_runs_and_says_so(tmp_path, monkeypatch):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "sh").symlink_to(shutil.which("sh"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    events = await ran(tmp_path, call("shell", command="echo plain"))
    assert terminals(events)[0].text == "[there is no bash here: sh ran this]\nplain\n"


async def test_by_default_a_person_is_asked_and_sees_the_whole_command(tmp_path):
    events = await ran(tmp_path, call("shell", command="touch here", intention="try"), policy=windlass.Policy())
    asked = next(event for event in events if isinstance(event, PermissionRequested))
    detail = asked.body.detail if asked.body is not None else None
    assert isinstance(detail, ShellDetail)
    assert (detail.command, detail.intention) == ("touch here", "try")
    assert not (tmp_path / "here").exists()


async def test_a_folder_outside_of_the_workspace_is_refused(tmp_path):
    events = await ran(tmp_path, call("shell", command="pwd", cwd="../.."))
    finished = next(event for event in events if isinstance(event, ToolFinished))
    assert not finished.ok


@pytest.mark.parametrize(
    ("printed", "shown"),
    [
        (b"\x1b[31mred\x1b[0m\n", "red\n"),
        (b"\x1b]0;title\x07x\x1b]8;;http://a\x1b\\link\x1b]8;;\x1b\\", "xlink"),
        (b"10%\r50%\r100%\r\n", "100%\n"),
        (b"a\x00b\x08", "a\\x00b\\x08"),
        ("a\u202eb\u200bc".encode(), "a\\u202eb\\u200bc"),
        (b"\xff", "\ufffd"),
        ("ä\t✓\n".encode(), "ä\t✓\n"),
    ],
)
def test_what_steers_a_terminal_or_hides_is_not_passed_on(printed, shown):
    assert shown_text(printed) == shown


def test_a_long_output_keeps_its_head_and_its_tail():
    text = "a" * 50_000 + "z" * 50_000
    kept = bounded_text(text)
    assert kept.startswith("a" * 8_000 + "\n[…")
    assert kept.endswith("…]\n" + "z" * 16_000)
    assert "76,000 characters" in kept
