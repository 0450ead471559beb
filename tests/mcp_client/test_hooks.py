"""Hooks of MCP servers: who hears of them, and what is set, replaced and removed beside the arguments of a call."""

from __future__ import annotations

import asyncio
import json
import pathlib
from typing import Any

import pytest

import windlass
from tests.mcp_client.conftest import PATIENCE_S, Strange, patient
from tests.mcp_client.test_sessions import ALLOW, at_work, events, of, said
from windlass.events.hooks import HookRuled
from windlass.events.tools.calls import ToolFinished
from windlass.mcp.server import McpServer
from windlass.runtime.hooks.hook import Changed, Denied, Hook, Moment
from windlass.testing.scripted import ScriptedModel, call


def helper(strange: Strange, *hooks: Hook, servers: tuple[McpServer, ...] = ()) -> windlass.Agent:
    strange.tell("able")
    model = ScriptedModel([call("strange__meta"), "done"])
    return windlass.Agent("helper", model, policy=ALLOW, hooks=hooks, mcp=patient(strange.server(), *servers))


async def called(agent: windlass.Agent, place: pathlib.Path) -> tuple[ToolFinished, list[Any]]:
    async with at_work(agent, place) as session:
        await session.prompt("go")
        await session.wait_idle()
        found = await events(session)
    (finished,) = of(ToolFinished, found)
    return finished, found


def sets(meta: Any) -> Hook:
    def run(moment: Moment) -> Changed:
        return Changed(value={**moment.value, "meta": meta})

    return Hook(point="before_mcp", run=run, kind="transform")


@pytest.mark.parametrize(
    ("hooks", "sent"),
    [
        ([], {}),
        ([{"trace": "1"}], {"trace": "1"}),
        ([{"trace": "1"}, {"trace": "2", "who": "me"}], {"trace": "2", "who": "me"}),
        ([{"trace": "1"}, None], {}),
    ],
    ids=["none", "set", "replace", "remove"],
)
async def test_what_is_sent_beside_the_arguments(
    strange: Strange, tmp_path: pathlib.Path, hooks: list[Any], sent: dict[str, str]
) -> None:
    finished, found = await called(helper(strange, *map(sets, hooks)), tmp_path)
    got = json.loads(said(finished))
    got.pop("progressToken")
    assert got == sent
    rulings = [each.ruling for each in of(HookRuled, found)]
    assert [(each.point, each.outcome) for each in rulings] == [("before_mcp", "changed")] * len(hooks)


async def test_a_hook_is_told_which_server_and_tool(strange: Strange, tmp_path: pathlib.Path) -> None:
    seen: list[Moment] = []
    await called(
        helper(strange, Hook(point="before_mcp", run=lambda moment: seen.append(moment), kind="guard")), tmp_path
    )
    (moment,) = seen
    told: dict[str, Any] = {
        "server": "strange",
        "tool": "meta",
        "display_name": "strange__meta",
        "args": {},
        "meta": None,
    }
    assert (moment.value, moment.tool) == (told, "strange__meta")
    assert moment.call_id


async def test_a_guard_stops_a_call_before_it_is_sent(strange: Strange, tmp_path: pathlib.Path) -> None:
    no = Hook(point="before_mcp", run=lambda moment: Denied(message="not today"), kind="guard", tool="strange__*")
    finished, found = await called(helper(strange, no), tmp_path)
    assert (finished.ok, finished.error_code) == (False, "hook_denied")
    assert said(finished) == "a hook did not let this call go to the server: not today"
    assert [each.ruling.outcome for each in of(HookRuled, found)] == ["denied"]


@pytest.mark.parametrize(
    ("meta", "told"),
    [
        ("text", "an object, or None"),
        ({"progressToken": 1}, "set by the protocol itself"),
        ({"x": "y" * 20_000}, "at most 16384 bytes"),
    ],
)
async def test_what_cannot_be_sent_stops_the_call(
    strange: Strange, tmp_path: pathlib.Path, meta: Any, told: str
) -> None:
    finished, _ = await called(helper(strange, sets(meta)), tmp_path)
    assert finished.error_code == "hook_denied"
    assert told in said(finished)


async def test_observers_hear_of_servers_that_come_and_go(strange: Strange, tmp_path: pathlib.Path) -> None:
    heard: asyncio.Queue[tuple[str, str]] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def hear(moment: Moment) -> None:
        loop.call_soon_threadsafe(heard.put_nowait, (moment.point, moment.value["server"]))

    points: Any = ("mcp_connect", "mcp_error", "mcp_close")
    none = McpServer(name="none", command="/no/such/program")
    agent = helper(strange, *(Hook(point=point, run=hear) for point in points), servers=(none,))
    async with at_work(agent, tmp_path):
        async with asyncio.timeout(PATIENCE_S):
            found = {await heard.get(), await heard.get()}
            assert found == {("mcp_connect", "strange"), ("mcp_error", "none")}


async def test_observers_hear_of_a_server_that_is_lost(strange: Strange, tmp_path: pathlib.Path) -> None:
    heard = asyncio.Event()
    loop = asyncio.get_running_loop()
    strange.tell("able")
    model = ScriptedModel([call("strange__dies"), "done"])

    def hear(moment: Moment) -> None:
        loop.call_soon_threadsafe(heard.set)

    close = Hook(point="mcp_close", run=hear)
    agent = windlass.Agent("helper", model, policy=ALLOW, hooks=[close], mcp=patient(strange.server()))
    async with at_work(agent, tmp_path) as session:
        await session.prompt("go")
        async with asyncio.timeout(PATIENCE_S):
            await heard.wait()
        await session.wait_idle()
