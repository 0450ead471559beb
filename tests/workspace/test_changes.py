"""Files that tools change: reported, recorded, summed when a session is closed."""

from __future__ import annotations

import pathlib

import pytest

import windlass
from tests.runtime.support import agent_of, events_of, names_of, only, sound
from windlass.events.sessions import CodeTotals, SessionTotalled
from windlass.events.workspace import FileChange, FilesChanged
from windlass.testing.scripted import call
from windlass.tools.context import CHANGED_PATH_CHARS_MAX, CHANGES_MAX
from windlass.tools.planes.results import ToolResult


@windlass.tool
def write(ctx: windlass.ToolContext, path: str) -> str:
    "Write a file."
    ctx.changed(path, "create", lines_added=3)
    ctx.changed(pathlib.Path("b.py"), lines_added=2, lines_removed=1)
    return "written"


@windlass.tool
async def drop(ctx: windlass.ToolContext) -> str:
    "Delete a file, then fail."
    ctx.changed("old.py", "delete", lines_removed=10)
    raise windlass.ToolError("too late")


@windlass.tool
def edit(ctx: windlass.ToolContext) -> ToolResult:
    "Edit a file, and say so twice."
    ctx.changed("c.py")
    return ToolResult(value="edited", changes=(FileChange(path="d.py", operation="update", lines_added=1),))


async def test_changes_are_recorded_with_their_call_and_summed_at_the_end():
    agent = agent_of([call("write", path="a.py"), call("drop")], call("edit"), "done", tools=[write, drop, edit])
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go")
        await session.result()
        found = {event.changes for event in only(await events_of(session), FilesChanged)}
        assert found == {
            (
                FileChange(path="a.py", operation="create", lines_added=3),
                FileChange(path="b.py", operation="update", lines_added=2, lines_removed=1),
            ),
            (FileChange(path="old.py", operation="delete", lines_removed=10),),
            (
                FileChange(path="d.py", operation="update", lines_added=1),
                FileChange(path="c.py", operation="update"),
            ),
        }
        await session.close()
        (totals,) = only(await events_of(session), SessionTotalled)
        assert (totals.code.lines_added, totals.code.lines_removed) == (6, 11)
        assert set(totals.code.files) == {"a.py", "b.py", "old.py", "c.py", "d.py"}
        await sound(session)


async def test_a_session_is_closed_twice_and_summed_once():
    agent = agent_of("one", "two")
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go")
        await session.close("over")
        await session.close()
        await rt.shut_down("s")
        assert (await names_of(session)).count("session.totalled") == 1
        assert (await names_of(session))[-2:] == ["session.shut_down", "session.totalled"]
        await session.prompt("after all")
        assert (await session.result()).text == "two"
        await session.close()
        assert (await names_of(session)).count("session.totalled") == 2
        await sound(session)


async def test_a_closed_session_can_be_taken_by_another_process_at_once(tmp_path):
    store = str(tmp_path / "work.db")
    agent, other = agent_of("one"), agent_of("two")
    async with windlass.open(store, agents=[agent]) as first, windlass.open(store, agents=[other]) as second:
        session = await first.session(agent, "s")
        await session.prompt("go")
        await session.close()
        again = await second.session(other, "s")
        await again.prompt("go")
        assert (await again.result()).text == "two"


async def test_closing_waits_for_the_run():
    @windlass.tool
    def slow(ctx: windlass.ToolContext) -> str:
        ctx.changed("x")
        return "done"

    agent = agent_of(call("slow"), "done", tools=[slow])
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go")
        await session.close()
        assert (await names_of(session))[-3:] == ["run.completed", "session.shut_down", "session.totalled"]
        (totals,) = only(await events_of(session), SessionTotalled)
        assert totals.code == CodeTotals(files=("x",))


def context() -> windlass.ToolContext:
    return windlass.ToolContext(session="s", call_id="c", tool="t")


@pytest.mark.parametrize(
    "given",
    [("a", "rename", 0, 0), ("a", "update", -1, 0), ("a", "update", 0, -1)],
    ids=["operation", "added", "removed"],
)
def test_what_is_no_change_is_refused(given):
    path, operation, added, removed = given
    with pytest.raises(windlass.UsageError):
        context().changed(path, operation, lines_added=added, lines_removed=removed)


def test_changes_are_bounded():
    ctx = context()
    for _ in range(CHANGES_MAX):
        ctx.changed("x" * 5_000)
    with pytest.raises(windlass.UsageError):
        ctx.changed("one more")
    assert ctx.changes == (FileChange(path="x" * CHANGED_PATH_CHARS_MAX, operation="update"),) * CHANGES_MAX


def test_a_path_of_any_bytes_can_be_recorded():
    ctx = context()
    ctx.changed(b"a\xff".decode("utf-8", "surrogateescape"))
    assert ctx.changes == (FileChange(path="a\ufffd", operation="update"),)
