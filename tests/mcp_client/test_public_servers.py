"""Servers that were not written here: the official ones of the npm registry, which `./check` installs beside its
environment. Listed, called, watched, cancelled, killed in a call, started again, and replaced by another one."""

from __future__ import annotations

import asyncio
import os
import pathlib
import shutil
import signal
import sys
from typing import Any

import pytest

import windlass
from tests.mcp_client.conftest import PATIENCE_S, PATIENT_MS, gone, patient
from tests.mcp_client.test_connection import agreed, nothing, said
from tests.mcp_client.test_sessions import events, of, until
from tests.mcp_client.test_sessions import said as result_of
from windlass.events.sessions import NoticeGiven
from windlass.events.tools.calls import ToolFinished
from windlass.events.tools.mcp import McpConnected
from windlass.events.tools.toolset import ToolsetChanged
from windlass.mcp.connection import Lost
from windlass.mcp.server import McpServer
from windlass.testing.scripted import ScriptedModel, call
from windlass.tools.processes.process_tree import all_processes, is_alive

BIN = pathlib.Path(sys.prefix) / "node" / "node_modules" / ".bin"
LONG = "everything__trigger-long-running-operation"
FOR_EVER = {"duration": 36_000, "steps": 360_000}
"""Ten hours, with a report each tenth of a second."""

pytestmark = pytest.mark.skipif(
    shutil.which("node") is None or not (BIN / "mcp-server-everything").exists(),
    reason="npm is missing, or may not install the servers of locks/node",
)


def public(name: str, *args: str, **more: Any) -> McpServer:
    command = str(BIN / f"mcp-server-{name}")
    return McpServer(name=name, command=command, args=args, start_timeout_ms=PATIENT_MS, **more)


def marked(folder: pathlib.Path) -> dict[str, str]:
    """What a server is found by among all processes."""
    return {"MARK_OF_THIS_TEST": str(folder)}


def pid_of(folder: pathlib.Path) -> int:
    """The server's process, not that of its supervisor."""
    (found,) = [pid for pid in all_processes() if is_alive(pid) and _is_node(pid) and _wears(pid, folder)]
    return found


def _is_node(pid: int) -> bool:
    return b"mcp-server-" in _content(pid, "cmdline").split(b"\0")[1:2][0] if _content(pid, "cmdline") else False


def _wears(pid: int, folder: pathlib.Path) -> bool:
    return f"MARK_OF_THIS_TEST={folder}".encode() in _content(pid, "environ").split(b"\0")


def _content(pid: int, name: str) -> bytes:
    try:
        return pathlib.Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


async def test_three_public_servers_work_in_one_session(tmp_path: pathlib.Path) -> None:
    files = tmp_path / "files"
    files.mkdir()
    (files / "a.txt").write_text("what is in the file")
    model = ScriptedModel(
        [
            [
                call("everything__get-sum", a=20, b=22),
                call("filesystem__read_text_file", path=str(files / "a.txt")),
                call("memory__create_entities", entities=[{"name": "Ada", "entityType": "person", "observations": []}]),
            ],
            call("memory__read_graph"),
            "done",
        ]
    )
    servers = [
        public("everything"),
        public("filesystem", str(files)),
        public("memory", env={"MEMORY_FILE_PATH": str(tmp_path / "memory.jsonl")}),
    ]
    agent = windlass.Agent("all", model, policy=windlass.ALLOW_ALL, mcp=patient(*servers))
    async with windlass.open(str(tmp_path / "work.db"), agents=[agent]) as runtime:
        session = await runtime.session(agent, "one")
        await session.prompt("go")
        await session.wait_idle()
        found = await events(session)
    assert [(each.server, each.status) for each in of(McpConnected, found)] == [
        ("everything", "connected"),
        ("filesystem", "connected"),
        ("memory", "connected"),
    ]
    results = [str(each.body) for each in of(ToolFinished, found)]
    assert all(each.ok for each in of(ToolFinished, found)), results
    assert any("42" in text for text in results)
    assert any("what is in the file" in text for text in results)
    assert "Ada" in results[-1]


async def test_a_public_server_reports_and_is_cancelled(tmp_path: pathlib.Path) -> None:
    connection = await agreed(public("everything"))
    reported = asyncio.Event()

    async def progressed(done: float, total: float | None, message: str | None) -> None:
        reported.set()

    calling = asyncio.ensure_future(connection.call(LONG, FOR_EVER, progressed))
    async with asyncio.timeout(PATIENCE_S):
        await reported.wait()
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    assert said(await connection.call("everything__echo", {"message": "x"}, nothing)) == "Echo: x"
    assert connection.starts == 1
    await connection.close()


async def test_a_public_server_that_is_killed_in_a_call_is_started_again(tmp_path: pathlib.Path) -> None:
    connection = await agreed(public("everything", env=marked(tmp_path)))
    reported = asyncio.Event()

    async def progressed(done: float, total: float | None, message: str | None) -> None:
        reported.set()

    calling = asyncio.ensure_future(connection.call(LONG, FOR_EVER, progressed))
    async with asyncio.timeout(PATIENCE_S):
        await reported.wait()
    pid = pid_of(tmp_path)
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(Lost, match="it was ended by signal 9"):
        await calling
    assert said(await connection.call("everything__echo", {"message": "back"}, nothing)) == "Echo: back"
    again = pid_of(tmp_path)
    assert (again != pid, connection.starts) == (True, 2)
    await connection.close()
    await gone(again)


async def test_a_package_that_becomes_another_one_is_frozen(tmp_path: pathlib.Path) -> None:
    """The command stays what it was; what it starts, and what that lists, does not."""
    command = tmp_path / "server"
    command.symlink_to(BIN / "mcp-server-memory")
    server = McpServer(name="pulled", command=str(command), args=(str(tmp_path),), start_timeout_ms=PATIENT_MS)
    agent = windlass.Agent(
        "one", ScriptedModel([call("pulled__read_graph"), "one", "two"]), policy=windlass.ALLOW_ALL, mcp=patient(server)
    )
    async with windlass.open(str(tmp_path / "work.db"), agents=[agent]) as runtime:
        session = await runtime.session(agent, "one")
        await session.prompt("go")
        await session.wait_idle()
        assert "entities" in str(of(ToolFinished, await events(session))[0].body)
    command.unlink()
    command.symlink_to(BIN / "mcp-server-filesystem")
    again = windlass.Agent("one", ScriptedModel(["two"]), policy=windlass.ALLOW_ALL, mcp=patient(server))
    async with windlass.open(str(tmp_path / "work.db"), agents=[again]) as runtime:
        session = await runtime.session(again, "one")
        await session.prompt("go on")
        await session.wait_idle()
        found = await until(session, ToolsetChanged, 4)
    assert [each.status for each in of(McpConnected, found)] == ["connected", "frozen"]
    assert "its tools changed since it was trusted" in of(NoticeGiven, found)[-1].message


async def test_the_time_is_told_by_a_public_server_of_the_package_index(tmp_path: pathlib.Path) -> None:
    server = McpServer(
        name="time",
        command=sys.executable,
        args=("-m", "mcp_server_time"),
        read_only=("*",),
        start_timeout_ms=PATIENT_MS,
    )
    agent = windlass.Agent(
        "clock", ScriptedModel([call("time__get_current_time", timezone="UTC"), "late"]), mcp=patient(server)
    )
    async with windlass.open(str(tmp_path / "work.db"), agents=[agent]) as runtime:
        session = await runtime.session(agent, "one")
        await session.prompt("what time is it?")
        await session.wait_idle()
        (finished,) = of(ToolFinished, await events(session))
    assert finished.ok
    assert "day_of_week" in result_of(finished)
