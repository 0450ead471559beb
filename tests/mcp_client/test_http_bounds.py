"""What a server over HTTP cannot do, whatever it sends: hold somebody for ever, fill the memory, have us ask without end."""

from __future__ import annotations

import asyncio
import json
import pathlib
from typing import Any

import pytest

import windlass
from tests.mcp_client.conftest import patient
from tests.mcp_client.raw_http import EVENTS, JSON, Asked, RawServer
from tests.mcp_client.test_connection import agreed, nothing, said
from tests.virtual_time import in_virtual_time
from windlass.events.tools.calls import ToolFinished
from windlass.mcp.connection import Connection, Lost, NotConnected
from windlass.mcp.reach import bounded_http
from windlass.mcp.reach.bounded_http import MESSAGE_S, OPENED_AT_ONCE, TAKEN_S
from windlass.mcp.reach.server_process import LINE_BYTES_MAX
from windlass.mcp.reach.value_count import VALUES_MAX, TooMany, check_values
from windlass.testing.scripted import ScriptedModel, call

KINDS = pytest.mark.parametrize("kind", [JSON, EVENTS])


def begins(kind: str) -> bytes:
    return b"data: " if kind == EVENTS else b""


@KINDS
@in_virtual_time
async def test_an_answer_that_drips_is_cut_off(kind: str) -> None:
    raw = RawServer()

    async def drips(asked: Asked) -> None:
        await asked.head(200, kind)
        await asked.send(begins(kind))
        while True:
            await asked.send(b" ")
            await asyncio.sleep(5)

    raw.otherwise["tools/call"] = drips
    async with raw.serving() as server:
        connection = await agreed(server)
        begun = asyncio.get_running_loop().time()
        with pytest.raises(Lost, match=f"it took more than {MESSAGE_S:g} s for one message"):
            await connection.call("raw__go", {}, nothing)
        assert asyncio.get_running_loop().time() - begun < MESSAGE_S + 10
        await connection.close()


@in_virtual_time
async def test_a_stream_may_be_silent_between_its_events() -> None:
    raw = RawServer()

    async def silent(asked: Asked) -> None:
        await asked.head(200, EVENTS)
        await asked.send(b": still there\n\n")
        await asyncio.sleep(10 * MESSAGE_S)
        await asked.send(b"data: " + asked.answer({"content": [{"type": "text", "text": "late"}]}) + b"\n\n")

    raw.otherwise["tools/call"] = silent
    async with raw.serving() as server:
        connection = await agreed(server)
        assert said(await connection.call("raw__go", {}, nothing)) == "late"
        await connection.close()


@KINDS
async def test_a_call_whose_answer_has_no_end_says_so(kind: str) -> None:
    raw = RawServer()

    async def endless(asked: Asked) -> None:
        await asked.head(200, kind)
        await asked.send(begins(kind))
        while True:
            await asked.send(b"x" * 65_536)

    raw.otherwise["tools/call"] = endless
    async with raw.serving() as server:
        connection = await agreed(server)
        with pytest.raises(Lost, match=f"it sent a message of more than {LINE_BYTES_MAX} bytes"):
            await connection.call("raw__go", {}, nothing)
        await connection.close()


@KINDS
async def test_an_answer_of_too_many_values_is_not_built(kind: str) -> None:
    raw = RawServer()

    async def many(asked: Asked) -> None:
        whole = asked.answer({"content": [], "structuredContent": {"a": [[]] * (VALUES_MAX + 1)}})
        await asked.head(200, kind)
        await asked.send(b': " a quote hides nothing\n' if kind == EVENTS else b"")
        await asked.send(begins(kind) + whole + (b"\n\n" if kind == EVENTS else b""))

    raw.otherwise["tools/call"] = many
    async with raw.serving() as server:
        connection = await agreed(server)
        with pytest.raises(Lost, match=f"it sent a message of more than {VALUES_MAX} values"):
            await connection.call("raw__go", {}, nothing)
        await connection.close()


async def test_a_large_answer_within_bounds_is_taken_as_an_event() -> None:
    raw = RawServer()

    async def large(asked: Asked) -> None:
        await asked.head(200, EVENTS)
        text = "y" * (LINE_BYTES_MAX - 1_000)
        await asked.send(b"data: " + asked.answer({"content": [{"type": "text", "text": text}]}) + b"\n\n")

    raw.otherwise["tools/call"] = large
    async with raw.serving() as server:
        connection = await agreed(server)
        assert len(said(await connection.call("raw__go", {}, nothing))) == LINE_BYTES_MAX - 1_000
        await connection.close()


@in_virtual_time
async def test_a_server_that_accepts_no_message_is_given_up() -> None:
    raw = RawServer()

    async def ignores(asked: Asked) -> None:
        await asyncio.sleep(1_000_000)

    raw.otherwise["notifications/initialized"] = ignores
    async with raw.serving() as server:
        connection = Connection(server)
        with pytest.raises(NotConnected, match=f"it did not accept a message within {TAKEN_S:g} s"):
            await connection.connect()
        await connection.close()


@in_virtual_time
async def test_a_stream_that_ends_at_once_is_not_opened_without_end() -> None:
    raw, minute = RawServer(), 60.0

    async def ends(asked: Asked) -> None:
        await asked.head(200, EVENTS)
        await asked.send(b"retry: 0\nid: 1\ndata:\n\n")

    raw.otherwise["GET"] = ends
    async with raw.serving() as server:
        connection = await agreed(server)
        await asyncio.sleep(minute)
        await connection.close()
    assert OPENED_AT_ONCE <= raw.seen.count("GET") <= OPENED_AT_ONCE + minute * bounded_http.OPENED_PER_S + 1


@in_virtual_time
async def test_events_that_say_nothing_are_read_at_a_pace() -> None:
    raw, minute = RawServer(), 60.0
    sent = 0

    async def chatters(asked: Asked) -> None:
        nonlocal sent
        await asked.head(200, EVENTS)
        while True:
            await asked.send(b": \n\n" * 1_000)
            sent += 1_000
            await asyncio.sleep(0.001)

    raw.otherwise["tools/call"] = chatters
    async with raw.serving() as server:
        connection = await agreed(server)
        calling = asyncio.ensure_future(connection.call("raw__go", {}, nothing))
        await asyncio.sleep(minute)
        calling.cancel()
        await asyncio.gather(calling, return_exceptions=True)
        await connection.close()
    on_its_way = 3_000_000  # what sockets hold between those who write and those who do not read
    assert sent < bounded_http.EVENTS_AT_ONCE + minute * bounded_http.EVENTS_PER_S + on_its_way < minute * 1_000_000


@pytest.mark.parametrize("tells", [b"", b'{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"no session"}}'])
async def test_a_server_that_has_forgotten_its_session_is_asked_again_and_did_nothing(tells: bytes) -> None:
    raw, calls = RawServer(), list[str]()

    async def forgets(asked: Asked) -> None:
        session = asked.headers["mcp-session-id"]
        calls.append(session)
        if session == "session-1":
            await asked.head(404)
            await asked.send(tells)
        else:
            await raw.soundly(asked)

    raw.otherwise["tools/call"] = forgets
    async with raw.serving() as server:
        connection = await agreed(server)
        with pytest.raises(NotConnected, match="it knows nothing of this connection any more"):
            await connection.call("raw__go", {}, nothing)
        assert said(await connection.call("raw__go", {}, nothing)) == "done"
        assert calls == ["session-1", "session-2"]
        await connection.close()


async def test_a_call_that_met_a_forgotten_session_is_made_once_more_and_is_done_once(tmp_path: pathlib.Path) -> None:
    raw, done = RawServer(), list[str]()

    async def restarted(asked: Asked) -> None:
        if (session := asked.headers["mcp-session-id"]) == "session-1":
            await asked.head(404)
        else:
            done.append(session)
            await raw.soundly(asked)

    raw.otherwise["tools/call"] = restarted
    async with raw.serving() as server:
        model = ScriptedModel([call("raw__go"), "done"])
        agent = windlass.Agent("clerk", model, policy=windlass.ALLOW_ALL, mcp=patient(server))
        async with windlass.open(str(tmp_path / "work.db"), agents=[agent]) as runtime:
            session = await runtime.session(agent, "one")
            await session.prompt("go")
            assert (await session.result()).ok
            found = [record.event async for record in session.records()]
    assert [event.ok for event in found if isinstance(event, ToolFinished)] == [True]
    assert done == ["session-2"]


@KINDS
@pytest.mark.parametrize("code", [-32000, -32001])
async def test_an_error_of_the_server_is_an_answer_whatever_its_code(kind: str, code: int) -> None:
    from windlass.tools.context import ToolError

    raw = RawServer()

    async def fails(asked: Asked) -> None:
        told = {"jsonrpc": "2.0", "id": asked.told["id"], "error": {"code": code, "message": "no such page"}}
        await asked.head(200, kind)
        await asked.send(begins(kind) + json.dumps(told).encode() + b"\n\n")

    raw.otherwise["tools/call"] = fails
    async with raw.serving() as server:
        connection = await agreed(server)
        with pytest.raises(ToolError, match="the server 'raw' refused: no such page"):
            await connection.call("raw__go", {}, nothing)
        assert connection.connected
        await connection.close()


@pytest.mark.parametrize(
    ("message", "fits"),
    [
        (json.dumps([[]] * VALUES_MAX), False),
        (json.dumps(['a, [ and { in \\ a " text \\'] * (VALUES_MAX - 1)), True),
        (json.dumps({str(n): n for n in range(VALUES_MAX - 1)}), True),
        (json.dumps({str(n): n for n in range(VALUES_MAX + 1)}), False),
        (json.dumps("[" * VALUES_MAX * 2), True),
        ('"' * VALUES_MAX * 5, False),
    ],
)
def test_values_are_counted_without_what_stands_in_texts(message: str, fits: bool) -> None:
    found: Any = None
    try:
        check_values(message.encode())
    except TooMany as error:
        found = error
    assert (found is None) is fits
