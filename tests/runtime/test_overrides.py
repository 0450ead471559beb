"""What a single run may have otherwise than its agent says: model, limits, tools, output, approver."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any

import msgspec
import pytest

import windlass
from windlass.events.commands import PromptReceived
from windlass.events.runs import RunStarted
from windlass.events.sessions import SessionStarted
from windlass.events.tools.calls import ToolDenied
from windlass.events.values.blocks import Text
from windlass.events.values.models import ModelRef
from windlass.events.values.setup import Limits, RunOptions
from windlass.models.base import ModelInfo
from windlass.testing.scripted import ScriptedModel, call

from .support import agent_of, events_of, only, sound


@windlass.tool(contract="pure")
def add(x: int, y: int) -> int:
    "Add two numbers."
    return x + y


@windlass.tool(contract="pure")
def subtract(x: int, y: int) -> int:
    "Subtract two numbers."
    return x - y


@dataclasses.dataclass
class Sum:
    value: int


def math(*turns: Any, **more: Any) -> windlass.Agent:
    return agent_of(*turns, name="math", tools=[add, subtract], **more)


def another(*turns: Any) -> ScriptedModel:
    return ScriptedModel(list(turns), info=ModelInfo(name="test/other", provider="test", model="other"))


def offered(agent: windlass.Agent, number: int = -1) -> list[str]:
    model = agent.model
    assert isinstance(model, ScriptedModel)
    return [tool.name for tool in model.requests[number].tools]


# --- a prompt of a session ---


async def test_another_model_answers_one_run_and_the_agents_own_the_next():
    agent, other = math("own", "own again"), another("other")
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        texts = []
        for model in (None, other, None):
            await session.prompt("go", model=model)
            texts.append((await session.result()).text)
        assert texts == ["own", "other", "own again"]
        runs = [event.options for event in only(await events_of(session), RunStarted)]
        assert runs == [
            None,
            RunOptions(model=ModelRef(name="test/other", provider="test", model="other", window_tokens=128_000)),
            None,
        ]
        await sound(session)


async def test_a_model_is_looked_up_here_and_not_believed():
    agent = math("x")
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        with pytest.raises(windlass.Refused) as caught:
            await session.prompt("go", model="nowhere/nothing")
        assert caught.value.code == "unknown_model"
        own = (await session.state()).setup.model
        cheap = msgspec.structs.replace(own, window_tokens=10**9, max_output_tokens=1)
        await session.prompt("go", options=RunOptions(model=cheap))
        await session.result()
        (prompt,) = only(await events_of(session), PromptReceived)
        assert prompt.options == RunOptions(model=own)


async def test_a_model_object_by_the_name_of_the_agents_own_is_refused():
    agent = math("x")
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        with pytest.raises(windlass.UsageError, match="give this one another name"):
            await session.prompt("go", model=ScriptedModel(["y"]))


async def test_limits_that_a_prompt_names_hold_beside_those_of_the_agent():
    agent = math(
        call("add", x=1, y=1), "wrapped up", call("add", x=1, y=1), "two", budget=windlass.Budget(tokens=5_000, turns=9)
    )
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go", budget=windlass.Budget(turns=1))
        result = await session.result()
        assert (result.stop, result.text) == ("max_turns", "wrapped up")
        (started,) = only(await events_of(session), RunStarted)
        assert started.options.limits == Limits(tokens=5_000, turns=1)
        await session.prompt("go")
        assert (await session.result()).stop == "completed"


@pytest.mark.parametrize(
    ("tools", "names"),
    [(["add"], ["add"]), ([subtract], ["subtract"]), (["*"], ["add", "subtract"]), (["s*"], ["subtract"]), ([], [])],
)
async def test_a_run_may_be_restricted_to_some_tools(tools, names):
    agent = math(call("add", x=1, y=1), "done", "all")
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go", tools=tools)
        await session.result()
        assert offered(agent) == names
        denied = [event.reason for event in only(await events_of(session), ToolDenied)]
        assert denied == ([] if "add" in names else ["unavailable_tool"])
        await session.prompt("go")
        await session.result()
        assert offered(agent) == ["add", "subtract"]
        await sound(session)


async def test_a_restriction_to_what_is_not_there_never_fails_silently():
    agent = math("x")
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        with pytest.raises(windlass.Refused, match="no tool 'multiply': there are add, subtract") as caught:
            await session.prompt("go", tools=["add", "multiply"])
        assert caught.value.code == "unknown_tool"


async def test_a_run_may_do_without_the_agents_output_type():
    agent = math("plain words", '{"value": 3}', output=Sum)
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go", output=False)
        first = await session.result()
        await session.prompt("go")
        second = await session.result()
        assert (first.text, first.output, second.output) == ("plain words", None, Sum(3))


async def test_a_prompt_that_changes_nothing_says_nothing():
    agent = math("x")
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go")
        await session.result()
        (prompt,) = only(await events_of(session), PromptReceived)
        assert prompt.options is None


# --- agent.run ---


async def approving(asked: Any) -> bool:
    return True


async def test_run_takes_overrides_for_one_run_alone():
    agent = math("own")
    assert (await agent.run("go", model=another("other"))).text == "other"
    assert (await agent.run("go")).text == "own"
    structured = await math('{"value": 4}').run("go", output=Sum)
    assert structured.output == Sum(4)
    assert (await math("words", output=Sum).run("go", output=None)).text == "words"
    with pytest.raises(windlass.LimitReached):
        await math(call("add", x=1, y=1), "no more").run("go", budget=windlass.Budget(tokens=40))
    restricted = math("x")
    await restricted.run("go", tools=["add"])
    assert offered(restricted) == ["add"]
    asking = math(call("add", x=1, y=1), "2", policy=windlass.Policy(rules=(windlass.ask("add"),)))
    assert (await asking.run("go", approver=approving)).text == "2"


def test_run_sync_takes_the_same_overrides():
    assert math("own").run_sync("go", model=another("other"), tools=["add"]).text == "other"


async def test_run_sync_inside_a_running_loop_takes_them_too_and_leaves_the_loop_alone():
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0)

    ticking = asyncio.ensure_future(tick())
    await asyncio.sleep(0)
    assert math("own").run_sync("go", model=another("other")).text == "other"
    assert (await math("own").run("go")).text == "own"
    ticking.cancel()
    assert ticks > 1


async def test_a_run_of_a_session_that_is_there_keeps_its_model_but_for_the_one_run(tmp_path):
    store = str(tmp_path / "work.db")
    agent = math("own", "own again")
    other = another("other")
    texts = [
        (await agent.run("go", store=store, session="s")).text,
        (await agent.run("go", store=store, session="s", model=other)).text,
        (await agent.run("go", store=store, session="s")).text,
    ]
    assert texts == ["own", "other", "own again"]
    async with windlass.open(store, agents=[agent]) as rt:
        session = await rt.get("s")
        (begun,) = only(await events_of(session), SessionStarted)
        assert (await session.state()).setup.model == begun.setup.model
        await sound(session)


async def test_run_takes_blocks_as_well_as_text():
    agent = math("seen")
    assert (await agent.run([Text(text="one"), Text(text="two")])).text == "seen"
    model = agent.model
    assert isinstance(model, ScriptedModel)
    assert model.requests[0].items[0].content == (Text(text="one"), Text(text="two"))


async def test_an_override_that_does_not_exist_is_named():
    wrong: Any = {"modle": "x"}
    with pytest.raises(windlass.UsageError, match="a run has no 'modle' of its own: there are store, session, model"):
        await math("x").run("go", **wrong)
