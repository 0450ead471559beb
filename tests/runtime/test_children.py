"""Calls that a child session carries out, through the port: started once, taken once, owed again after a crash."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

import windlass
from windlass.events.errors import Refused
from windlass.events.trees.children import ChildBody, ChildFinished, ChildStarted
from windlass.events.values.blocks import Text
from windlass.events.values.ids import child_end_id
from windlass.kernel.effects import StartChild
from windlass.runtime.drive.children import NO_CHILDREN, finished
from windlass.store.memory import MemoryStore
from windlass.testing.scripted import ScriptedModel, call
from windlass.tools.tool import AnyTool, Tool

from .support import agent_of, events_of, only, sound, until

SCHEMA = {"type": "object", "properties": {"task": {"type": "string"}}}


def helper() -> AnyTool:
    made = windlass.external_tool("helper", "Has a child do it.", SCHEMA)
    return Tool(None, msgspec.structs.replace(made.options, runs="child"))


def told(agent: windlass.Agent) -> str:
    """The last thing that the model was shown."""
    assert isinstance(agent.model, ScriptedModel)
    return str(agent.model.requests[-1].items[-1])


class Nursery:
    """A double of whoever starts children: makes each once, and ends it when told to."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.made: set[str] = set()
        self.may_end = asyncio.Event()

    async def ended(self, effect: StartChild) -> ChildFinished:
        self.asked.append(effect.child_id)
        self.made.add(effect.child_id)
        await self.may_end.wait()
        return finished(effect, ChildBody(content=(Text(text="forty-two"),)), tokens=4)


async def test_the_end_of_a_child_is_the_result_of_its_call():
    agent, nursery = agent_of(call("helper", task="x"), "done", tools=[helper()]), Nursery()
    nursery.may_end.set()
    async with windlass.open(agents=[agent], children=nursery) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go")
        assert (await session.result()).text == "done"
        (began,) = only(await events_of(session), ChildStarted)
        assert nursery.asked == [began.child_id] == [f"s~{began.call_id}"]
        assert "forty-two" in told(agent)
        await sound(session)


async def test_a_start_is_owed_again_after_a_crash_and_the_end_is_taken_once():
    store, nursery = MemoryStore(), Nursery()
    agent = agent_of(call("helper", task="x"), "done", tools=[helper()])
    async with windlass.open(store, agents=[agent], children=nursery) as rt:
        await (await rt.session(agent, "s")).prompt("go")
        await until(lambda: nursery.asked)
    async with windlass.open(store, agents=[agent], children=nursery) as rt:
        session = await rt.session(agent, "s")
        await until(lambda: len(nursery.asked) > 1)
        nursery.may_end.set()
        assert (await session.result()).text == "done"
        assert len(nursery.made) == 1
        assert len(only(await events_of(session), ChildFinished)) == 1
        await sound(session)


async def test_an_interrupt_gives_the_child_up():
    agent, nursery = agent_of(call("helper", task="x"), tools=[helper()]), Nursery()
    async with windlass.open(agents=[agent], children=nursery) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go")
        await until(lambda: nursery.asked)
        await session.interrupt()
        assert (await session.result()).status == "interrupted"
        nursery.may_end.set()
        while (await session.state()).children.open:
            await asyncio.sleep(0.01)
        await sound(session)


async def test_without_a_port_the_call_fails_and_says_why():
    agent = agent_of(call("helper", task="x"), "done", tools=[helper()])
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go")
        assert (await session.result()).text == "done"
        assert NO_CHILDREN in told(agent)


async def test_no_client_can_say_that_a_child_ended():
    agent, nursery = agent_of(call("helper", task="x"), "done", tools=[helper()]), Nursery()
    async with windlass.open(agents=[agent], children=nursery) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go")
        await until(lambda: nursery.asked)
        (began,) = only(await events_of(session), ChildStarted)
        name = child_end_id(began.child_id)
        lie = ChildFinished(command_id=name, child_id=began.child_id, call_id=began.call_id)
        with pytest.raises(Refused, match="told by itself"):
            await rt.send(session.key, lie)
        nursery.may_end.set()
        assert (await session.result()).text == "done"
