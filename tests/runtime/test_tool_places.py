"""Where the tools of a session run: its own planes and its own sandbox, opened when needed, closed when it is let go."""

from __future__ import annotations

import asyncio
import functools
import os
import pathlib
from typing import Any

import pytest

import windlass
from windlass.events.tools.calls import ToolFinished
from windlass.runtime.host import drive_tasks
from windlass.testing.scripted import call
from windlass.tools.planes.local import LocalPlane, LocalPlanes
from windlass.tools.sandboxes.local import LocalSandbox, LocalSandboxes

from .support import agent_of, events_of, only, sound, started, until


@windlass.tool(contract="pure")
async def shell(ctx: windlass.ToolContext, text: str) -> str:
    "Run a line of shell."
    done = await ctx.run(["/bin/sh", "-c", text])
    return done.stdout.text + done.stderr.text


@windlass.tool(plane="far", contract="pure")
async def far() -> str:
    "Runs far away."
    return "far"


class Watched(LocalPlanes):
    """A kind of plane that writes down what becomes of it."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[str] = []

    async def open(self, session: str) -> LocalPlane:
        self.told.append(f"open {session}")
        told = self.told

        class Plane(LocalPlane):
            async def close(self) -> None:
                told.append(f"close {session}")
                await super().close()

        return Plane()

    async def close(self) -> None:
        self.told.append("close")
        await super().close()


class WatchedBoxes(LocalSandboxes):
    def __init__(self) -> None:
        super().__init__()
        self.open_now: list[LocalSandbox] = []
        self.opened = 0

    async def open(self, session: str, folder: str | None) -> LocalSandbox:
        boxes = self.open_now

        class Box(LocalSandbox):
            async def close(self) -> None:
                await super().close()
                if self in boxes:
                    boxes.remove(self)

        box = Box(folder or os.getcwd())
        boxes.append(box)
        self.opened += 1
        return box


async def results(session: windlass.Session) -> list[Any]:
    return [event.body.content[0].text for event in only(await events_of(session), ToolFinished)]


async def test_a_tool_runs_programs_in_the_folder_of_its_session(tmp_path):
    agent = agent_of(call("shell", text="pwd; echo hi > made"), "done", tools=[shell])
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s", workspace=tmp_path)
        await session.prompt("go")
        assert (await session.result()).text == "done"
        assert await results(session) == [f"{tmp_path.resolve()}\n"]
        await sound(session)
    assert (tmp_path / "made").read_text() == "hi\n"


async def test_each_session_has_its_own_plane_and_sandbox_until_the_runtime_is_closed():
    kind, boxes = Watched(), WatchedBoxes()
    agent = agent_of(*[call("far"), call("shell", text="echo hi"), "done"] * 2, tools=[shell, far])
    async with windlass.open(agents=[agent], planes={"far": kind}, sandbox=boxes) as rt:
        assert (kind.told, boxes.opened) == ([], 0)
        for name in ("one", "two"):
            session = await rt.session(agent, name)
            await session.prompt("go")
            assert (await session.result()).text == "done"
            assert await results(session) == ["far", "hi\n"]
        assert kind.told == ["open one", "open two"]
        assert (boxes.opened, len(boxes.open_now)) == (2, 2)
    assert sorted(kind.told) == ["close", "close one", "close two", "open one", "open two"]
    assert kind.told[-1] == "close"
    assert boxes.open_now == []


def _told_last(kind: Watched, what: str) -> bool:
    return kind.told[-1] == what


async def test_a_session_that_is_let_go_closes_its_own_and_opens_them_anew(monkeypatch):
    monkeypatch.setattr(drive_tasks, "RESTING_MAX", 1)
    kind, boxes = Watched(), WatchedBoxes()
    agent = agent_of(*[call("far"), call("shell", text="echo hi"), "done"] * 3, tools=[shell, far])
    async with windlass.open(agents=[agent], planes={"far": kind}, sandbox=boxes) as rt:
        for name, let_go in (("one", None), ("two", "close one"), ("one", "close two")):
            session = await rt.session(agent, name)
            await session.prompt("go")
            assert (await session.result()).text == "done"
            if let_go is not None:
                await until(functools.partial(_told_last, kind, let_go))
        assert kind.told == ["open one", "open two", "close one", "open one", "close two"]
    assert boxes.open_now == []


async def test_a_session_that_is_lost_closes_what_its_tools_had_open(tmp_path):
    boxes = WatchedBoxes()
    agent = agent_of(call("shell", text="echo $$ > pid; sleep 600"), tools=[shell])
    async with windlass.open(agents=[agent], sandbox=boxes) as rt:
        session = await rt.session(agent, "s", workspace=tmp_path)
        await session.prompt("go")
        await until(lambda: _pid(tmp_path) is not None)
        pid = _pid(tmp_path)
        (box,) = boxes.open_now  # the session is taken up again, and soon has another one
        slot = rt.slots.at(session.key)
        assert slot.driven is not None
        rt.host.tasks.drop(slot, slot.driven)
        await until(lambda: box not in boxes.open_now)
        await until(lambda: not _alive(pid))


async def test_an_interrupted_run_and_a_closed_runtime_leave_no_process(tmp_path):
    boxes = WatchedBoxes()
    agent = agent_of(*[call("shell", text="sleep 600 & echo $! > pid; wait")] * 2, "done", tools=[shell])
    async with windlass.open(agents=[agent], sandbox=boxes) as rt:
        session = await rt.session(agent, "s", workspace=tmp_path)
        await session.prompt("go")
        await until(lambda: _pid(tmp_path) is not None)
        first = _pid(tmp_path)
        await session.interrupt()
        await session.result()
        await until(lambda: not _alive(first))
        (tmp_path / "pid").unlink()
        await session.prompt("again")
        await until(lambda: _pid(tmp_path) is not None)
        second = _pid(tmp_path)
    assert boxes.open_now == []
    await until(lambda: not _alive(second))  # it was told so already; the system lets it die in its own time


def _pid(folder: pathlib.Path) -> int | None:
    path = folder / "pid"
    text = path.read_text() if path.exists() else ""
    return int(text) if text.endswith("\n") else None


def _alive(pid: int | None) -> bool:
    assert pid is not None
    try:
        os.kill(pid, 0)
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False


def idle() -> str:
    """Does nothing."""
    return ""


async def test_a_tool_whose_plane_is_not_there_is_refused_before_anything_begins():
    agent = agent_of("done", tools=[far])
    told = "tool 'far' runs on plane 'far': there are local, process; name others in windlass.open"
    with pytest.raises(windlass.UsageError, match=told.replace(".", r"\.")):
        await agent.run("go")
    with pytest.raises(windlass.UsageError, match="runs on plane 'far'"):
        async with windlass.open(tools=[far]):
            pass
    with pytest.raises(windlass.UsageError, match="runs on plane 'mcp', which is for tools of MCP servers"):
        await agent_of("done", tools=[windlass.tool(plane="mcp")(idle)]).run("go")
    async with windlass.open() as rt:
        with pytest.raises(windlass.UsageError, match="runs on plane 'far'"):
            await rt.session(agent, "s")
        plain = agent_of("hello", name="plain")
        session = await rt.session(plain, "p")
        with pytest.raises(windlass.UsageError, match="runs on plane 'far'"):
            await session.mount(far)


async def test_a_plane_that_cannot_be_opened_is_a_failed_call_and_no_end_of_the_session():
    class Broken(LocalPlanes):
        async def open(self, session: str) -> LocalPlane:
            raise OSError("no such machine")

    agent = agent_of(call("far"), "too bad", tools=[far])
    async with windlass.open(agents=[agent], planes={"far": Broken()}) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go")
        assert (await session.result()).text == "too bad"
        (finished,) = only(await events_of(session), ToolFinished)
        assert (finished.ok, finished.error_code) == (False, "tool_unavailable")
        await sound(session)


async def test_a_session_that_moves_has_its_next_process_in_the_new_folder(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    agent = agent_of(call("shell", text="pwd"), "one", call("shell", text="pwd"), "two", tools=[shell])
    async with windlass.open(agents=[agent]) as rt:
        for folder in ("a", "b"):
            session = await rt.session(agent, "s", workspace=tmp_path / folder)
            await session.prompt("go")
            await session.result()
        await started(session, ToolFinished, count=2)
        assert await results(session) == [f"{(tmp_path / name).resolve()}\n" for name in ("a", "b")]


async def test_processes_of_one_session_run_side_by_side():
    lines = [call("shell", text="sleep 0.2; echo done")] * 3
    agent = agent_of(lines, "all", tools=[shell])
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go")
        async with asyncio.timeout(20):
            assert (await session.result()).text == "all"
        assert await results(session) == ["done\n"] * 3
