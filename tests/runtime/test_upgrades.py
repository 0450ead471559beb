"""What becomes of a call whose code, rules, mode or agent are replaced while it waits: the table of `docs/upgrades.md`.

One process brings a session into every place and is killed there with SIGKILL; each cell opens a copy of its store
with one thing changed.
"""

from __future__ import annotations

import pathlib
import re
import shutil
import subprocess
import sys

import pytest

import windlass
from windlass.events.base import Event
from windlass.events.commands import CommandRefused
from windlass.events.runs import RunCompleted
from windlass.events.tools.calls import (
    ToolDenied,
    ToolFinished,
    ToolOutcomeUnknown,
    ToolPrepared,
    ToolReconsidered,
    ToolStarted,
)
from windlass.events.tools.permissions import PermissionRequested, PermissionWithdrawn
from windlass.runtime.streams.record import Record

from .support import events_of, only, sound, started
from .upgrade_target import AFTERWARDS, PLACES, TOOL, Change, Place, agent, hang, ran

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "upgrades.md"
ROW = re.compile(r"^\| ([\w' ]+) \|(.+)\|$", re.MULTILINE)
CHANGES: dict[str, Change] = {
    "nothing": "none",
    "contract": "contract",
    "code": "code",
    "docstring": "docstring",
    "schema": "schema",
    "rules that judge it": "policy",
    "other rules": "unrelated_rule",
    "mode": "mode",
    "agent's name": "name",
}


def table() -> dict[tuple[Change, Place], str]:
    """The table as the page has it."""
    rows = {name.strip(): cells.split("|") for name, cells in ROW.findall(PAGE.read_text(encoding="utf-8"))}
    return {
        (change, place): rows[name][column].strip()
        for name, change in CHANGES.items()
        for column, place in enumerate(PLACES)
    }


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The store of a process that was killed with a session in every place."""
    folder = tmp_path_factory.mktemp("killed")
    command = [sys.executable, "-m", "tests.runtime.upgrade_target", str(folder)]
    with subprocess.Popen(command, cwd=PAGE.parents[1], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.kill()
    return folder


async def opened(folder: pathlib.Path, place: Place, change: Change) -> list[Event]:
    """What is in the log after the store was opened with one thing changed, and nobody answers anything."""
    ran.clear()
    hang.clear()
    changed = agent(place, change, AFTERWARDS.get(place, ["done"]))
    async with windlass.open(str(folder / "work.db"), agents=[changed], poll_ms=5) as rt:
        session = await rt.get(place)
        await session.wake()
        if change != "name":
            await session.wait_idle()
        await sound(session)
        return await events_of(session)


def outcome(events: list[Event], place: Place) -> str:
    """What became of the call, in the words of the table."""
    tool, starts = TOOL.get(place, "pay"), len(only(events, ToolStarted))
    if denied := only(events, ToolDenied):
        return f"denied ({denied[-1].reason})"
    if only(events, ToolOutcomeUnknown):
        return "outcome unknown"
    asked = only(events, PermissionRequested)
    if asked and asked[-1].changed:
        return "asked again"
    if tool in ran:
        again = place == "running"
        assert again == (starts > 1 and place == "running")
        return "runs again" if again else "runs"
    if only(events, PermissionWithdrawn) or only(events, ToolReconsidered):
        return "lost"
    return "waits on"


CELLS = [(change, place) for change in CHANGES.values() for place in PLACES]


@pytest.mark.parametrize(("change", "place"), CELLS, ids=lambda value: str(value))
async def test_what_a_call_comes_to_is_what_the_table_says(killed, tmp_path, change, place):
    copy = tmp_path / "store"
    shutil.copytree(killed, copy)
    events = await opened(copy, place, change)
    assert outcome(events, place) == table()[change, place]
    ends = [e for e in only(events, ToolFinished) if e.ok]
    assert len(ran) == len(set(ran)), "nothing runs twice in one life"
    if place == "running_once":
        assert "pay" not in ran, "at most once"
    assert len(ends) == len(ran)


@pytest.mark.guard(60)
async def test_what_people_were_asked_about_under_other_code_is_asked_again_without_anybody_saying_anything(
    killed, tmp_path
):
    copy = tmp_path / "store"
    shutil.copytree(killed, copy)
    async with windlass.open(str(copy / "work.db")) as rt:
        (before,) = await (await rt.get("asked")).requests()
    async with windlass.open(str(copy / "work.db"), agents=[agent("asked", "code")], poll_ms=5) as rt:
        session = await rt.get("asked")
        async for record in session.tail():
            if isinstance(record, Record) and isinstance(record.event, PermissionRequested) and record.event.changed:
                break
        (now,) = await session.requests()
    assert (now.changed, now.replaces) == (("code",), before.request_id)


async def test_an_approval_that_waits_in_the_inbox_over_a_deploy_of_other_code_runs_nothing(killed, tmp_path):
    copy = tmp_path / "store"
    shutil.copytree(killed, copy)
    async with windlass.open(str(copy / "work.db")) as rt:
        session = await rt.get("asked")
        approval = await session.approve((await session.requests())[0], actor="boss")
    ran.clear()
    async with windlass.open(str(copy / "work.db"), agents=[agent("asked", "code", ["done"])], poll_ms=5) as rt:
        session = await rt.get("asked")
        await started(session, CommandRefused)
        await started(session, ToolPrepared)
        events = await events_of(session)
    (refused,) = only(events, CommandRefused)
    assert (refused.command_id, refused.code) == (approval, "not_open")
    assert outcome(events, "asked") == "asked again"
    assert ran == []


async def test_an_approval_that_waits_in_the_inbox_over_a_deploy_of_other_words_is_taken(killed, tmp_path):
    copy = tmp_path / "store"
    shutil.copytree(killed, copy)
    async with windlass.open(str(copy / "work.db")) as rt:
        session = await rt.get("asked")
        await session.approve((await session.requests())[0], actor="boss")
    ran.clear()
    hang.clear()
    async with windlass.open(str(copy / "work.db"), agents=[agent("asked", "docstring", ["done"])], poll_ms=5) as rt:
        await started(await rt.get("asked"), RunCompleted)
    assert ran == ["pay"]
