"""The context of a session, from the outside: what is counted, shortened, summarised, cut, kept, undone and shown."""

from __future__ import annotations

import asyncio
import dataclasses

import msgspec
import pytest

import windlass
from tests.archive.talking import FACTS, agent_of, answering, forget, requests, say, talked, texts
from tests.runtime.support import QUICK, events_of, only, sound, started
from windlass.events.changes import ChangePins, ChangeTask
from windlass.events.commands import PromptReceived
from windlass.events.context import CompactionFailed, CompactionFinished, ContextElided, ContextTruncated
from windlass.events.runs import RunCompleted
from windlass.events.tools.calls import ResultReceived, ToolFinished
from windlass.events.turns import ModelRequested
from windlass.events.values.blocks import Document, Image, Reasoning, Text, plain_text
from windlass.events.values.items import ResultItem
from windlass.events.values.setup import Task, Todo
from windlass.events.values.usage import Price, Usage
from windlass.models.base import ModelInfo
from windlass.runtime.bind.model_requests import SUMMARY_INSTRUCTIONS, SUMMARY_REQUEST
from windlass.testing.scripted import SCRIPTED_INFO, ScriptedModel, call, fail


def small(answer, window: int, **settings) -> windlass.Agent:
    """An agent whose model has a small window."""
    info: ModelInfo = msgspec.structs.replace(SCRIPTED_INFO, window_tokens=window, max_output_tokens=200)
    chosen = msgspec.structs.replace(QUICK, keep_exchanges=2, **settings)
    return windlass.Agent("small", model=ScriptedModel(answer, info=info), settings=chosen)


# --- large results ---


async def test_a_large_result_leaves_head_tail_sizes_and_a_blob():
    text = "BEGIN " + "x" * 200_000 + " END"

    @windlass.tool(contract="pure")
    def big() -> str:
        "A large result."
        return text

    def answer(request):
        return "ok" if isinstance(request.items[-1], ResultItem) else call("big")

    agent = agent_of(answer, tools=[big])
    async with windlass.open(agents=[agent]) as runtime:
        session = await runtime.session(agent, "s")
        await say(session, "go")
        (event,) = only(await events_of(session), ToolFinished)
        shown = texts(requests(agent)[-1].items)[-1]
        assert shown.startswith("BEGIN xxx")
        assert shown.endswith("xxx END")
        assert f"{len(text) - 4096} of {len(text)} bytes are not shown" in shown
        assert (event.spooled_bytes, event.bytes < 5_000, event.tokens < 5_000) == (len(text), True, True)
        whole = await runtime.store.blobs.get("default", event.body.whole.digest)
        assert whole.decode() == text


REMOTE = windlass.external_tool("look_up", "Looks something up elsewhere.", {"type": "object", "properties": {}})


@pytest.mark.parametrize("how", ["here", "from another process"])
async def test_a_large_result_of_a_client_leaves_a_preview_too_and_is_read_on_demand(tmp_path, how):
    path = str(tmp_path / "work.db")
    text = "BEGIN " + "y" * 300_000 + " END"

    def answer(request):
        last = request.items[-1]
        if not isinstance(last, ResultItem):
            return call("look_up")
        if last.tool == "read_result":
            return "ok"
        return call("read_result", call_id=last.call_id, offset=300_000, limit=20)

    agent = agent_of(answer, tools=[REMOTE, "read_result"])
    async with windlass.open(path, agents=[agent]) as runtime:
        session = await runtime.session(agent, "s")
        await session.prompt("go")
        await session.wait_idle()
        (name,) = (await session.state()).calls.by_id
        if how == "here":
            await session.tool_result(name, text)
        else:
            async with windlass.open(path) as other:
                await (await other.get("s")).tool_result(name, text)
        await started(session, RunCompleted)
        (event,) = only(await events_of(session), ResultReceived)
        assert (event.tokens < 5_000, event.bytes < 5_000, event.body.whole.size) == (True, True, len(text))
        first, second = [texts([item])[0] for item in requests(agent)[-1].items if isinstance(item, ResultItem)]
        assert first.startswith("BEGIN yyy")
        assert f"[{len(text)} bytes in all: read_result with call_id {name!r} shows the rest]" in first
        assert second == f"[bytes 300000 to {len(text)} of {len(text)}; this is the end]\n{text[300_000:]}"
        await sound(session)


async def test_a_small_result_of_a_client_is_kept_as_it_is():
    agent = agent_of(lambda request: "ok" if len(request.items) > 1 else call("look_up"), tools=[REMOTE])
    async with windlass.open(agents=[agent]) as runtime:
        session = await runtime.session(agent, "s")
        await session.prompt("go")
        await session.wait_idle()
        (name,) = (await session.state()).calls.by_id
        await session.tool_result(name, "found")
        await session.wait_idle()
        (event,) = only(await events_of(session), ResultReceived)
        assert (event.body.content, event.body.whole) == ((Text(text="found"),), None)


# --- making room ---


async def test_a_full_window_elides_then_summarises_and_each_step_is_counted():
    @windlass.tool(contract="pure")
    def page(number: int) -> str:
        "A page of a book."
        return f"page {number}: " + "many words " * 120

    def answer(request):
        if request.lane == "compact":
            return "an epitome"
        last = plain_text(request.items[-1].content)
        return "read" if isinstance(request.items[-1], ResultItem) else call("page", number=int(last))

    agent = dataclasses.replace(small(answer, 3_000), tools=[page])
    async with windlass.open(agents=[agent]) as runtime:
        session = await runtime.session(agent, "s")
        await say(session, *[str(number) for number in range(40)])
        events = await events_of(session)
        for step in (ContextElided, CompactionFinished):
            found = only(events, step)
            assert found, step
            assert all(event.tokens_after < event.tokens_before for event in found)
        assert all(event.items_after < event.items_before for event in only(events, CompactionFinished))
        last = texts(requests(agent)[-1].items)
        assert last[0].startswith("[Summary of the earlier conversation]\nan epitome")
        await sound(session)


@pytest.mark.parametrize("how", ["fails", "is empty", "is blank", "only thinks", "calls a tool"])
async def test_a_compaction_that_fails_never_stops_a_run(how):
    def answer(request):
        if request.lane == "compact":
            return {
                "fails": fail("invalid_request"),
                "is empty": [],
                "is blank": " \n",
                "only thinks": Reasoning(text="what shall I write"),
                "calls a tool": call("nothing"),
            }[how]
        return "noted"

    agent = small(answer, 1_500)
    async with windlass.open(agents=[agent]) as runtime:
        session = await runtime.session(agent, "s")
        for number in range(12):
            await session.prompt(f"{number} " + "word " * 200)
            assert (await session.result()).status == "completed"
        events = await events_of(session)
        assert only(events, CompactionFailed)
        cut = only(events, ContextTruncated)
        assert cut
        assert all(e.tokens_after < e.tokens_before and e.items_after < e.items_before for e in cut)
        await sound(session)


async def test_without_a_summariser_the_history_is_cut_and_what_left_is_still_found():
    agent = small(answering, 1_500, summarise=False)
    async with windlass.open(agents=[agent]) as runtime:
        session = await runtime.session(agent, "s")
        await say(session, f"{FACTS[0]} " + "word " * 200, *["filler " * 200 for _ in range(8)])
        assert only(await events_of(session), ContextTruncated)
        assert all(request.lane == "main" for request in requests(agent))
        (page, *_) = await session.page_in("harbour")
        assert FACTS[0] in page.text


# --- by hand ---


async def test_what_is_asked_of_a_summary_reaches_the_summariser():
    agent = agent_of()
    async with windlass.open(agents=[agent]) as runtime:
        session = await runtime.session(agent, "s")
        await say(session, *FACTS, "x")
        await session.compact("keep every price")
        await session.wait_idle()
        asked = requests(agent)[-1]
        assert (asked.lane, asked.instructions) == ("compact", SUMMARY_INSTRUCTIONS)
        assert texts(asked.items)[-1] == f"{SUMMARY_REQUEST}\nWhat was asked of it: keep every price"
        await say(session, "y", "z")
        await forget(session)
        assert texts(requests(agent)[-1].items)[-1] == SUMMARY_REQUEST, "a later one is told nothing of it"
        await sound(session)


async def test_a_compaction_that_nobody_asked_for_is_told_nothing_of_an_earlier_wish():
    agent = small(answering, 2_000)
    async with windlass.open(agents=[agent]) as runtime:
        session = await runtime.session(agent, "s")
        await say(session, *FACTS)
        await session.compact("keep every price")
        await session.wait_idle()
        await say(session, *["filler " * 150 for _ in range(12)])
        asked = [texts(request.items)[-1] for request in requests(agent) if request.lane == "compact"]
        assert asked[0].endswith("keep every price")
        assert {*asked[1:]} == {SUMMARY_REQUEST}


async def test_what_is_asked_of_a_summary_while_the_session_works_is_kept_for_its_next_turn():
    let_go = asyncio.Event()

    @windlass.tool(contract="pure")
    async def slow() -> str:
        "Takes a while."
        await let_go.wait()
        return "done"

    def answer(request):
        if request.lane == "compact":
            return "an epitome"
        return call("slow") if plain_text(request.items[-1].content) == "start" else "noted"

    agent = agent_of(answer, tools=[slow])
    async with windlass.open(agents=[agent]) as runtime:
        session = await runtime.session(agent, "s")
        await say(session, *FACTS)
        await session.prompt("start")
        await session.compact("first wish")
        await session.compact("second wish")
        let_go.set()
        await session.result()
        (asked,) = [request for request in requests(agent) if request.lane == "compact"]
        assert texts(asked.items)[-1].endswith("What was asked of it: second wish")
        await sound(session)


async def test_the_summariser_is_told_what_the_settings_say():
    settings = msgspec.structs.replace(QUICK, keep_exchanges=2, summary_instructions="Write a haiku.")
    agent = agent_of(settings=settings)
    async with talked(agent):
        asked = [request for request in requests(agent) if request.lane == "compact"]
        assert [request.instructions for request in asked] == ["Write a haiku."]
        assert all(request.instructions == "" for request in requests(agent) if request.lane == "main")


async def test_another_model_may_write_the_summaries_at_its_own_price():
    price = Price(input=1_000, output=2_000)
    info = msgspec.structs.replace(SCRIPTED_INFO, name="small/writer", window_tokens=8_000, price=price)
    writer = ScriptedModel(answering, info=info, usage=Usage(input_tokens=100, output_tokens=20))
    agent = agent_of(summary_model=writer)
    async with talked(agent) as session:
        await say(session, "go on")
        assert [request.lane for request in writer.requests] == ["compact"]
        assert {request.lane for request in requests(agent)} == {"main"}
        asked = {event.lane: event.model for event in only(await events_of(session), ModelRequested)}
        assert asked == {"main": "scripted", "compact": "small/writer"}
        assert (await session.state()).budget.spent.cost_nanos == price.cost_nanos(
            Usage(input_tokens=100, output_tokens=20)
        )
        assert texts(requests(agent)[-1].items)[0] == "[Summary of the earlier conversation]\nan epitome"
        await sound(session)


async def test_a_summary_that_its_own_model_cannot_read_is_not_asked_for():
    info = msgspec.structs.replace(SCRIPTED_INFO, name="tiny/writer", window_tokens=300, max_output_tokens=200)
    writer = ScriptedModel(answering, info=info)
    async with talked(agent_of(summary_model=writer), prompts=("word " * 400, "x", "y")) as session:
        assert writer.requests == []
        assert [event.reason for event in only(await events_of(session), ContextTruncated)] == ["no_summary"]


async def test_a_summariser_that_nobody_knows_is_an_error_at_once():
    with pytest.raises(windlass.UsageError, match="no provider"):
        async with windlass.open(agents=[agent_of(summary_model="nowhere/nothing")]):
            pass


async def test_pinned_words_stay_verbatim_and_an_undo_brings_back_the_rest():
    agent = agent_of()
    async with windlass.open(agents=[agent]) as runtime:
        session = await runtime.session(agent, "s")
        await say(session, *FACTS, "x", "y")
        first = (await session.state()).history.items[0].seq
        await session.change(ChangePins(pin=(first,)))
        await forget(session)
        await say(session, "z")
        assert texts(requests(agent)[-1].items)[:2] == ["[Summary of the earlier conversation]\nan epitome", FACTS[0]]
        assert FACTS[1] not in texts(requests(agent)[-1].items)
        assert await session.page_in("harbour") == (), "what is pinned has not left"
        await session.undo_compact()
        await say(session, "all of it")
        assert texts(requests(agent)[-1].items)[0:4:2] == [FACTS[0], FACTS[1]]
        await sound(session)


# --- what is counted ---


async def test_pictures_and_documents_are_counted_in_prompts_and_in_results():
    picture = Image(media_type="image/png", data="aGVsbG8=", width=1_500, height=1_000)
    paper = Document(media_type="application/pdf", data="aGVsbG8=")

    @windlass.tool(contract="pure")
    def look() -> list[Image]:
        "A picture."
        return [picture]

    def answer(request):
        return "ok" if isinstance(request.items[-1], ResultItem) else call("look")

    agent = agent_of(answer, tools=[look])
    async with windlass.open(agents=[agent]) as runtime:
        session = await runtime.session(agent, "s")
        await session.prompt([Text(text="what is this?"), picture, paper])
        await session.result()
        events = await events_of(session)
        (prompt,), (result,) = only(events, PromptReceived), only(events, ToolFinished)
        assert prompt.tokens > 2_000 + 2_000
        assert result.tokens >= 2_000
        assert (await session.state()).history.tokens > 6_000


async def test_knowledge_is_shown_in_every_request_counted_and_never_compacted():
    agent = agent_of(knowledge=["the shop closes at six", "no refunds"])
    async with talked(agent) as session:
        state = await session.state()
        assert state.setup.knowledge_tokens > 5
        await say(session, "after")
        main = [request for request in requests(agent) if request.lane == "main"]
        assert {tuple(request.knowledge) for request in main} == {("the shop closes at six", "no refunds")}
        assert await session.page_in("refunds") == ()


# --- the task state ---


async def test_the_task_state_shows_all_that_is_kept_of_the_task():
    agent = agent_of(tools=["recall"])
    async with talked(agent) as session:
        task = Task(
            goal="reach the island",
            criteria=("before noon", "dry"),
            plan="take the ferry",
            current_step="buy a ticket",
            progress="at the harbour",
            scratchpad="nine crowns",
            blocked_on="the ticket office",
            todos=(Todo(todo_id="1", content="pay", status="in_progress"),),
        )
        await session.change(ChangeTask(task=task))
        await session.signal("storm", "it comes", urgency="low")
        await say(session, "go")
        shown = requests(agent)[-1].task_state.splitlines()
        assert shown[:9] == [
            "[task state]",
            "goal: reach the island",
            "criteria: before noon; dry",
            "plan: take the ferry",
            "current step: buy a ticket",
            "progress: at the harbour",
            "notes: nine crowns",
            "blocked on: the ticket office",
            "[~] pay",
        ]
        assert any(line.startswith("compactions: 1") for line in shown)


async def test_the_compaction_log_is_shown_only_where_there_is_one():
    agent = agent_of()
    async with windlass.open(agents=[agent]) as runtime:
        session = await runtime.session(agent, "s")
        await say(session, *FACTS, "x", "y")
        assert requests(agent)[-1].task_state == ""
        await forget(session)
        await say(session, "z")
        first = requests(agent)[-1].task_state
        assert "compactions: 1" in first
        (done,) = only(await events_of(session), CompactionFinished)
        assert f" 8 items summarised, {done.tokens_before} tokens became {done.tokens_after}" in first
        assert "recall" not in first, "it is not offered"
        await say(session, "zz")
        assert requests(agent)[-1].task_state == first, "it does not change from turn to turn"
        await session.undo_compact()
        await say(session, "zzz")
        assert requests(agent)[-1].task_state == ""
