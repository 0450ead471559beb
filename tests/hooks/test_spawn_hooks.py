"""Observers hear of the children of their session, and of what those do, however deep."""

from __future__ import annotations

import windlass
from tests.runtime.support import QUICK, until
from windlass.runtime.hooks.hook import Hook, Moment
from windlass.testing.scripted import ScriptedModel, by_history, call, fail

POINTS = (
    "spawn_start",
    "spawn_end",
    "spawn_error",
    "child_turn_end",
    "child_reply",
    "child_tool_start",
    "child_tool_end",
    "child_tool_error",
)


@windlass.tool(contract="pure")
def look(at: str) -> str:
    """Looks."""
    if at == "nothing":
        raise LookupError("there is nothing")
    return "seen"


def agent(name: str, *replies: object, **more: object) -> windlass.Agent:
    return windlass.Agent(name, ScriptedModel(by_history(list(replies))), description=name, settings=QUICK, **more)  # type: ignore[arg-type]


async def heard(lead: windlass.Agent, moments: list[Moment], point: str, count: int) -> None:
    """Has a session work until its observers have heard so much, this among it."""
    async with windlass.open(agents=[lead]) as runtime:
        session = await runtime.session(lead, "s")
        await session.prompt("go")
        await session.result()
        await until(lambda: len(moments) >= count and point in {one.point for one in moments})


async def test_observers_hear_of_children_and_of_what_they_do_at_any_depth():
    moments: list[Moment] = []
    hooks = [Hook(point=point, run=moments.append, name=point) for point in POINTS]  # type: ignore[arg-type]
    leaf = agent("leaf", [call("look", at="this")], [call("look", at="nothing")], "seen", tools=[look])
    middle = agent("mid", call("spawn", agent="leaf", task="x"), "done", agents=[leaf])
    await heard(
        agent("lead", call("spawn", agent="mid", task="x"), "done", agents=[middle], hooks=hooks),
        moments,
        "spawn_end",
        16,
    )
    told = [(one.point, one.child, one.depth, one.tool) for one in moments]
    deep, near = "s~c6.0~c6.0", "s~c6.0"
    assert {one.session for one in moments} == {"s"}
    assert [one for one in told if one[0].startswith("spawn")] == [
        ("spawn_start", near, 1, None),
        ("spawn_end", near, 1, None),
    ]
    assert told.count(("child_tool_start", deep, 2, "look")) == 2
    assert told.count(("child_tool_end", deep, 2, "look")) == 1
    assert told.count(("child_tool_error", deep, 2, "look")) == 1
    assert [told.count((point, deep, 2, None)) for point in ("child_reply", "child_turn_end")] == [3, 3]
    assert [told.count((point, near, 1, None)) for point in ("child_reply", "child_turn_end")] == [2, 2]


async def test_a_child_that_fails_is_told_with_why():
    moments: list[Moment] = []
    leaf = agent("leaf", fail("invalid_request", "no such field"))
    hooks = [Hook(point=point, run=moments.append, name=point) for point in POINTS]  # type: ignore[arg-type]
    await heard(
        agent("lead", call("spawn", agent="leaf", task="x"), "done", agents=[leaf], hooks=hooks),
        moments,
        "spawn_error",
        2,
    )
    (end,) = [one for one in moments if one.point in ("spawn_end", "spawn_error")]
    assert (end.point, end.child) == ("spawn_error", "s~c6.0")
    assert end.value["failure"]["message"] == "no such field"


async def test_the_children_of_a_session_that_nobody_watches_tell_nobody():
    leaf = agent("leaf", "done")
    lead = agent("lead", call("spawn", agent="leaf", task="x", mode="background"), "done", "told", agents=[leaf])
    async with windlass.open(agents=[lead]) as runtime:
        session = await runtime.session(lead, "s")
        await session.prompt("go")
        await session.result()
        child = runtime.slots.driven_at((await runtime.get("s~c6.0")).key)
        assert child is not None
        assert child.owner.on_committed is None
