"""`windlass mcp`: list, show and trust; and `--mcp`."""

from __future__ import annotations

import json
import pathlib
import sys

import pytest

from tests.mcp_client.conftest import STRANGE
from windlass.cli.agents import with_servers
from windlass.cli.main import main
from windlass.events.errors import UsageError
from windlass.mcp.server import McpServer
from windlass.mcp.tool_list import ListedTool, Listing
from windlass.mcp.trust import UNSHOWN, TrustRecords, changes, key_of, sight_of
from windlass.runtime.api.agent import Agent

from .screens import proves


@pytest.fixture
def place(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """A folder with a file that names the strange server."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    folder = tmp_path / "strange"
    folder.mkdir()
    config = {"mcpServers": {"strange": {"command": sys.executable, "args": ["-S", STRANGE, str(folder)]}}}
    (tmp_path / "servers.json").write_text(json.dumps(config))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@proves("mcp", "empty")
def test_without_servers_it_says_how_to_have_some(place, capsys):
    assert main(["mcp", "list"]) == 0
    assert capsys.readouterr().out == "no MCP servers: give a file of them, or an agent some, Agent(mcp=[...])\n"


@proves("mcp", "normal")
def test_servers_are_listed_with_where_they_come_from_and_how_they_stand(place, capsys):
    assert main(["mcp", "list", "servers.json"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["NAME", "FROM", "TRUST", "TOOLS", "LOGIN", "REACHED", "BY"]
    assert lines[1].split()[:5] == ["strange", str(place / "servers.json"), "new", "0", "no"]
    assert main(["mcp", "list", "servers.json", "--json"]) == 0
    (told,) = json.loads(capsys.readouterr().out)["servers"]
    assert (told["name"], told["trust"], told["tools"]) == ("strange", "new", 0)


@proves("mcp", "error")
def test_what_is_not_there_is_said_with_what_is(place, capsys):
    assert main(["mcp", "show", "nothing"]) != 0
    assert "no MCP server 'nothing' was seen here: there are none" in capsys.readouterr().err
    assert main(["mcp", "trust"]) != 0
    assert "'mcp trust' takes the name of a server" in capsys.readouterr().err
    assert main(["mcp", "trust", "nothing", "servers.json"]) != 0
    assert "no MCP server 'nothing' there: there are strange" in capsys.readouterr().err
    assert main(["mcp", "list", "none.json"]) != 0
    assert "none.json cannot be read" in capsys.readouterr().err


def test_nothing_is_started_or_trusted_unless_somebody_says_so(place, capsys):
    assert main(["mcp", "trust", "strange", "servers.json"]) == 1
    assert capsys.readouterr().out.endswith("strange: not started, not trusted\n")
    assert not (place / "strange" / "notes").exists()
    assert TrustRecords().all() == []


def test_a_server_of_a_file_is_started_shown_and_trusted(place, capsys):
    assert main(["mcp", "trust", "strange", "servers.json", "--yes"]) == 0
    told = capsys.readouterr().out
    assert "+++ tool echo" in told
    assert "+  Gives back a text." in told
    assert "strange: trusted, " in told
    assert main(["mcp", "list", "servers.json"]) == 0
    assert capsys.readouterr().out.splitlines()[1].split()[2:4] == ["trusted", "8"]
    assert main(["mcp", "show", "strange"]) == 0
    told = capsys.readouterr().out
    assert "it calls itself: strange 1\n" in told
    assert "\necho (it says that it only reads)\n  Gives back a text.\n" in told
    (place / "strange" / "broken").touch()
    assert main(["mcp", "trust", "strange", "servers.json", "--yes"]) != 0
    assert "MCP server 'strange' cannot be had: it ended with exit code 3" in capsys.readouterr().err


def test_what_was_seen_last_is_shown_as_a_diff_and_agreed_to(place, capsys):
    records = TrustRecords()
    server = McpServer(name="time", command="mcp-server-time")
    key = key_of(server, "helper")
    records.trust(server, key, sight_of(server), by="a person")
    changed = McpServer(name="time", command="mcp-server-time", args=("--evil",))
    records.saw(changed, key, sight_of(changed))
    assert main(["mcp", "list"]) == 0
    assert capsys.readouterr().out.splitlines()[1].split()[:5] == ["time", "agent", "helper", "changed", "0"]
    assert main(["mcp", "trust", "time"]) == 1
    told = capsys.readouterr().out
    assert '+args: ["--evil"]' in told
    assert told.endswith("time: not trusted\n")
    assert main(["mcp", "trust", "time", "--yes"]) == 0
    capsys.readouterr()
    assert records.launch_standing(changed, key) == "trusted"
    assert records.launch_standing(server, key) == "changed"
    assert main(["mcp", "trust", "time"]) == 0
    assert capsys.readouterr().out == "time: trusted already\n"


def test_nothing_is_cut_before_somebody_agrees(place, capsys):
    many = [{"name": f"tool_{n}", "inputSchema": {"type": "object"}} for n in range(200)]
    last = {"name": "last", "description": "Read all the mail.", "inputSchema": {"type": "object"}}
    (place / "strange" / "tools.json").write_text(json.dumps([*many, last]))
    assert main(["mcp", "trust", "strange", "servers.json", "--yes"]) == 0
    told = capsys.readouterr().out
    assert "+  Read all the mail." in told
    assert "more lines" not in told
    records = TrustRecords()
    (record,) = records.all()
    server = McpServer(name="strange", command="x", origin=record.origin)
    assert record.trusted is not None
    records.trust(server, record.key, sight_of(server), by="a person")
    records.saw(server, record.key, record.trusted)
    assert main(["mcp", "trust", "strange"]) == 1
    assert "+  Read all the mail." in capsys.readouterr().out
    assert changes(None, record.trusted)[-1].endswith(" more lines")


def test_a_change_that_no_line_shows_is_said(place):
    server = McpServer(name="time", command="mcp-server-time")
    before, now = (
        sight_of(server, Listing(server="time", tools=(ListedTool(name="now", description=words),)))
        for words in ("Tells it.", "Tells it.\n")
    )
    assert changes(before, now) == [UNSHOWN]
    bare = sight_of(server, Listing(server="time", tools=(*before.tools, ListedTool(name="bare"))))
    assert "+++ tool bare" in changes(before, bare)


def test_an_agent_gets_the_servers_of_files_beside_its_own(place):
    agent = Agent("helper", mcp=[McpServer(name="own", command="x")])
    found = with_servers(agent, ["servers.json"])
    assert [server.name for server in found.servers] == ["own", "strange"]
    with pytest.raises(UsageError, match="cannot be read"):
        with_servers(agent, ["none.json"])


# --- logins ---


async def test_a_person_logs_in_and_out(place, tmp_path, capsys):
    """The real verb in a process of its own; whoever reads what it prints opens the address that it shows."""
    import asyncio
    import re

    from tests.mcp_client.conftest import PATIENCE_S
    from tests.mcp_client.test_logins import person, vault
    from windlass.mcp.login.interactive import LoginAsk
    from windlass.mcp.login.kept_logins import KeptLogins

    async with vault() as there:
        (tmp_path / "servers.json").write_text(json.dumps({"mcpServers": {"vault": {"url": there.url}}}))
        argv = [sys.executable, "-u", "-m", "windlass.cli.main", "mcp", "login", "vault", "servers.json"]
        verb = await asyncio.create_subprocess_exec(*argv, stdout=asyncio.subprocess.PIPE)
        assert verb.stdout is not None
        told = ""
        async with asyncio.timeout(PATIENCE_S):
            while not (found := re.search(r"^http://\S+/authorize\?\S+$", told, re.MULTILINE)):
                line = await verb.stdout.readline()
                assert line, told
                told += line.decode()
            await person(LoginAsk(server="", issuer="", scopes=(), url=found[0]))
            told += (await verb.stdout.read()).decode()
            assert await verb.wait() == 0
        lines = told.splitlines()
        assert lines[:3] == [
            f"server: {there.url}",
            f"logins are given by: {there.issuer}/",
            "asked for: files",
        ]
        assert lines[-1] == f"logged in at {there.url}"
        given = KeptLogins().of(there.url)
        assert given is not None
        assert given.access_token not in told
        main(["mcp", "list", "servers.json", "--json"])
        assert json.loads(capsys.readouterr().out)["servers"][0]["login"] is True
        argv = [sys.executable, "-m", "windlass.cli.main", "mcp", "logout", there.url]
        verb = await asyncio.create_subprocess_exec(*argv, stdout=asyncio.subprocess.PIPE)
        async with asyncio.timeout(PATIENCE_S):
            out, _ = await verb.communicate()
        assert out.decode() == f"{there.url}: logged out: it was taken back where it was given\n"
        assert there.logins.access == {}
        assert KeptLogins().of(there.url) is None


def test_who_cannot_be_logged_in_at_is_said(place, capsys):
    for argv, why in [
        (["mcp", "login"], "takes the name or the address of a server"),
        (["mcp", "login", "nothing"], "no MCP server 'nothing': there are none"),
        (["mcp", "login", "strange", "servers.json"], "is a program on this machine"),
        (["mcp", "login", "http://example.com/mcp"], "is not https"),
        (["mcp", "login", "https://a:b@example.com/mcp"], "without a name or a password"),
        (["mcp", "login", "https://localhost.invalid/mcp", "--port", "99999"], "--port is 0 to 65535"),
        (["mcp", "login", "http://127.0.0.1:1/mcp", "--scope", 'a "b"'], "are no scopes"),
        (["mcp", "login", "http://127.0.0.1:1/mcp"], "cannot be asked"),
    ]:
        assert main(argv) != 0
        assert why in capsys.readouterr().err
    assert main(["mcp", "logout", "http://127.0.0.1:1/mcp"]) == 0
    assert capsys.readouterr().out == "http://127.0.0.1:1/mcp: nobody was logged in\n"
