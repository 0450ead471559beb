"""What a session has otherwise than its agent's code says: kept in its log, and true for whoever resumes it."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest

import windlass
from tests.policy import on_record
from windlass import SessionOptions
from windlass.events.changes import ChangeModel
from windlass.events.sessions import SessionResumed
from windlass.events.values.models import ModelRef
from windlass.events.values.setup import Limits
from windlass.events.workspace import InstructionsRendered

from .support import agent_of, events_of, only, sound

LIMITED = Limits(turns=3, cost_nanos=50_000_000)
KEPT = SessionOptions(policy=windlass.READ_ONLY, run_limits=LIMITED, tools=("read",))
OPTIONS = SessionOptions(
    policy=windlass.READ_ONLY,
    run_limits=LIMITED,
    tools=("read",),
    instructions="Be brief.",
    output_schema={"type": "integer"},
)


@windlass.tool
def pay(cents: int) -> str:
    "Pay."
    return "paid"


def clerk(*turns: str, **more: Any) -> windlass.Agent:
    return agent_of(*(turns or ("7", "8", "9")), name="clerk", tools=[pay], instructions="Be long.", **more)


async def told(session: windlass.Session) -> str:
    """What the model is told first, as the log has it."""
    rendered = only(await events_of(session), InstructionsRendered)[-1]
    return rendered.body.text if rendered.body is not None else ""


async def test_options_hold_for_whoever_resumes_the_session(tmp_path: pathlib.Path):
    place = str(tmp_path / "work.db")
    agent = clerk()
    async with windlass.open(place, agents=[agent]) as rt:
        session = await rt.session(agent, "s", options=OPTIONS)
        await session.prompt("How many?")
        assert (await session.result()).output == 7
    for _ in range(2):  # whoever comes later knows nothing of them
        agent = clerk()
        async with windlass.open(place, agents=[agent]) as rt:
            session = await rt.session(agent, "s")
            await session.prompt("And now?")
            assert isinstance((await session.result()).output, int)
            state = await session.state()
            assert (state.gate.policy, state.budget.run_limits) == (on_record(windlass.READ_ONLY), LIMITED)
            assert list(state.toolset.tools) == ["pay", "read"]
            assert state.setup.options == KEPT
            assert await told(session) == "Be brief."
            for event in only(await events_of(session), SessionResumed):
                assert (event.agent, event.terms, event.options) == (None, None, None)
            await sound(session)


async def test_what_the_agents_code_changes_elsewhere_still_changes(tmp_path: pathlib.Path):
    place = str(tmp_path / "work.db")
    agent = clerk()
    async with windlass.open(place, agents=[agent]) as rt:
        await rt.session(agent, "s", options=SessionOptions(run_limits=Limits(turns=3)))
    agent = clerk(budget=windlass.Budget(turns=9, calls=5), policy=windlass.READ_ONLY)
    async with windlass.open(place, agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go")
        await session.wait_idle()
        state = await session.state()
    assert (state.budget.run_limits, state.gate.policy) == (
        Limits(turns=3, calls=5),
        on_record(windlass.READ_ONLY),
    )


async def test_options_given_later_change_what_they_name_and_are_on_record(tmp_path: pathlib.Path):
    place = str(tmp_path / "work.db")
    agent = clerk()
    async with windlass.open(place, agents=[agent]) as rt:
        await rt.session(agent, "s", options=OPTIONS)
    more = SessionOptions(run_limits=Limits(turns=5), instructions="Be brisk.")
    async with windlass.open(place, agents=[agent]) as rt:
        session = await rt.session(agent, "s", options=more)
        await session.prompt("go")
        await session.wait_idle()
        limits = Limits(turns=5, cost_nanos=50_000_000)
        assert (await session.state()).setup.options == SessionOptions(
            policy=windlass.READ_ONLY, run_limits=limits, tools=("read",)
        )
        assert (await session.state()).budget.run_limits == limits
        assert await told(session) == "Be brisk."
        with pytest.raises(windlass.UsageError, match="session 's' is open here: close\\(\\) it first"):
            await rt.session(agent, "s", options=SessionOptions(tools=("grep",)))
        async with windlass.open(place, agents=[agent]) as other:
            with pytest.raises(windlass.UsageError, match="session 's' is open in another runtime of this process"):
                await other.session(agent, "s", options=SessionOptions(tools=("grep",)))
        await session.close()
        session = await rt.session(agent, "s", options=SessionOptions(tools=("grep",)))
        await session.prompt("go")
        await session.wait_idle()
        assert list((await session.state()).toolset.tools) == ["pay", "read", "grep"]
        await sound(session)


async def test_a_fork_has_the_options_of_its_origin_and_other_sessions_do_not():
    agent = clerk("7", "8", "9")
    async with windlass.open(agents=[agent]) as rt:
        session = await rt.session(agent, "s", options=OPTIONS)
        plain = await rt.session(agent, "plain")
        branch = await session.fork("branch")
        assert (await branch.state()).setup.options == KEPT
        assert (await branch.state()).gate.policy == on_record(windlass.READ_ONLY)
        assert (await plain.state()).gate.policy == on_record(windlass.Policy())
        assert await told(branch) == "Be brief."


async def test_a_model_that_a_command_chose_stays_over_the_one_in_the_options(tmp_path: pathlib.Path):
    place = str(tmp_path / "work.db")
    agent = clerk("7")
    async with windlass.open(place, agents=[agent]) as rt:
        session = await rt.session(agent, "s", options=SessionOptions(model="openai/gpt-5-mini"))
        assert (await session.state()).setup.model.name == "openai/gpt-5-mini"
        await session.change(ChangeModel(model=ModelRef(name="scripted")))
    async with windlass.open(place, agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go")
        assert (await session.result()).text == "7"


async def test_options_that_mean_nothing_here_are_refused_at_once():
    agent = clerk()
    async with windlass.open(agents=[agent]) as rt:
        for options in (SessionOptions(model="nosuchmodel"), SessionOptions(tools=("nosuchtool",))):
            with pytest.raises(windlass.UsageError, match="nosuch"):
                await rt.session(agent, "s", options=options)
        assert await rt.sessions() == []
