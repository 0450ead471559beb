"""Servers inside of the session's sandbox, if their configuration says so: they write where the session may, and nowhere
else."""

from __future__ import annotations

import pathlib

import pytest

import windlass
from tests.mcp_client.conftest import STRANGE, Strange, gone, patient
from tests.mcp_client.test_sessions import ALLOW, events, of, said
from windlass.events.errors import UsageError
from windlass.events.tools.calls import ToolFinished
from windlass.events.tools.mcp import McpConnected
from windlass.mcp.connection import Connection, NotConnected
from windlass.mcp.server import McpServer
from windlass.mcp.server import checked as checked_server
from windlass.mcp_servers import ready
from windlass.testing.scripted import ScriptedModel, call
from windlass.tools.sandboxes.choice import candidates

CONFINING = [each.name for each in candidates() if each.problem is None and each.name != "container"]


def helper(strange: Strange, work: pathlib.Path, *, sandbox: bool) -> windlass.Agent:
    """An agent whose server's program is in the folder that the session works in; a sandbox shows no other."""
    program = work / "program.py"
    program.write_bytes(pathlib.Path(STRANGE).read_bytes())
    server = strange.server(sandbox=sandbox, args=("-S", str(program), str(strange.folder)))
    model = ScriptedModel([call("strange__echo", text="x"), "done"])
    return windlass.Agent("helper", model, policy=ALLOW, mcp=patient(server))


@pytest.mark.parametrize("name", ["local", *CONFINING])
async def test_a_server_in_the_sandbox_works_in_the_sessions_folder(tmp_path: pathlib.Path, name: str) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    strange = Strange(folder)
    agent = helper(strange, folder, sandbox=True)
    async with windlass.open(str(tmp_path / "work.db"), agents=[agent], sandbox=name) as runtime:
        session = await runtime.session(agent, "one", workspace=str(folder))
        await session.prompt("go")
        await session.wait_idle()
        found = await events(session)
    assert [said(each) for each in of(ToolFinished, found)] == ["x"]
    assert len(strange.notes("begins")) == 1


@pytest.mark.parametrize("name", CONFINING)
async def test_a_server_in_the_sandbox_writes_nowhere_else(strange: Strange, tmp_path: pathlib.Path, name: str) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    agent = helper(strange, folder, sandbox=True)
    async with windlass.open(str(tmp_path / "work.db"), agents=[agent], sandbox=name) as runtime:
        session = await runtime.session(agent, "one", workspace=str(folder))
        await ready(session)
        (connected,) = of(McpConnected, await events(session))
    assert connected.status == "failed"
    assert strange.notes("begins") == []


@pytest.mark.parametrize("name", CONFINING[:1])
async def test_a_server_is_outside_of_the_sandbox_unless_it_is_told(
    strange: Strange, tmp_path: pathlib.Path, name: str
) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    agent = helper(strange, folder, sandbox=False)
    async with windlass.open(str(tmp_path / "work.db"), agents=[agent], sandbox=name) as runtime:
        session = await runtime.session(agent, "one", workspace=str(folder))
        await ready(session)
        assert [each.status for each in of(McpConnected, await events(session))] == ["connected"]
    await gone(int(strange.notes("begins")[0].split()[1]))


async def test_a_sandbox_is_a_sessions(strange: Strange) -> None:
    connection = Connection(strange.server(sandbox=True))
    with pytest.raises(NotConnected, match="there is no session here"):
        await connection.connect()
    await connection.close()


def test_how_a_server_is_confined_is_part_of_how_it_is_reached(strange: Strange) -> None:
    assert strange.server(sandbox=True).launch_digest != strange.server().launch_digest
    assert "sandbox" not in strange.server().launch


def test_what_has_no_process_has_no_sandbox() -> None:
    with pytest.raises(UsageError, match="leave out 'sandbox'"):
        checked_server(McpServer(name="a", transport="http", url="https://example.invalid/mcp", sandbox=True), "mcp")
