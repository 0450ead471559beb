"""Whose result it is: many talk to one session, from several runtimes, and each gets the answer to what they said."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
from typing import Any

import msgspec
import pydantic
import pytest

import windlass
from windlass.events.commands import QueueChanged
from windlass.events.values.blocks import Refusal
from windlass.runtime.hooks.hook import Denied, Hook
from windlass.testing.scripted import ScriptedModel, call, fail, hang, pause, think, turn

from .support import QUICK, events_of, only, until


def echo(ms: int = 0) -> windlass.Agent:
    """An agent that says what it was told last."""

    def answer(request):
        return [pause(ms), f"re: {request.items[-1].content[0].text}"]

    return windlass.Agent("echo", model=ScriptedModel(answer), settings=QUICK)


async def said(session: windlass.Session, text: str) -> str:
    return (await session.result(await session.prompt(text))).text


async def test_each_of_many_prompts_has_its_own_result():
    agent = echo(1)
    async with windlass.open(agents=[agent]) as runtime:
        session = await runtime.session(agent, "s")
        texts = await asyncio.gather(*(said(session, f"p{number}") for number in range(5)))
        assert texts == [f"re: p{number}" for number in range(5)]


async def test_the_result_of_a_command_can_be_asked_for_long_after():
    agent = echo()
    async with windlass.open(agents=[agent]) as runtime:
        session = await runtime.session(agent, "s")
        ids = [await session.prompt(f"p{number}") for number in range(3)]
        await session.wait_idle()
        assert [(await session.result(name)).text for name in ids] == ["re: p0", "re: p1", "re: p2"]
        assert await session.result(ids[2]) == await session.result()


async def test_runs_side_by_side_on_one_stored_session_each_get_their_own_answer(tmp_path):
    agent, place = echo(5), tmp_path / "s.db"
    await agent.run("first", store=place, session="s")
    found = await asyncio.gather(*(agent.run(f"q{number}", store=place, session="s") for number in range(4)))
    assert [result.text for result in found] == ["re: q0", "re: q1", "re: q2", "re: q3"]


@pytest.mark.parametrize("bound", [True, False])
async def test_what_was_left_for_another_process_is_waited_for(tmp_path, bound):
    agent, place = echo(5), tmp_path / "s.db"
    async with windlass.open(place, agents=[agent]) as owner:
        session = await owner.session(agent, "s")
        assert await said(session, "here") == "re: here"
        async with windlass.open(place, agents=[echo()] if bound else []) as other:
            there = await other.get("s")
            await there.prompt("there")
            assert (await there.result()).text == "re: there"
            assert await said(there, "again") == "re: again"
            if bound:
                await there.prompt("idle")
                await there.wait_idle()
                assert (await there.result()).text == "re: idle"


async def test_an_approval_that_another_process_takes_is_waited_for(tmp_path):
    @windlass.tool(contract="pure")
    def look() -> str:
        "Look."
        return "seen"

    def asking() -> windlass.Agent:
        policy = windlass.Policy([windlass.ask("look")])
        return windlass.Agent("a", model=ScriptedModel([call("look"), "done"]), tools=[look], policy=policy)

    agent = asking()
    async with windlass.open(tmp_path / "s.db", agents=[agent]) as owner:
        session = await owner.session(agent, "s")
        await session.result(await session.prompt("go"))
        async with windlass.open(tmp_path / "s.db", agents=[asking()]) as other:
            there = await other.get("s")
            approval = await there.approve((await there.requests())[0])
            assert (await there.result()).text == "done"
            assert (await there.result(approval)).text == "done"


async def test_a_prompt_behind_a_run_that_waits_for_a_person_says_so(tmp_path):
    @windlass.tool(contract="pure")
    def look() -> str:
        "Look."
        return "seen"

    place, policy = tmp_path / "s.db", windlass.Policy([windlass.ask("look")])
    model = ScriptedModel([call("look"), "looked", "more", "stopped"])
    agent = windlass.Agent("a", model=model, tools=[look], policy=policy)
    first = await agent.run("go", store=place, session="s")
    assert await agent.run("and more", store=place, session="s") == first
    async with windlass.open(place, agents=[agent]) as runtime:
        session = await runtime.session(agent, "s")
        later = await session.prompt("and yet more")
        assert await session.result(later) == first
        await session.approve((await session.requests())[0])
        assert (await session.result(later)).text == "stopped"


async def test_an_approver_that_breaks_is_named_in_the_error():
    @windlass.tool(contract="pure")
    def look() -> str:
        "Look."
        return "seen"

    async def broken(asked):
        raise RuntimeError("the page is gone")

    policy = windlass.Policy([windlass.ask("look")])
    agent = windlass.Agent("a", model=ScriptedModel([call("look")]), tools=[look], policy=policy, approver=broken)
    with pytest.raises(windlass.NeedsAnswer, match="the approver raised RuntimeError: the page is gone"):
        await agent.run("go")


async def test_a_command_that_led_to_no_run_says_why(tmp_path):
    def no_secrets(moment):
        return Denied(message="no secrets") if "secret" in moment.value else None

    model = ScriptedModel([[hang()]])
    agent = windlass.Agent("a", model=model, hooks=[Hook(point="prompt", kind="guard", run=no_secrets)])
    async with windlass.open(tmp_path / "s.db", agents=[agent]) as runtime:
        session = await runtime.session(agent, "s")
        with pytest.raises(windlass.Refused, match="denied by a hook: no secrets"):
            await session.result(await session.prompt("my secret"))
        await session.prompt("go")
        queued = await session.prompt("later")
        await session.edit_queue()
        with pytest.raises(windlass.Refused, match=r"led to no run: taken out of the queue"):
            await session.result(queued)
        async with windlass.open(tmp_path / "s.db") as other:
            there = await other.get("s")
            with pytest.raises(windlass.Refused, match="nosuch"):
                await there.result(await there.approve("nosuch", digest="x"))
        with pytest.raises(windlass.UsageError, match="was sent no command 'typo'"):
            await session.result("typo")
        assert len(only(await events_of(session), QueueChanged)) >= 2


async def test_whoever_waits_for_a_command_learns_that_the_runtime_was_closed():
    model = ScriptedModel([[hang()]])
    agent = windlass.Agent("a", model=model)
    runtime = await windlass.open(agents=[agent]).start()
    session = await runtime.session(agent, "s")
    waiting = asyncio.create_task(session.result(await session.prompt("go")))
    await until(lambda: model.requests, "the request")
    await runtime.close()
    with pytest.raises(windlass.UsageError, match="closed"):
        await waiting


NOTHING_SAID = [
    ("", windlass.ProviderError, "answered with nothing"),
    (" \n", windlass.ProviderError, "answered with nothing"),
    (think("hm"), windlass.ProviderError, "answered with nothing"),
    (turn(think("hm"), finish="length"), windlass.LimitReached, "max tokens"),
    (turn(think("hm"), finish="refusal"), windlass.ProviderError, "refused to answer$"),
    (turn(Refusal(text="I will not."), finish="refusal"), windlass.ProviderError, "refused to answer: I will not."),
]


@pytest.mark.parametrize(("answer", "kind", "why"), NOTHING_SAID)
async def test_an_answer_with_nothing_in_it_is_never_an_empty_text(answer, kind, why):
    agent = windlass.Agent("a", model=ScriptedModel(lambda request: answer), settings=QUICK)
    with pytest.raises(kind, match=why):
        await agent.run("x")


@pytest.mark.parametrize(
    ("answer", "kind"),
    [(turn("I would rather not.", finish="refusal"), windlass.ProviderError), ("much more", windlass.LimitReached)],
)
async def test_where_an_output_is_wanted_a_text_is_not_it(answer, kind):
    @windlass.tool(contract="pure")
    def look() -> str:
        "Look."
        return "seen"

    def script(request):
        return call("look") if answer == "much more" and request.settings.tool_choice != "none" else answer

    budget = windlass.Budget(turns=1)
    settings = msgspec.structs.replace(QUICK, output_reasks_max=0)
    agent = windlass.Agent("a", model=ScriptedModel(script), tools=[look], budget=budget, settings=settings)
    assert (await agent.run("x")).text
    with pytest.raises(windlass.RunError) as raised:
        await agent.run("x", output=int)
    assert raised.value.result.output is None


async def test_a_failure_that_cannot_be_kept_fails_the_run_and_parks_nothing():
    agent = windlass.Agent("a", model=ScriptedModel([fail("no_such_kind"), "fine"]), settings=QUICK)  # type: ignore[arg-type]
    async with windlass.open(agents=[agent]) as runtime:
        session = await runtime.session(agent, "s")
        failed = await session.result(await session.prompt("x"))
        assert failed.failure is not None
        assert "no_such_kind" in failed.failure.message
        assert await said(session, "again") == "fine"


async def test_a_tool_that_asks_a_person_whom_nobody_can_be_raises_instead_of_waiting():
    ended = asyncio.Event()

    @windlass.tool
    async def choose(ctx: windlass.ToolContext) -> str:
        "Choose."
        try:
            return str((await ctx.ask("Which?", options=["a", "b"])).outcome)
        finally:
            ended.set()

    agent = windlass.Agent("a", model=ScriptedModel([call("choose"), "chosen"]), tools=[choose])
    with pytest.raises(windlass.NeedsAnswer, match="give the agent an approver, or a store") as raised:
        await agent.run("x")
    assert len(raised.value.result.waiting_for) == 1
    assert ended.is_set()


async def test_a_run_that_is_stopped_while_it_sleeps_is_not_waited_for(tmp_path):
    model = ScriptedModel([fail("rate_limited", retry_after_ms=3_600_000)])
    agent = windlass.Agent("a", model=model, settings=QUICK)
    running = asyncio.create_task(agent.run("x", store=tmp_path / "s.db", session="s"))
    async with windlass.open(tmp_path / "s.db") as other:

        async def sleeps():
            return [row.state for row in await other.sessions()] == ["sleeping"]

        while not await sleeps():
            await asyncio.sleep(0.01)
        await (await other.get("s")).interrupt()
        with pytest.raises(windlass.Aborted, match="was stopped while it slept"):
            await running


class Even(pydantic.BaseModel):
    n: int

    @pydantic.field_validator("n")
    @classmethod
    def even(cls, n: int) -> int:
        if n % 2:
            raise ValueError("must be even")
        return n


@dataclasses.dataclass
class Day:
    day: datetime.date


@pytest.mark.parametrize(
    ("output", "wrong", "right", "value", "why"),
    [
        (Even, '{"n": 3}', '{"n": 4}', Even(n=4), "value.n: Value error, must be even"),
        (Day, '{"day": "soon"}', '{"day": "2024-02-29"}', Day(datetime.date(2024, 2, 29)), "value.day: is not a valid"),
    ],
)
async def test_an_answer_that_only_the_type_refuses_is_asked_for_again(output, wrong, right, value, why):
    agent = windlass.Agent("a", model=ScriptedModel([wrong, right]), output=output)
    assert (await agent.run("x")).output == value
    never = windlass.Agent("a", model=ScriptedModel(lambda request: wrong), output=output)
    with pytest.raises(windlass.RunError, match=f"no answer fitted the output schema: {why}"):
        await never.run("x")


async def test_a_result_can_be_read_after_the_output_type_has_changed(tmp_path):
    before = windlass.Agent("a", model=ScriptedModel(['{"n": 4}']), output=Even)
    await before.run("x", store=tmp_path / "s.db", session="s")
    async with windlass.open(tmp_path / "s.db", agents=[dataclasses.replace(before, output=Day)]) as runtime:
        result = await (await runtime.get("s")).result()
        assert (result.status, result.text, result.output) == ("completed", '{"n": 4}', None)


async def test_an_output_schema_that_is_none_is_refused_before_anything_is_asked():
    model = ScriptedModel(["1"])
    with pytest.raises(windlass.UsageError, match="no valid JSON Schema"):
        await windlass.Agent("a", model=model, output={"type": "nonsense"}).run("x")
    assert model.requests == []


async def test_a_run_whose_answer_is_in_the_inbox_is_not_called_asked_when_it_is_opened_again(tmp_path):
    store = str(tmp_path / "work.db")

    def pay() -> str:
        return "paid"

    policy = windlass.Policy(rules=(windlass.ask("pay"),))

    def clerk(*turns: Any) -> windlass.Agent:
        return windlass.Agent("clerk", model=ScriptedModel(list(turns)), tools=[pay], policy=policy)

    first = clerk(call("pay"))
    async with windlass.open(store, agents=[first]) as runtime:
        session = await runtime.session(first, "s")
        await session.prompt("pay")
        asked = await session.result()
        assert asked.status == "asked"
    async with windlass.open(store) as beside:
        waiting = await beside.get("s")
        await waiting.approve((await waiting.requests())[0])
    async with windlass.open(store, agents=[clerk("done")]) as runtime:
        result = await (await runtime.get("s")).result()
        assert (result.status, result.text) == ("completed", "done")


async def test_a_run_that_failed_shows_nothing_that_an_earlier_one_said():
    agent = windlass.Agent("a", model=ScriptedModel(["the first answer", fail("invalid_request")]), settings=QUICK)
    async with windlass.open(agents=[agent]) as runtime:
        session = await runtime.session(agent, "s")
        await session.prompt("one")
        assert (await session.result()).text == "the first answer"
        second = await session.prompt("two")
        for result in (await session.result(second), await session.result()):
            assert (result.status, result.text, result.output) == ("failed", "", None)
