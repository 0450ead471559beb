"""A hook that looks at the calls by which child sessions start."""

from __future__ import annotations

from typing import Any

import windlass
from tests.flows.support import carried_out, speaker
from tests.runtime.support import QUICK
from windlass import flows
from windlass.events.trees.children import ChildFinished
from windlass.runtime.hooks.hook import Hook, Moment
from windlass.testing.scripted import ScriptedModel, call


def looking(seen: list[str]) -> Hook:
    def look(moment: Moment) -> None:
        seen.append(moment.tool or "")

    return Hook(point="before_tool", kind="guard", run=look, tool="spawn")


async def test_a_hook_looks_at_a_call_that_starts_a_child_and_the_child_starts():
    seen: list[str] = []
    helper = speaker("helper", "It is done.")
    script: list[Any] = [call("spawn", agent="helper", task="do it"), "All is done."]
    boss = windlass.Agent("boss", ScriptedModel(script), agents=[helper], hooks=[looking(seen)], settings=QUICK)
    async with windlass.open(agents=[boss]) as runtime:
        session = await runtime.session(boss, "s")
        result = await session.result(await session.prompt("go"))
        assert [record.event.status async for record in session.records() if isinstance(record.event, ChildFinished)]
    assert result.text == "All is done."
    assert seen == ["spawn"]


async def test_a_hook_looks_at_the_children_of_a_workflow():
    seen: list[str] = []
    flow = flows.Flow("f", [flows.spawn("a", speaker("helper", "It is done."), "go")], hooks=[looking(seen)])
    result = await carried_out(flow)
    assert result.output == "It is done."
    assert seen == ["spawn"]
