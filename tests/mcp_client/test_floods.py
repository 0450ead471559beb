"""Servers that say too much: without end, without being asked, or all of it at once. Whoever shares a process with one
goes on, and the call is told why it failed."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tests.mcp_client.conftest import PATIENCE_S, Strange, gone
from tests.mcp_client.test_connection import agreed, nothing, said
from windlass.mcp.connection import Connection, Lost
from windlass.mcp.reach import heard_streams
from windlass.mcp.reach.heard_streams import ENTRIES_MAX, PARTS_MAX, shorten
from windlass.mcp.reach.pace import Pace
from windlass.tools.context import ToolError

NOTHING = {"type": "object", "properties": {}}


def offering(strange: Strange, *names: str) -> Strange:
    strange.tell("tools.json", json.dumps([{"name": name, "inputSchema": NOTHING} for name in names]))
    return strange


def test_a_pace_lets_some_pass_at_once_and_then_one_by_one() -> None:
    pace = Pace(at_once=3, per_s=2.0)
    assert [pace.wait_s(0.0) for _ in range(5)] == [0.0, 0.0, 0.0, 0.5, 1.0]
    assert pace.wait_s(1.0) == 0.5
    assert [pace.wait_s(100.0) for _ in range(4)] == [0.0, 0.0, 0.0, 0.5]


@pytest.mark.parametrize("what", ["noise", "progress"])
async def test_a_server_that_speaks_without_end_is_heard_no_faster_than_anybody(
    strange: Strange, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    waited = list[float]()
    monkeypatch.setattr(heard_streams, "Pace", lambda at_once, per_s: Counting(at_once, per_s, waited))
    strange.tell("flood", what)
    heard = list[float]()

    async def progressed(done: float, total: float | None, message: str | None) -> None:
        heard.append(done)

    connection = await agreed(offering(strange, "floods").server())
    calling = asyncio.ensure_future(connection.call("strange__floods", {}, progressed))
    async with asyncio.timeout(PATIENCE_S):
        while not waited or waited[-1] == 0.0:  # until nobody listens to it for a while
            await asyncio.sleep(0.01)
    assert waited.count(0.0) <= heard_streams.SAYS_AT_ONCE * 2
    assert len(heard) <= len(waited)
    calling.cancel()
    await asyncio.gather(calling, return_exceptions=True)
    await connection.close()
    await gone(int(strange.notes("begins")[0].split()[1]))


class Counting(Pace):
    """A pace that tells what it said."""

    def __init__(self, at_once: int, per_s: float, told: list[float]) -> None:
        super().__init__(at_once, per_s)
        self._told = told

    def wait_s(self, now_s: float, times: int = 1) -> float:
        self._told.append(super().wait_s(now_s, times))
        return self._told[-1]


async def test_a_server_that_asks_and_takes_no_answers_is_ended(
    strange: Strange, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heard_streams, "UNANSWERED_MAX", 50)
    monkeypatch.setattr(heard_streams, "SAYS_AT_ONCE", 1_000_000)  # as fast as it can fill the pipe
    strange.tell("flood", "ping")
    connection = await agreed(offering(strange, "floods").server())
    with pytest.raises(Lost, match="it asked 51 things and does not take the answers"):
        await connection.call("strange__floods", {}, nothing)
    await gone(int(strange.notes("begins")[0].split()[1]))
    await connection.close()


def test_lists_in_answers_are_shortened_before_anybody_reads_them() -> None:
    part = {"type": "text", "text": "x"}
    called = {"content": [part] * (PARTS_MAX + 7)}
    shorten(called)
    assert called["content"] == [*[part] * PARTS_MAX, {"type": "text", "text": "[7 more parts are left out]"}]
    tools: dict[str, Any] = {"tools": [{}] * (ENTRIES_MAX + 1), "nextCursor": "x"}
    shorten(tools)
    assert (len(tools["tools"]), tools["nextCursor"]) == (ENTRIES_MAX, "x")
    small: dict[str, Any] = {"content": [part], "structuredContent": {"content": [1] * 5_000}}
    shorten(small)
    assert len(small["structuredContent"]["content"]) == 5_000


async def test_a_result_of_many_parts_is_cut_and_says_so(strange: Strange) -> None:
    parts = [{"type": "text", "text": str(n)} for n in range(PARTS_MAX + 3)]
    strange.tell("raw.json", json.dumps({"result": {"content": parts}}))
    connection = await agreed(offering(strange, "raw").server())
    answer = await connection.call("strange__raw", {}, nothing)
    assert [part.text for part in answer.content[-2:]] == [str(PARTS_MAX - 1), "[3 more parts are left out]"]
    await connection.close()


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ({"error": {"code": -32000, "message": "no such page"}}, "the server 'strange' refused: no such page"),
        ({"error": {"code": -32001, "message": "too slow"}}, "the server 'strange' refused: too slow"),
        ({"result": {"content": "no list"}}, "the server 'strange' gave an invalid result: ValidationError"),
        ({"result": {"content": [{"type": "image"}] * 900}}, "the server 'strange' gave an invalid result"),
    ],
)
async def test_an_answer_that_is_an_error_or_none_at_all_does_not_end_the_connection(
    strange: Strange, answer: Any, told: str
) -> None:
    strange.tell("raw.json", json.dumps(answer))
    connection = await agreed(offering(strange, "raw").server())
    with pytest.raises(ToolError, match=told) as raised:
        await connection.call("strange__raw", {}, nothing)
    assert len(raised.value.message) < 1_000
    assert connection.connected
    await connection.close()


async def test_a_text_that_is_nested_beyond_all_bounds_is_a_text(strange: Strange) -> None:
    from windlass.mcp.results import tool_result

    strange.tell("text", "[" * 150_000)
    strange.tell("structured.json", '{"a": 1}')
    connection = await agreed(offering(strange, "structured").server())
    found = tool_result(await connection.call("strange__structured", {}, nothing))
    assert [type(block).__name__ for block in found.value] == ["Text", "Data"]
    await connection.close()


async def test_a_prompt_that_a_server_never_makes_is_given_up(strange: Strange) -> None:
    from windlass.mcp.prompts import ServerPrompt, made

    strange.tell("able")
    strange.tell("slow")
    connection: Connection = await agreed(strange.server(call_timeout_ms=200))
    with pytest.raises(ToolError, match=r"the server 'strange' did not answer within 0\.2 s"):
        await made(connection, ServerPrompt(server="strange", name="greet"), {"language": "Dutch"})
    assert said(await connection.call("strange__echo", {"text": "still there"}, nothing)) == "still there"
    await connection.close()
