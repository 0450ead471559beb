"""Resources of servers: listed and read by models through two tools, bounded and marked; and a server's own tools of these
names."""

from __future__ import annotations

import json
import pathlib
from typing import Any

from tests.mcp_client.conftest import Strange
from tests.mcp_client.test_sessions import agent, at_work, events, of, said
from windlass.events.tools.calls import ToolFinished
from windlass.events.values.blocks import Data, Resource
from windlass.testing.scripted import call


async def results(strange: Strange, place: pathlib.Path, *calls: Any) -> tuple[list[ToolFinished], Any]:
    """What calls of a session come to, and its state then."""
    helper = agent(strange, *calls, "done")
    async with at_work(helper, place) as session:
        await session.prompt("go")
        await session.wait_idle()
        return of(ToolFinished, await events(session)), await session.state()


def data(finished: ToolFinished) -> Any:
    assert finished.body is not None
    (block,) = finished.body.content
    assert isinstance(block, Data)
    return block.value


async def test_resources_and_templates_are_listed_and_found(strange: Strange, tmp_path: pathlib.Path) -> None:
    strange.tell("able")
    listing, matching = call("strange__list_resources"), call("strange__list_resources", matching="OF IT")
    (whole, found), _ = await results(strange, tmp_path, listing, matching)
    day = {"uri": "day://{date}", "name": "a day", "description": "of it"}
    notes = [{"uri": f"note://{n}", "name": f"note {n}"} for n in range(3)]
    assert data(whole) == {"resources": [*notes, day], "total": 4}
    assert data(found) == {"resources": [day], "total": 1}


async def test_many_resources_are_given_in_parts(strange: Strange, tmp_path: pathlib.Path) -> None:
    strange.tell("able")
    strange.tell("resources", "130")
    listing, rest = call("strange__list_resources"), call("strange__list_resources", offset=100)
    (first, second), _ = await results(strange, tmp_path, listing, rest)
    assert (len(data(first)["resources"]), data(first)["total"], data(first)["next_offset"]) == (100, 131, 100)
    assert [each["uri"] for each in data(second)["resources"]] == [
        *(f"note://{n}" for n in range(100, 130)),
        "day://{date}",
    ]
    assert "next_offset" not in data(second)


async def test_a_resource_is_read_as_a_strangers_word(strange: Strange, tmp_path: pathlib.Path) -> None:
    strange.tell("able")
    text, blob = call("strange__read_resource", uri="note://1"), call("strange__read_resource", uri="note://blob")
    (read, thing), state = await results(strange, tmp_path, text, blob)
    assert said(read) == "the text of note://1"
    assert thing.body is not None
    (block,) = thing.body.content
    assert isinstance(block, Resource)
    assert (block.uri, block.media_type, block.data) == ("note://blob", "application/x-thing", "AAEC")
    assert "untrusted:mcp" in state.labels.held
    spec = state.toolset.tools["strange__read_resource"]
    assert (spec.contract, spec.kind, spec.traits) == ("at_most_once", "mcp", ("read", "write", "execute", "egress"))


async def test_a_server_without_resources_has_no_tools_for_them(strange: Strange, tmp_path: pathlib.Path) -> None:
    _, state = await results(strange, tmp_path)
    assert not [name for name in state.toolset.tools if "resource" in name]


async def test_a_servers_own_tool_of_that_name_is_called(strange: Strange, tmp_path: pathlib.Path) -> None:
    strange.tell("able")
    strange.tell("tools.json", json.dumps([{"name": "read_resource", "inputSchema": {"type": "object"}}]))
    (finished,), state = await results(strange, tmp_path, call("strange__read_resource"))
    assert said(finished) == "no tool read_resource"  # so its server says
    assert set(state.toolset.tools) == {"strange__read_resource", "strange__list_resources"}


async def test_a_resource_is_found_again_in_the_log(strange: Strange, tmp_path: pathlib.Path) -> None:
    strange.tell("able")
    helper = agent(strange, "one", call("strange__read_resource", uri="note://2"), "two")
    async with at_work(helper, tmp_path) as session:
        await session.prompt("go")
        await session.wait_idle()
    async with at_work(helper, tmp_path) as session:
        await session.prompt("on")
        await session.wait_idle()
        (finished,) = of(ToolFinished, await events(session))
    assert said(finished) == "the text of note://2"
