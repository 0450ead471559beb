"""Tools and judges that ask a model themselves: on record, within the budget, tried again and stopped like any other."""

from __future__ import annotations

import asyncio
from typing import Any

import windlass
from windlass.events.hooks import HookRuled
from windlass.events.tools.calls import ToolFinished, ToolOutcomeUnknown, ToolRequested
from windlass.events.turns import ModelAsked, ModelFailed, ModelReplied, ModelRequested, RetryPlanned
from windlass.events.values.blocks import Data
from windlass.events.values.usage import Price
from windlass.models.base import ModelInfo
from windlass.runtime.hooks.judge import judge_guard
from windlass.runtime.owner.owner import Owner
from windlass.testing.scripted import ScriptedModel, call, fail, turn

from .support import QUICK, events_of, names_of, only, sound


@windlass.tool
async def translate(ctx: windlass.ToolContext, text: str) -> str:
    "Translate a text."
    answer = await ctx.model(f"Translate: {text}", instructions="Answer with the translation alone.")
    return answer.text


@windlass.tool
async def sort_mail(ctx: windlass.ToolContext, mail: str) -> Any:
    "Sort a mail."
    schema = {"type": "object", "properties": {"urgent": {"type": "boolean"}}, "required": ["urgent"]}
    return (await ctx.model(mail, output_schema=schema, max_output_tokens=100)).output


@windlass.tool
def blocking(ctx: windlass.ToolContext, text: str) -> str:
    "A sync tool that asks."
    return ctx.wait(ctx.model(text)).text


def two_lanes(main: list[Any], aside: list[Any], **more: Any) -> ScriptedModel:
    """One script for the conversation, one for what is asked aside from it."""
    main, aside = list(main), list(aside)

    async def answer(request: Any) -> Any:
        found = (main if request.lane == "main" else aside).pop(0)
        return await found(request) if callable(found) else found

    return ScriptedModel(answer, **more)


def agent_with(model: ScriptedModel, *tools: Any, **more: Any) -> windlass.Agent:
    return windlass.Agent("worker", model=model, tools=list(tools), settings=QUICK, **more)


def result_text(events: list[Any]) -> str:
    return str(only(events, ToolFinished)[0].body.content[0].text)


async def test_a_tool_asks_a_model_and_the_log_has_both_sides(tmp_path):
    model = two_lanes([call("translate", text="Haus"), "It means house."], ["house"])
    async with windlass.open(str(tmp_path / "work.db")) as rt:
        session = await rt.session(agent_with(model, translate))
        await session.prompt("What is Haus?")
        result = await session.result()
        events = await events_of(session)
        asked, (_, aside, _) = only(events, ModelAsked)[0], only(events, ModelRequested)
        (call_id,) = [event.call_id for event in only(events, ToolRequested)]
        assert (asked.lane, asked.call_id, asked.body.prompt) == ("tool", call_id, "Translate: Haus")
        assert (aside.lane, aside.initiator, aside.call_id) == ("tool", "tool", call_id)
        assert events[aside.asked_seq - 1] == asked
        assert [reply.lane for reply in only(events, ModelReplied)] == ["main", "tool", "main"]
        assert (result_text(events), result.text) == ("house", "It means house.")
        assert result.usage.total_tokens == 60, "all three requests are counted"
        sent = model.requests[1]
        assert (sent.instructions, sent.tools, len(sent.items)) == ("Answer with the translation alone.", (), 1)
        await sound(session)


async def test_what_was_asked_aside_never_enters_the_conversation(tmp_path):
    model = two_lanes([call("translate", text="Haus"), "done"], ["a secret thought"])
    async with windlass.open(str(tmp_path / "work.db")) as rt:
        session = await rt.session(agent_with(model, translate))
        await session.prompt("go")
        await session.result()
        kinds = [type(item).__name__ for item in model.requests[2].items]
        assert kinds == ["UserItem", "AssistantItem", "ResultItem"]


async def test_an_answer_may_have_to_fit_a_schema(tmp_path):
    model = two_lanes([call("sort_mail", mail="fire!"), "sorted"], ['{"urgent": true}'])
    async with windlass.open(str(tmp_path / "work.db")) as rt:
        session = await rt.session(agent_with(model, sort_mail))
        await session.prompt("go")
        await session.result()
        assert only(await events_of(session), ToolFinished)[0].body.content == (Data(value={"urgent": True}),)
        assert model.requests[1].settings.max_output_tokens == 100


async def test_an_answer_that_does_not_fit_fails_the_tool_and_not_the_run(tmp_path):
    model = two_lanes([call("sort_mail", mail="fire!"), "sorry"], ["who knows"])
    async with windlass.open(str(tmp_path / "work.db")) as rt:
        session = await rt.session(agent_with(model, sort_mail))
        await session.prompt("go")
        assert (await session.result()).text == "sorry"
        finished = only(await events_of(session), ToolFinished)[0]
        assert (finished.ok, finished.error_code) == (False, "output_invalid")
        await sound(session)


async def test_a_sync_tool_asks_from_its_thread(tmp_path):
    model = two_lanes([call("blocking", text="hm?"), "done"], ["hm!"])
    async with windlass.open(str(tmp_path / "work.db")) as rt:
        session = await rt.session(agent_with(model, blocking))
        await session.prompt("go")
        await session.result()
        assert result_text(await events_of(session)) == "hm!"


async def test_a_request_that_fails_is_made_again_as_the_log_says(tmp_path):
    model = two_lanes([call("translate", text="Haus"), "done"], [fail("overloaded"), fail("server_error"), "house"])
    async with windlass.open(str(tmp_path / "work.db")) as rt:
        session = await rt.session(agent_with(model, translate))
        await session.prompt("go")
        await session.result()
        events = await events_of(session)
        assert [asked.attempt for asked in only(events, ModelAsked)] == [1, 2, 3]
        assert [(plan.lane, plan.plan.attempt) for plan in only(events, RetryPlanned)] == [("tool", 2), ("tool", 3)]
        assert [(failed.lane, failed.attempt) for failed in only(events, ModelFailed)] == [("tool", 1), ("tool", 2)]
        assert result_text(events) == "house"
        await sound(session)


async def test_one_that_cannot_succeed_fails_the_tool_with_the_kind(tmp_path):
    model = two_lanes([call("translate", text="Haus"), "no luck"], [fail("invalid_request")])
    async with windlass.open(str(tmp_path / "work.db")) as rt:
        session = await rt.session(agent_with(model, translate))
        await session.prompt("go")
        assert (await session.result()).text == "no luck"
        events = await events_of(session)
        assert only(events, RetryPlanned) == []
        assert only(events, ToolFinished)[0].error_code == "invalid_request"


async def test_the_budget_binds_what_tools_ask(tmp_path):
    price = Price(input=1, output=1_900_000_000)
    info = ModelInfo(name="dear", provider="x", model="dear", max_output_tokens=1_000, price=price)
    model = two_lanes([call("translate", text="Haus")], ["never"], info=info)
    agent = agent_with(model, translate, budget=windlass.Budget(usd=0.5))
    async with windlass.open(str(tmp_path / "work.db")) as rt:
        session = await rt.session(agent)
        await session.prompt("go")
        assert (await session.result()).stop == "money_budget"
        events = await events_of(session)
        assert only(events, ModelAsked) == []
        assert only(events, ToolFinished)[0].error_code == "budget"
        assert [request.lane for request in model.requests] == ["main"]


async def test_an_interrupt_stops_the_request_and_the_session_goes_on(tmp_path):
    reached = asyncio.Event()

    async def hangs(request: Any) -> Any:
        reached.set()
        await asyncio.get_running_loop().create_future()

    model = two_lanes([call("translate", text="Haus"), "better so"], [hangs])
    async with windlass.open(str(tmp_path / "work.db")) as rt:
        session = await rt.session(agent_with(model, translate))
        await session.prompt("go")
        await asyncio.wait_for(reached.wait(), 120)
        await session.interrupt()
        assert (await session.result()).status == "interrupted"
        assert (await session.state()).requests.open == {}
        await session.prompt("leave it")
        assert (await session.result()).text == "better so"
        await sound(session)


async def test_a_crash_in_the_middle_books_the_cost_and_leaves_the_outcome_unknown(tmp_path):
    reached = asyncio.Event()

    async def hangs(request: Any) -> Any:
        reached.set()
        await asyncio.get_running_loop().create_future()

    store = str(tmp_path / "work.db")
    first = agent_with(two_lanes([call("translate", text="Haus")], [hangs]), translate)
    async with windlass.open(store, agents=[first]) as rt:
        session = await rt.session(first, "s")
        await session.prompt("go")
        await asyncio.wait_for(reached.wait(), 120)
    second = agent_with(two_lanes(["the outcome is unknown"], []), translate)
    async with windlass.open(store, agents=[second]) as rt:
        session = await rt.get("s")
        assert (await session.result()).text == "the outcome is unknown"
        events = await events_of(session)
        assert len(only(events, ToolOutcomeUnknown)) == 1
        assert len(only(events, ModelAsked)) == 1, "it is not asked again"
        state = await sound(session)
        assert state.budget.spent.tally.total().estimated, "what it may have cost is booked"


async def test_many_calls_ask_at_once(tmp_path):
    words = [f"w{number}" for number in range(6)]

    async def echo(request: Any) -> str:
        return str(request.items[0].content[0].text).removeprefix("Translate: ").upper()

    model = two_lanes([turn(*(call("translate", text=word) for word in words)), "done"], [echo] * 6)
    async with windlass.open(str(tmp_path / "work.db")) as rt:
        session = await rt.session(agent_with(model, translate))
        await session.prompt("go")
        await session.result()
        texts = [event.body.content[0].text for event in only(await events_of(session), ToolFinished)]
        assert sorted(texts) == [word.upper() for word in words]
        await sound(session)


async def test_a_judge_rules_through_the_session_and_its_request_is_on_record(tmp_path):
    verdicts = ["deny: that is not ours to translate", "allow, it is harmless"]
    model = two_lanes([call("translate", text="secret"), call("translate", text="Haus"), "done"], [*verdicts, "house"])
    guard = judge_guard("Only translate single harmless words.", tool="translate")
    agent = agent_with(model, translate, hooks=[guard])
    async with windlass.open(str(tmp_path / "work.db")) as rt:
        session = await rt.session(agent)
        await session.prompt("go")
        await session.result()
        events = await events_of(session)
        first, second = [event.call_id for event in only(events, ToolRequested)]
        assert [(asked.lane, asked.call_id) for asked in only(events, ModelAsked)] == [
            ("judge", first),
            ("judge", second),
            ("tool", second),
        ]
        rulings = [event.ruling for event in only(events, HookRuled)]
        assert [(ruling.outcome, ruling.reason) for ruling in rulings] == [("denied", "safety"), ("allowed", None)]
        assert "that is not ours to translate" in rulings[0].message
        await sound(session)


async def test_a_judge_that_cannot_be_asked_denies(tmp_path):
    model = two_lanes([call("translate", text="Haus"), "I was not allowed"], [fail("invalid_request")])
    agent = agent_with(model, translate, hooks=[judge_guard("Anything goes.")])
    async with windlass.open(str(tmp_path / "work.db")) as rt:
        session = await rt.session(agent)
        await session.prompt("go")
        assert (await session.result()).text == "I was not allowed"
        assert "tool.denied" in await names_of(session)
        assert "tool.started" not in await names_of(session)
        await sound(session)


async def test_a_call_that_runs_again_does_not_pay_again_for_what_it_was_told(tmp_path):
    reached = asyncio.Event()

    async def hangs(request: Any) -> Any:
        reached.set()
        await asyncio.get_running_loop().create_future()

    @windlass.tool(contract="pure")
    async def chain(ctx: windlass.ToolContext) -> str:
        "Asks three times, twice the same."
        return " ".join([(await ctx.model(word)).text for word in ("same", "same", "other")])

    store = str(tmp_path / "work.db")
    first = agent_with(two_lanes([call("chain")], ["one", "two", hangs]), chain)
    async with windlass.open(store, agents=[first]) as rt:
        session = await rt.session(first, "s")
        await session.prompt("go")
        await asyncio.wait_for(reached.wait(), 120)
    model = two_lanes(["done"], ["three"])
    second = agent_with(model, chain)
    async with windlass.open(store, agents=[second]) as rt:
        session = await rt.get("s")
        assert (await session.result()).text == "done"
        assert result_text(await events_of(session)) == "one two three"
        assert [request.lane for request in model.requests] == ["tool", "main"]
        await sound(session)


async def test_a_call_that_runs_again_does_not_ask_a_person_again(tmp_path):
    reached = asyncio.Event()
    asked: list[Any] = []

    async def approver(question: Any) -> Any:
        asked.append(question.body.message)
        return "blue"

    @windlass.tool(contract="pure")
    async def paint(ctx: windlass.ToolContext) -> str:
        "Asks for a colour, then thinks."
        colour = (await ctx.ask("Which colour?")).text
        return f"{colour}: {(await ctx.model('well?')).text}"

    async def hangs(request: Any) -> Any:
        reached.set()
        await asyncio.get_running_loop().create_future()

    store = str(tmp_path / "work.db")
    first = agent_with(two_lanes([call("paint")], [hangs]), paint, approver=approver)
    async with windlass.open(store, agents=[first]) as rt:
        session = await rt.session(first, "s")
        await session.prompt("go")
        await asyncio.wait_for(reached.wait(), 120)
    second = agent_with(two_lanes(["done"], ["fine"]), paint, approver=approver)
    async with windlass.open(store, agents=[second]) as rt:
        session = await rt.get("s")
        assert (await session.result()).text == "done"
        assert result_text(await events_of(session)) == "blue: fine"
        assert asked == ["Which colour?"]
        await sound(session)


async def test_a_request_whose_words_were_erased_before_it_was_sent_fails_and_says_so(tmp_path, monkeypatch):
    """Another program may erase what lies in the store while a run goes on: the tool learns of it."""
    model = two_lanes([call("translate", text="my card is 4111"), "never mind"], [])
    agent = agent_with(model, translate)
    async with windlass.open(str(tmp_path / "work.db"), agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        looked_up = Owner.event

        async def erased_first(owner: Owner, seq: int) -> Any:
            if isinstance(await looked_up(owner, seq), ModelAsked):
                await rt.store.log.erase(session.key, seq, by="ada", why="a card number", at_ms=owner.now_ms())
                owner.memory.drop(seq)
            return await looked_up(owner, seq)

        monkeypatch.setattr(Owner, "event", erased_first)
        await session.prompt("translate it")
        assert (await session.result()).text == "never mind"
        events = await events_of(session)
        (failed,) = only(events, ModelFailed)
        (asked,) = [number for number, event in enumerate(events, start=1) if isinstance(event, ModelAsked)]
        told = f"what was asked at event {asked} was erased before it was sent"
        assert (failed.failure.kind, failed.failure.message) == ("invalid_request", told)
        assert told in result_text(events)
        assert [request.lane for request in model.requests] == ["main", "main"]
        await sound(session)


async def test_a_reply_says_what_it_cost_and_the_run_costs_the_sum(tmp_path):
    priced = ModelInfo(name="p", provider="p", model="p", price=Price(input=3_000_000, output=15_000_000))
    model = two_lanes([call("translate", text="x"), "done"], ["y"], info=priced)
    agent = agent_with(model, translate)
    async with windlass.open(str(tmp_path / "work.db"), agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go")
        result = await session.result()
        costs = [reply.cost_nanos for reply in only(await events_of(session), ModelReplied)]
        assert costs == [10 * 3_000 + 10 * 15_000] * 3
        assert result.cost_nanos == sum(costs)


async def test_a_reply_of_a_model_whose_price_nobody_knows_states_no_cost(tmp_path):
    model = two_lanes(["done"], [], info=ModelInfo(name="p", provider="p", model="p"))
    agent = agent_with(model)
    async with windlass.open(str(tmp_path / "work.db"), agents=[agent]) as rt:
        session = await rt.session(agent, "s")
        await session.prompt("go")
        await session.result()
        assert [reply.cost_nanos for reply in only(await events_of(session), ModelReplied)] == [None]
