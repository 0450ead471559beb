"""Planes by name: a tool names one, a session opens its own on first use, and all of them are closed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from windlass.events.errors import UsageError
from windlass.events.tools.calls import CallBody
from windlass.tools.context import ToolContext
from windlass.tools.planes.local import LocalPlane, LocalPlanes
from windlass.tools.planes.outcome import Outcome
from windlass.tools.planes.plane import Planes
from windlass.tools.tool import AnyTool, external_tool, tool


class Kind:
    """A kind of plane that writes down what becomes of it."""

    def __init__(self, name: str, told: list[str], *, broken: bool = False) -> None:
        self.name = name
        self.told = told
        self.broken = broken

    async def open(self, session: str) -> Any:
        self.told.append(f"open {self.name} for {session}")
        await asyncio.sleep(0)
        return Watched(self, session)

    async def close(self) -> None:
        self.told.append(f"close all of {self.name}")


class Watched(LocalPlane):
    def __init__(self, kind: Kind, session: str) -> None:
        super().__init__()
        self.kind = kind
        self.session = session

    async def run(self, tool: AnyTool, call: CallBody, context: ToolContext) -> Outcome:
        self.kind.told.append(f"run {tool.name} on {self.kind.name}")
        return await super().run(tool, call, context)

    async def close(self) -> None:
        await super().close()
        self.kind.told.append(f"close {self.kind.name} of {self.session}")
        if self.kind.broken:
            raise ValueError("it will not close")


@tool
async def here() -> str:
    "Runs here."
    return "here"


@tool(plane="far")
async def there() -> str:
    "Runs elsewhere."
    return "there"


def context() -> ToolContext:
    return ToolContext(session="s", call_id="c")


async def run(planes: Any, made: AnyTool) -> Outcome:
    outcome: Outcome = await planes.run(made, CallBody(args={}), context())
    return outcome


async def test_each_tool_runs_on_the_plane_that_it_names_opened_once_for_each_session():
    told: list[str] = []
    planes = Planes({"local": Kind("local", told), "far": Kind("far", told)})
    one, two = planes.for_session("one"), planes.for_session("two")
    assert told == []
    outcomes = await asyncio.gather(run(one, here), run(one, here), run(one, there))
    assert [outcome.text for outcome in outcomes] == ["here", "here", "there"]
    assert sorted(told) == sorted(
        ["open local for one", "open far for one", "run here on local", "run here on local", "run there on far"]
    )
    await run(two, here)
    told.clear()
    await one.close()
    await one.close()
    assert sorted(told) == ["close far of one", "close local of one"]
    told.clear()
    await planes.close()
    assert told == ["close local of two", "close all of local", "close all of far"]


async def test_a_session_that_is_taken_up_again_opens_its_planes_anew():
    told: list[str] = []
    planes = Planes({"local": Kind("local", told)})
    session = planes.for_session("s")
    await run(session, here)
    await session.close()
    await run(session, here)
    await planes.close()
    assert told.count("open local for s") == told.count("close local of s") == 2


async def test_a_plane_that_will_not_close_keeps_no_other_open():
    told: list[str] = []
    planes = Planes({"local": Kind("local", told), "far": Kind("far", told, broken=True)})
    session = planes.for_session("s")
    await run(session, here)
    await run(session, there)
    with pytest.raises(ValueError, match="will not close"):
        await planes.close()
    assert told[-4:] == ["close local of s", "close far of s", "close all of local", "close all of far"]


async def test_a_plane_that_is_not_there_is_refused_before_a_session_begins_and_said_in_one():
    planes = Planes({"local": LocalPlanes()})
    planes.check([here, external_tool("pick", "Pick.", {"type": "object"}, plane="far")])
    with pytest.raises(UsageError, match=r"tool 'there' runs on plane 'far': there are local; name others in windlass"):
        planes.check([here, there])
    outcome = await run(planes.for_session("s"), there)
    assert (outcome.ok, outcome.error_code) == (False, "tool_unavailable")
    assert outcome.text == "the tool 'there' cannot run here: there is no plane 'far'"
    await planes.close()


async def test_the_local_planes_of_all_sessions_share_their_threads():
    kind = LocalPlanes(threads_max=1)
    one, two = await kind.open("one"), await kind.open("two")

    @tool
    def name() -> str:
        import threading

        return threading.current_thread().name

    first = await run(one, name)
    await one.close()
    assert (await run(two, name)).text == first.text
    await kind.close()
    await kind.close()


def test_the_plane_counts_in_the_digest_and_has_a_name():
    def twin() -> None:
        "The same code."

    assert tool(plane="far")(twin).spec.digest != tool(twin).spec.digest
    with pytest.raises(UsageError, match="'far away' is no name of a plane"):
        tool(plane="far away")(twin)
