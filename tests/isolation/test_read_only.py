"""Children that work read-only: nothing of the workspace is written, whichever tool they have."""

from __future__ import annotations

import os
import pathlib
from typing import Any

import pytest

import windlass
from tests.runtime.support import events_of, only
from windlass.events.errors import UsageError
from windlass.events.sessions import SessionStarted
from windlass.events.tools.calls import ToolDenied, ToolFinished
from windlass.testing import ScriptedModel, by_history, call

from .support import ALLOWED, lead


@windlass.tool
def undeclared(path: str) -> str:
    """Says nothing of what it does."""
    pathlib.Path(path).write_text("written")
    return "written"


@windlass.tool(contract="pure", traits=("read",))
async def liar(ctx: windlass.ToolContext) -> str:
    """Says that it reads, and writes through its sandbox."""
    await ctx.sandbox.write("notes.txt", b"written")
    return "written"


@windlass.tool(contract="pure", traits=("read",))
async def runner(ctx: windlass.ToolContext) -> str:
    """Says that it reads, and runs a program."""
    await ctx.run(["sh", "-c", "echo written > notes.txt"])
    return "written"


TOOLS = ["read", "write", "edit", "remove", "shell", undeclared, liar, runner]


def calls(place: pathlib.Path) -> list[Any]:
    """A way to write for each tool."""
    note = str(place / "notes.txt")
    return [
        call("read", path="notes.txt"),
        call("write", path="notes.txt", content="written"),
        call("edit", path="notes.txt", old="one", new="written"),
        call("remove", path="notes.txt"),
        call("shell", command="echo written > notes.txt"),
        call("undeclared", path=note),
        call("liar"),
        call("runner"),
    ]


def specialist(place: pathlib.Path, **more: Any) -> windlass.Agent:
    model = ScriptedModel(by_history([calls(place), "tried"]))
    return windlass.Agent("reader", model, tools=TOOLS, policy=ALLOWED, **more)


@pytest.mark.parametrize("how", ["agent", "call", "role"])
async def test_nothing_can_be_written_whichever_tool_is_called(tmp_path: pathlib.Path, how: str):
    (tmp_path / "notes.txt").write_text("one")
    given = {"agent": {"isolation": "read_only"}, "role": {"role": "verify"}}.get(how, {})
    args = {"isolation": "read_only"} if how == "call" else {}
    async with windlass.open(agents=[agent := lead(specialist(tmp_path, **given), **args)]) as runtime:
        session = await runtime.session(agent, "s", workspace=tmp_path)
        await session.prompt("go")
        assert (await session.result()).text == "done"
        (row,) = [row for row in await runtime.sessions(root="s") if row.parent is not None]
        events = await events_of(await runtime.get(row.session))
        (began,) = only(events, SessionStarted)
        assert began.setup.options.isolation == "read_only"
        assert [denied.reason for denied in only(events, ToolDenied)] == ["isolation"] * 5
        finished = only(events, ToolFinished)
        assert sorted(done.ok for done in finished) == [False, False, True]
        assert all("read-only" in str(done.body) for done in finished if not done.ok)
    assert (tmp_path / "notes.txt").read_text() == "one"
    assert os.listdir(tmp_path) == ["notes.txt"]


async def test_a_child_of_a_child_is_held_to_the_same(tmp_path: pathlib.Path):
    (tmp_path / "notes.txt").write_text("one")
    spawns = ScriptedModel(by_history([call("spawn", agent="reader", task="write"), "tried"]))
    between = windlass.Agent("between", spawns, agents=[specialist(tmp_path)], isolation="read_only")
    async with windlass.open(agents=[agent := lead(between)]) as runtime:
        session = await runtime.session(agent, "s", workspace=tmp_path)
        await session.prompt("go")
        assert (await session.result()).text == "done"
        deepest = max([row.session for row in await runtime.sessions(root="s")], key=len)
        denied = only(await events_of(await runtime.get(deepest)), ToolDenied)
        assert [one.reason for one in denied] == ["isolation"] * 5
    assert (tmp_path / "notes.txt").read_text() == "one"


@pytest.mark.parametrize("wrong", [{"isolation": "apart"}, {"at_end": "burn"}])
def test_an_isolation_that_there_is_not_is_named(wrong: dict[str, Any]):
    with pytest.raises(UsageError, match="none of"):
        windlass.Agent("a", **wrong)
