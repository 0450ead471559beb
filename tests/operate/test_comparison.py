"""What if somebody had said no: a request answered otherwise in a fork, and the two sessions compared."""

from __future__ import annotations

import pytest

import windlass
from tests.operate.support import ASKED, ASKING, DONE, paid, payer, sessions
from windlass.events.errors import NotFound
from windlass.events.questions import QuestionRequested
from windlass.runtime.api.runtime import Runtime
from windlass.runtime.operate.comparison import Comparison
from windlass.runtime.operate.log_point import read_point
from windlass.testing.scripted import ScriptedModel, by_history, call


async def test_a_request_is_answered_otherwise_in_a_fork_and_the_two_are_compared():
    agent = payer(name="careful", policy=ASKING)
    async with sessions() as store:
        request = next(iter((await read_point(store, ASKED)).state.asks.open))
        async with Runtime(store, agents=[agent]) as runtime:
            session = await runtime.get(ASKED.session)
            await session.approve((await session.requests())[0])
            assert (await session.result()).status == "completed"
            already = list(paid)
            branch = await session.fork("no", reopen=request)
            assert list((await branch.state()).asks.open) == [request]
            await branch.deny(request, "not this month")
            assert (await branch.result()).status == "completed"
            assert paid == already
            two = await session.diff(branch)
            assert await session.diff("no") == two
            assert (await session.diff(session)).same
            with pytest.raises(NotFound):
                await session.diff("nosuch")
    changed = [line for line in two.difference("yes", "no") if line[0] in "+-"]
    assert changed[:4] == ["--- yes", "+++ no", "-result of pay", "-  paid 7"]
    assert changed[4] == "+error of pay"
    assert any("not this month" in line for line in changed[5:])


async def test_what_was_never_asked_cannot_be_reopened():
    async with sessions() as store, Runtime(store) as runtime:
        session = await runtime.get(DONE.session)
        for name in ("p999", "p2", "nonsense"):
            with pytest.raises(windlass.UsageError, match=f"session 'done' never asked '{name}'"):
                await session.fork("f", reopen=name)
        with pytest.raises(windlass.UsageError, match="leave at_seq or reopen out"):
            await session.fork("f", reopen="p2", at_seq=2)
        assert {row.session for row in await runtime.sessions()} == {"done", "asked"}


async def test_a_question_of_a_running_tool_dies_with_it_and_is_not_reopened():
    @windlass.tool
    async def pick(ctx: windlass.ToolContext) -> str:
        "Ask."
        return str(await ctx.ask("Which?"))

    agent = windlass.Agent("asks", model=ScriptedModel(by_history([call("pick"), "Done."])), tools=[pick])
    async with windlass.open(agents=[agent]) as runtime:
        session = await runtime.session(agent, "s")
        await session.prompt("go")
        question = ""
        async for event in session.events():
            if isinstance(event, QuestionRequested):
                question = event.question_id
                break
        with pytest.raises(windlass.UsageError, match="was asked by a tool while it ran"):
            await session.fork("f", reopen=question)
        await session.answer(question, "blue")
        await session.result()


def test_long_texts_that_repeat_themselves_are_compared_without_looking_at_every_pair():
    """What is alike at both ends is left out; a diff line by line of these would take minutes."""
    lines = [f"line {number % 101}" for number in range(40_000)]
    other = [f"line {number % 103}" for number in range(40_000)]
    two = Comparison(before=["same", *lines, "end"], after=["same", *other, "end"])
    told = two.difference("a", "b")
    assert told[:3] == ["--- a", "+++ b", "@@ -103,39899 +103,39899 @@"]
    assert len(told) == 3 + 2 * 39_899
    assert Comparison(before=lines, after=lines).difference("a", "b") == []
    longer = Comparison(before=lines, after=[*lines, "more"])
    assert longer.difference("a", "b") == ["--- a", "+++ b", "@@ -40001,0 +40001,1 @@", "+more"]
