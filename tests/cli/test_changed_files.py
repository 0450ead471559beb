"""`windlass files`: what a session's tools changed, with the difference, for people and for programs; and `rewind --files`."""

from __future__ import annotations

import asyncio
import json
import pathlib

import pytest

import windlass
from windlass.cli.main import main
from windlass.testing.scripted import ScriptedModel, call
from windlass.tools.files import file_tools

from .screens import proves


@pytest.fixture
def at(tmp_path: pathlib.Path) -> list[str]:
    """A store with a session that changed files."""
    root = tmp_path / "place"
    root.mkdir()
    (root / "a.py").write_text("one\ntwo\n")
    turn = [call("edit", path="a.py", old="two", new="2\x1b[31m"), call("write", path="b.py", content="b\n")]
    agent = windlass.Agent(
        "writer",
        model=ScriptedModel([turn, "done"]),
        tools=file_tools(root, ["edit", "write"]),
        policy=windlass.ALLOW_ALL,
    )
    store = str(tmp_path / "work.db")

    async def lived() -> None:
        async with windlass.open(store, agents=[agent]) as runtime:
            session = await runtime.session(agent, "march")
            await session.prompt("go")
            await session.wait_idle()

    asyncio.run(lived())
    return ["--store", store]


@proves("files", "normal")
def test_the_changed_files_are_listed(at: list[str], tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]):
    assert main(["files", "march", *at]) == 0
    said = capsys.readouterr().out.splitlines()
    assert sorted(said) == [f"changed  {tmp_path}/place/a.py  +1 -1", f"created  {tmp_path}/place/b.py  +1 -0"]


def test_the_differences_are_shown_and_tame(at: list[str], capsys: pytest.CaptureFixture[str]):
    assert main(["files", "march", "--diff", *at]) == 0
    said = capsys.readouterr().out
    assert "│ -two\n" in said
    assert "│ +b\n" in said
    assert "\x1b" not in said


def test_programs_get_the_digests(at: list[str], capsys: pytest.CaptureFixture[str]):
    assert main(["files", "march", "--json", *at]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [(one["changes"], bool(one["after"])) for one in found] == [(1, True)] * 2
    assert main(["files", "march", "--since", "1000", "--json", *at]) == 0
    assert json.loads(capsys.readouterr().out) == []


def test_a_rewind_takes_the_wish_for_files_along(at: list[str], capsys: pytest.CaptureFixture[str]):
    assert main(["rewind", "march", "--to", "1", "--files", *at]) == 0
    assert "kept in the inbox" in " ".join(capsys.readouterr().out.split())
