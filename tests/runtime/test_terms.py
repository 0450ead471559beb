"""A session whose agent's code changed meanwhile: what the code says now holds, and the log says since when."""

from __future__ import annotations

from typing import Any

import windlass
from tests.policy import on_record
from windlass.events.changes import ChangeModel, LimitsChanged, ModelChanged, PolicyChanged
from windlass.events.tools.calls import ToolDenied
from windlass.events.values.models import ModelRef
from windlass.models.base import ModelInfo
from windlass.testing.scripted import ScriptedModel, call

from .support import events_of, only, sound


@windlass.tool
def pay(cents: int) -> str:
    "Pay."
    return f"paid {cents}"


def clerk(*turns: Any, name: str = "scripted", **more: Any) -> windlass.Agent:
    info = ModelInfo(name=name, provider="scripted", model=name)
    return windlass.Agent("clerk", model=ScriptedModel(list(turns), info=info), tools=[pay], **more)


async def lived(store: str, agent: windlass.Agent, prompt: str) -> list[Any]:
    """One process with this agent, one prompt, and the log afterwards."""
    async with windlass.open(store, agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt(prompt)
        await session.result()
        await sound(session)
        return await events_of(session)


async def test_a_stricter_policy_binds_the_sessions_there_are(tmp_path):
    store = str(tmp_path / "work.db")
    await lived(store, clerk(call("pay", cents=1), "paid"), "pay one")
    strict = windlass.Policy((windlass.deny("pay"),))
    events = await lived(store, clerk(call("pay", cents=2), "not allowed", policy=strict), "pay two")
    assert [event.policy for event in only(events, PolicyChanged)] == [on_record(strict)]
    assert [event.reason for event in only(events, ToolDenied)] == ["rules"]


async def test_another_model_of_the_agent_is_the_model_of_its_sessions(tmp_path):
    store = str(tmp_path / "work.db")
    await lived(store, clerk("one", name="old"), "go")
    events = await lived(store, clerk("two", name="new"), "again")
    assert [(e.previous, e.model.name, e.reason) for e in only(events, ModelChanged)] == [("old", "new", "resume")]


async def test_a_model_that_was_chosen_for_the_session_stays(tmp_path):
    store = str(tmp_path / "work.db")
    agent = clerk("one", name="own")
    async with windlass.open(store, agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go")
        await session.result()
        await session.change(ChangeModel(model=ModelRef(name="ollama/llama3.2")))
    again = clerk("two", name="own", budget=windlass.Budget(turns=9))
    async with windlass.open(store, agents=[again]) as rt:
        session = await rt.session(again, "s")
        await session.set_title("still here")
        state = await session.state()
        assert state.setup.model.name == "ollama/llama3.2"
        assert [event.run_limits.turns for event in only(await events_of(session), LimitsChanged)] == [9]
        await sound(session)
