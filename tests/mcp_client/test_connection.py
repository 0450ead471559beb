"""A connection to a server: what is listed and called, what is lost and comes back, and what never stays behind."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from typing import Any

import pytest

from tests.mcp_client.conftest import PATIENT_MS, Strange, gone
from windlass.mcp import restarts, tool_pages
from windlass.mcp.connection import Connection, Frozen, Lost, NotConnected
from windlass.mcp.reach import server_process
from windlass.mcp.restarts import Restarts
from windlass.mcp.server import McpServer
from windlass.tools.named_secrets import NamedSecrets
from windlass.tools.processes.process_tree import PARENT_FIELD, stat_of


async def nothing(done: float, total: float | None, message: str | None) -> None:
    """Nobody listens to reports."""


async def agreed(server: McpServer, **more: Any) -> Connection:
    """A connection whose list was agreed to."""
    connection = Connection(server, **more)
    connection.agreed = (await connection.connect()).digest
    return connection


def said(answer: Any) -> str:
    return str(answer.content[0].text)


async def test_a_server_is_listed_called_and_gone(strange: Strange) -> None:
    connection = await agreed(strange.server())
    listing = connection.listing
    assert listing is not None
    assert (listing.about, listing.by_name["strange__echo"].title) == ("strange 1", "Says it again")
    assert said(await connection.call("strange__echo", {"text": "hallo"}, nothing)) == "hallo"
    child = int(said(await connection.call("strange__leaves", {}, nothing)))
    await connection.close()
    await gone(int(strange.notes("begins")[0].split()[1]))
    await gone(child)
    with pytest.raises(NotConnected, match="let go"):
        await connection.connect()


async def test_reports_arrive_while_a_call_runs(strange: Strange) -> None:
    connection = await agreed(strange.server())
    heard: list[Any] = []

    async def progressed(done: float, total: float | None, message: str | None) -> None:
        heard.append((done, total, message))

    assert said(await connection.call("strange__reports", {}, progressed)) == "reported"
    assert heard == [(1, 2, "step 1"), (2, 2, "step 2")]
    await connection.close()


async def test_a_call_that_is_given_up_is_cancelled_at_the_server(strange: Strange) -> None:
    connection = await agreed(strange.server())
    calling = asyncio.ensure_future(connection.call("strange__hangs", {}, nothing))
    await strange.noted("hangs")
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    await strange.noted("cancelled")
    assert said(await connection.call("strange__echo", {"text": "still there"}, nothing)) == "still there"
    assert connection.starts == 1
    await connection.close()


async def test_a_server_that_is_killed_in_a_call_loses_it_and_is_started_again(strange: Strange) -> None:
    noticed: list[str] = []
    connection = await agreed(strange.server(), noticed=noticed.append)
    calling = asyncio.ensure_future(connection.call("strange__hangs", {}, nothing))
    pid = int((await strange.noted("hangs"))[0].split()[1])
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(Lost, match="it was ended by signal 9; it said last: strange server: this goes to its errors"):
        await calling
    assert noticed == ["lost"]
    assert said(await connection.call("strange__echo", {"text": "back"}, nothing)) == "back"
    assert (connection.starts, connection.restarts.failures) == (2, 0)
    await connection.close()


async def test_a_server_whose_supervisor_is_killed_is_ended_with_all_that_it_started(strange: Strange) -> None:
    connection = await agreed(strange.server())
    child = int(said(await connection.call("strange__leaves", {}, nothing)))
    pid = int(strange.notes("begins")[0].split()[1])
    stat = stat_of(pid)
    assert stat is not None
    os.kill(int(stat[PARENT_FIELD]), signal.SIGKILL)
    await gone(pid)
    await connection.close()
    await gone(child)


async def test_a_server_that_comes_back_with_other_tools_is_not_called(strange: Strange) -> None:
    connection = await agreed(strange.server())
    with pytest.raises(Lost):
        await connection.call("strange__dies", {}, nothing)
    strange.tell("more.json", '[{"name": "extra", "inputSchema": {"type": "object"}}]')
    with pytest.raises(Frozen):
        await connection.call("strange__echo", {"text": "x"}, nothing)
    await connection.close()


async def test_a_list_of_a_shape_that_nobody_asked_for_is_the_reason_and_not_how_the_server_was_ended_then(
    strange: Strange,
) -> None:
    strange.tell("tools.json", json.dumps([{"name": "echo", "inputSchema": {"type": "nonsense", "properties": 7}}]))
    connection = Connection(strange.server())
    with pytest.raises(NotConnected, match=r"inputSchema"):
        await connection.connect()
    await connection.close()


async def test_a_tool_is_left_out_for_the_length_of_its_name(strange: Strange) -> None:
    strange.tell("more.json", json.dumps([{"name": "a" * 201, "inputSchema": {"type": "object"}}]))
    connection = Connection(strange.server())
    listing = await connection.connect()
    assert listing.left_out == ("a" * 200 + "…: a name of more than 200 characters",)
    await connection.close()


async def test_a_server_that_does_not_come_up_says_why(strange: Strange) -> None:
    strange.tell("broken")
    connection = Connection(strange.server())
    with pytest.raises(NotConnected, match="it ended with exit code 3; it said last: strange server: it is broken"):
        await connection.connect()
    await connection.close()


async def test_a_server_that_is_not_ready_in_time_is_ended(strange: Strange) -> None:
    strange.tell("silent")
    connection = Connection(strange.server(start_timeout_ms=300))
    with pytest.raises(NotConnected, match=r"it was not ready within 0\.3 s"):
        await connection.connect()
    for line in strange.notes("begins"):
        await gone(int(line.split()[1]))


async def test_a_server_whose_start_is_given_up_is_ended(strange: Strange) -> None:
    strange.tell("silent")
    connection = Connection(strange.server(start_timeout_ms=600_000))
    connecting = asyncio.ensure_future(connection.connect())
    begun = await strange.noted("begins")
    connecting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await connecting
    await gone(int(begun[0].split()[1]))


async def test_a_program_that_is_not_there_says_so() -> None:
    connection = Connection(McpServer(name="none", command="/no/such/program"))
    with pytest.raises(NotConnected, match="its program cannot be started: No such file or directory"):
        await connection.connect()
    with pytest.raises(NotConnected, match="cannot be started in '/no/such/folder'"):
        await Connection(McpServer(name="none", command="true"), "/no/such/folder").connect()
    with pytest.raises(NotConnected, match="there is no secret 'key' here"):
        await Connection(McpServer(name="none", command="true", env={"KEY": "${key}"})).connect()
    await connection.close()


async def test_what_is_no_message_is_passed_over(strange: Strange) -> None:
    strange.tell("garbage")
    connection = await agreed(strange.server())
    assert said(await connection.call("strange__echo", {"text": "x"}, nothing)) == "x"
    await connection.close()


async def test_a_message_beyond_all_bounds_ends_the_connection(
    strange: Strange, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_process, "LINE_BYTES_MAX", 64 * 1024)
    strange.tell("size", str(1024 * 1024))
    connection = await agreed(strange.server())
    with pytest.raises(Lost, match="it sent a message of more than 65536 bytes"):
        await connection.call("strange__large", {}, nothing)
    await gone(int(strange.notes("begins")[0].split()[1]))
    await connection.close()


async def test_a_servers_own_schema_of_its_results_is_not_run(strange: Strange) -> None:
    schema = {"type": "object", "properties": {"x": {"type": "string", "pattern": "^(a+)+$"}}}
    tool = {"name": "structured", "inputSchema": {"type": "object"}, "outputSchema": schema}
    strange.tell("tools.json", json.dumps([tool]))
    strange.tell("structured.json", json.dumps({"x": "a" * 24 + "!"}))  # a second; each letter more doubles it
    connection = await agreed(strange.server())
    answer = await connection.call("strange__structured", {}, nothing)
    assert (said(answer), answer.structured_content) == ("structured", {"x": "a" * 24 + "!"})
    await connection.relist()
    assert said(await connection.call("strange__structured", {}, nothing)) == "structured"
    await connection.close()


@pytest.mark.parametrize(
    ("endless", "asked", "taken", "told"),
    [
        ((200, 0, False), 3, 500, "tool_2_100: more than 500 tools"),
        ((2, 30_000, False), 4, 6, "whatever follows: the list is longer than 200000 bytes"),
        ((2, 0, True), 2, 4, "whatever follows: the list leads back to a page that it had already"),
        ((1, 0, False), 100, 100, "whatever follows: the list has more than 100 pages"),
    ],
)
async def test_a_list_without_an_end_is_asked_for_within_bounds(
    strange: Strange, monkeypatch: pytest.MonkeyPatch, endless: Any, asked: int, taken: int, told: str
) -> None:
    monkeypatch.setattr(tool_pages, "LIST_BYTES_MAX", 200_000)
    strange.tell("endless", json.dumps(endless))
    connection = Connection(strange.server())
    listing = await connection.connect()
    assert (len(listing.tools), listing.left_out) == (taken, (told,))
    assert len(await strange.noted("lists", asked)) == asked
    await connection.close()


async def test_a_server_gets_few_variables_and_its_secrets(strange: Strange, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "of this process")
    server = strange.server(env={"TOKEN": "${token}", "ZONE": "UTC"})
    connection = await agreed(server, secrets=NamedSecrets({"token": "a-secret-of-the-runtime"}))
    found = said(await connection.call("strange__environment", {}, nothing))
    assert '"TOKEN": "a-secret-of-the-runtime"' in found
    assert '"ZONE": "UTC"' in found
    assert "OPENAI_API_KEY" not in found
    await connection.close()


def test_pauses_between_attempts_grow_and_end_in_a_break() -> None:
    tried, now = Restarts(), 0.0
    waits = []
    for _ in range(restarts.BREAKS_AFTER):
        tried.failed(now)
        waits.append(tried.wait_ms(now))
    assert waits == [200, 400, 800, 1600, restarts.OPEN_MS]
    assert tried.open(now)
    assert not tried.open(now + restarts.OPEN_MS)
    assert tried.wait_ms(now + restarts.OPEN_MS) == 0
    tried.worked()
    assert (tried.failures, tried.wait_ms(now)) == (0, 0)


async def test_a_server_that_fails_again_and_again_is_left_alone(
    strange: Strange, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(restarts, "FIRST_MS", 1)
    strange.tell("broken")
    connection = Connection(strange.server())
    for _ in range(restarts.BREAKS_AFTER):
        with pytest.raises(NotConnected, match="exit code 3"):
            await connection.connect()
    with pytest.raises(NotConnected, match=r"it failed 5 times in a row, and is tried again in \d+ s: it ended with"):
        await connection.connect()
    assert len(strange.notes("begins")) == restarts.BREAKS_AFTER
    await connection.close()


async def test_a_public_server_tells_the_time() -> None:
    """`mcp-server-time` of the package index speaks the newest protocol."""
    connection = await agreed(
        McpServer(name="time", command=sys.executable, args=("-m", "mcp_server_time"), start_timeout_ms=PATIENT_MS)
    )
    answer = await connection.call("time__get_current_time", {"timezone": "UTC"}, nothing)
    assert answer.structured_content["timezone"] == "UTC"
    await connection.close()
