"""Where the servers of an agent come from: values, files, and the file of a workspace that is trusted."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
from typing import Any

import pytest

import windlass
from windlass.events.errors import UsageError
from windlass.events.stored.known_secrets import SECRETS
from windlass.mcp.config import Mcp, mcp_of, servers_of_file, workspace_servers
from windlass.mcp.server import McpServer, filled
from windlass.testing.scripted import ScriptedModel
from windlass.tools.context import ToolError
from windlass.tools.named_secrets import NamedSecrets

JSON = '{"mcpServers": {"time": {"command": "mcp-server-time"}}}'
TOML = '[mcp_servers.time]\ncommand = "mcp-server-time"\n'


def test_an_agent_is_given_servers_in_many_ways(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "servers.json"
    file.write_text(JSON)
    own, filed = McpServer(name="own", command="x"), McpServer(name="time", command="mcp-server-time", origin=str(file))
    assert mcp_of(None) is None
    assert mcp_of(False) is None
    assert mcp_of(True) == Mcp(workspace=True)
    assert mcp_of([own]) == Mcp(servers=(own,))
    assert mcp_of({"own": {"command": "x"}}) == Mcp(servers=(own,))
    assert mcp_of(file) == mcp_of(str(file)) == mcp_of([file]) == Mcp(servers=(filed,))
    assert mcp_of([own, file]) == Mcp(servers=(own, filed))
    assert mcp_of(Mcp(servers=(own,), workspace=True)) == Mcp(servers=(own,), workspace=True)
    with pytest.raises(UsageError, match="two servers 'time'"):
        mcp_of([file, McpServer(name="time", command="x")])


@pytest.mark.parametrize(("name", "text"), [("a.json", JSON), ("a.toml", TOML), (".mcp.json", JSON)])
def test_files_of_json_and_toml_say_the_same(tmp_path: pathlib.Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    assert servers_of_file(tmp_path / name) == (
        McpServer(name="time", command="mcp-server-time", origin=str(tmp_path / name)),
    )


def test_a_file_that_cannot_be_read_is_refused_with_its_name(tmp_path: pathlib.Path) -> None:
    (tmp_path / "a.json").write_text("{")
    (tmp_path / "a.toml").write_text("=")
    (tmp_path / "large.json").write_text(" " * (1024 * 1024 + 1))
    os.mkfifo(tmp_path / "pipe.json")
    for name, told in (
        ("a.json", "is no JSON"),
        ("a.toml", "is no TOML"),
        ("large.json", "more than 1048576 bytes"),
        ("pipe.json", "this is no file"),
        ("none.json", "cannot be read: No such file"),
        (".", "cannot be read|this is no file"),
    ):
        with pytest.raises(UsageError, match=told) as refused:
            servers_of_file(tmp_path / name)
        assert str(tmp_path) in str(refused.value)


def test_the_file_of_a_workspace_is_read_only_if_the_workspace_is_trusted(tmp_path: pathlib.Path) -> None:
    assert workspace_servers(str(tmp_path), trusted=True) == ()
    os.mkfifo(tmp_path / ".mcp.json")
    assert workspace_servers(str(tmp_path), trusted=False) == ()
    assert workspace_servers(None, trusted=True) == ()
    with pytest.raises(UsageError, match="this is no file"):
        workspace_servers(str(tmp_path), trusted=True)
    (tmp_path / ".mcp.json").unlink()
    (tmp_path / ".mcp.json").write_text(JSON)
    assert [server.name for server in workspace_servers(str(tmp_path), trusted=True)] == ["time"]


def test_a_runtime_whose_servers_nobody_uses_loads_nothing_of_the_package(tmp_path: pathlib.Path) -> None:
    code = """
import asyncio, sys, windlass

async def main():
    agent = windlass.Agent("a", "sim", mcp={"time": {"command": "mcp-server-time"}})
    async with windlass.open(":memory:", agents=[]):
        agent.mcp_config

asyncio.run(main())
print([name for name in ("mcp", "mcp_types", "anyio", "httpx2", "pydantic") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout == "[]\n"


def test_secrets_are_looked_up_by_name_and_never_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("docs_token", "of the environment")
    secrets = NamedSecrets({"docs_token": "of-the-runtime-4711"})
    values = {"Authorization": "Bearer ${docs_token}", "X-Zone": "${zone:-UTC}"}
    assert filled(values, secrets) == {"Authorization": "Bearer of-the-runtime-4711", "X-Zone": "UTC"}
    with pytest.raises(ToolError, match="no secret 'other'"):
        filled({"A": "${other}"}, secrets)
    with pytest.raises(ToolError, match="no secret 'docs_token' here"):
        filled(values, None)


def test_a_key_that_is_written_out_is_left_out_of_all_that_is_written() -> None:
    filled({"X-Api-Key": "written-out-5eb63bbbe01e"}, None)
    assert "written-out-5eb63bbbe01e" not in SECRETS.hidden_text("it is written-out-5eb63bbbe01e")


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"command": 3}, "command: Expected `str`, got `int`"),
        ({"start_timeout_ms": "5"}, "start_timeout_ms: Expected `int`, got `str`"),
        ({"transport": "htttp"}, "transport: Invalid enum value 'htttp'"),
        ({"sampling": "yes"}, "sampling: Invalid enum value 'yes'"),
        ({"contracts": {"*": "once"}}, "contracts[...]: Invalid enum value 'once'"),
        ({"env": {"A": 1}}, "env[...]: Expected `str`, got `int`"),
        ({"args": "--all"}, "args: Expected `array`, got `str`"),
        ({"enabled": "no"}, "enabled: Expected `bool`, got `str`"),
    ],
)
def test_a_server_made_in_python_is_checked_as_one_of_a_file_is(wrong: Any, why: str) -> None:
    """When the agent is made, with the words that a file's would be refused with."""
    given: Any = {"name": "time", "command": "x", **wrong}
    for mcp in ([McpServer(**given)], McpServer(**given), Mcp(servers=(McpServer(**given),))):
        with pytest.raises(UsageError) as raised:
            windlass.Agent("clerk", ScriptedModel([]), mcp=mcp)
        assert why in str(raised.value)
        assert "'time'" in str(raised.value)


def test_a_server_that_is_named_by_its_url_is_reached_by_http() -> None:
    shop = McpServer(name="shop", url="http://127.0.0.1:1/mcp")
    assert shop.transport == "http"
    assert windlass.Agent("clerk", ScriptedModel([]), mcp=[shop]).mcp_config is not None
    assert McpServer(name="shop", url="http://127.0.0.1:1/sse", transport="sse").transport == "sse"
