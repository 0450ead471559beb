"""What the tests of workflows share: agents that say what their task makes them say, and a graph carried out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import windlass
from tests.runtime.support import QUICK, events_of, only, sound
from windlass.events.turns import ModelReplied
from windlass.models.base import Request
from windlass.runtime.api.flows import FlowResult, FlowRun
from windlass.runtime.flows.flow import Flow
from windlass.testing.scripted import ScriptedModel


def speaker(name: str, *replies: Any, **more: Any) -> windlass.Agent:
    """An agent whose model says these replies, one after the other."""
    return windlass.Agent(name, ScriptedModel(list(replies)), description=name, settings=QUICK, **more)


def listener(name: str, says: Callable[[str], Any], **more: Any) -> windlass.Agent:
    """An agent whose answer depends on its task alone, however many of its sessions run at once."""

    def answer(request: Request) -> Any:
        return says(task_in(request))

    return windlass.Agent(name, ScriptedModel(answer), description=name, settings=QUICK, **more)


def task_in(request: Request) -> str:
    """What the session was told."""
    return "".join(getattr(block, "text", "") for block in request.items[0].content)


async def carried_out(flow: Flow, input: Any = None, **more: Any) -> FlowResult:
    """How a workflow ends, after its log was checked."""
    async with windlass.open(agents=[flow], **more) as runtime:
        run = await runtime.flow(flow, "f", input=input)
        result = await run.result()
        await sound(run.session)
        return result


async def children_of(run: FlowRun) -> list[str]:
    """The ids of the child sessions that were ever started."""
    from windlass.events.trees.children import ChildStarted

    return [event.child_id for event in only(await events_of(run.session), ChildStarted)]


__all__ = ["ModelReplied", "carried_out", "children_of", "listener", "speaker", "task_in"]
