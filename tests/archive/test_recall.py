"""The recall tool, and read_result for results that left the conversation."""

from __future__ import annotations

import re

import windlass
from tests.archive.talking import FACTS, agent_of, requests, say, talked
from tests.runtime.support import events_of, only, sound
from windlass.events.commands import PromptReceived
from windlass.events.sessions import SessionStarted
from windlass.events.tools.calls import ToolFinished, ToolRequested
from windlass.events.values.blocks import plain_text
from windlass.events.values.items import ResultItem
from windlass.runtime.context import archive_pager
from windlass.testing.scripted import call


def scripted(*calls):
    """Answers each prompt that begins with a number by that call, everything else by a word."""
    return answering(calls)


def answering(calls):
    """The same, with calls that are added later."""

    def answer(request):
        if request.lane == "compact":
            return "an epitome"
        last = request.items[-1]
        text = plain_text(last.content)
        return calls[int(text)] if not isinstance(last, ResultItem) and text.isdigit() else "noted"

    return answer


def result(agent) -> str:
    """What the last call gave to the model."""
    return plain_text(next(i for i in reversed(requests(agent)[-1].items) if isinstance(i, ResultItem)).content)


async def page_ids(session) -> list[str]:
    """The pages that left the conversation, by the prompts that they begin with."""
    return [f"p{record.seq}" async for record in session.records() if isinstance(record.event, PromptReceived)]


async def test_an_agent_recalls_what_it_forgot_by_words_and_by_id():
    agent = agent_of(scripted(call("recall", query="who keeps the lighthouse")), tools=["recall"])
    async with talked(agent) as session:
        await say(session, "0")
        first = result(agent)
        earliest, second, *_ = await page_ids(session)
        assert first == f"[page {second}]\nuser: {FACTS[1]}\nassistant: noted"
    agent = agent_of(scripted(call("recall", page_ids=[second, earliest])), tools=["recall"])
    async with talked(agent) as session:
        await say(session, "0")
        assert result(agent) == f"{first}\n\n[page {earliest}]\nuser: {FACTS[0]}\nassistant: noted"
        await sound(session)


async def test_a_recall_that_finds_nothing_says_so():
    agent = agent_of(
        scripted(call("recall", query="submarine"), call("recall", page_ids=["p999"]), call("recall")), tools=["recall"]
    )
    async with talked(agent) as session:
        await say(session, "0")
        assert result(agent) == "nothing that left this conversation holds 'submarine'"
        await say(session, "1")
        assert result(agent) == "nothing that left this conversation has the id p999"
        await say(session, "2")
        assert result(agent) == "say what to look for: give a query or page ids"
        assert [event.ok for event in only(await events_of(session), ToolFinished)] == [True, True, False]


async def test_recall_is_a_pure_reading_tool_whose_arguments_are_checked():
    agent = agent_of(scripted(call("recall", query=7), call("recall", query="x", limit=99)), tools=["recall"])
    async with talked(agent) as session:
        (began,) = only(await events_of(session), SessionStarted)
        (spec,) = began.setup.tools
        assert (spec.contract, spec.kind, spec.traits, spec.source) == ("pure", "read", ("read",), "builtin")
        assert began.setup.settings.archive
        for prompt in ("0", "1"):
            await say(session, prompt)
            assert "invalid arguments" in result(agent)


async def test_what_is_recalled_carries_the_labels_of_where_it_came_from():
    @windlass.tool(contract="pure", labels=["private"])
    def salary() -> str:
        "What she earns."
        return "nine hundred"

    agent = agent_of(scripted(call("salary"), call("recall", query="nine hundred")), tools=[salary, "recall"])
    async with talked(agent, prompts=("0", "x", "y", "z")) as session:
        await say(session, "1")
        assert "nine hundred" in result(agent)
        assert only(await events_of(session), ToolFinished)[-1].labels == ("private",)


async def test_what_recall_showed_is_not_archived_again():
    agent = agent_of(scripted(call("recall", query="lighthouse")), tools=["recall"])
    async with talked(agent) as session:
        await say(session, "0", "x", "y", "z")
        await session.compact()
        await session.wait_idle()
        pages = await session.page_in("lighthouse keeper")
        assert [page.page_id for page in pages] == [(await page_ids(session))[1], pages[1].page_id]
        assert "[recall showed earlier pages]" in pages[1].text, "that it was asked for is a page, not what it gave"
        assert FACTS[1] not in pages[1].text


async def test_recall_gives_a_small_model_little(monkeypatch):
    monkeypatch.setattr(archive_pager, "RECALL_SHARE", 8_000)
    agent = agent_of(scripted(call("recall", query="ferry harbour lighthouse")), tools=["recall"])
    async with talked(agent) as session:
        await say(session, "0")
        assert re.search(r"\[no room for p\d+, p\d+: ask for them by id\]$", result(agent))


async def test_a_result_that_left_the_conversation_is_still_read_page_by_page():
    lines = "".join(f"line {number}\n" for number in range(20_000))

    @windlass.tool(contract="pure")
    def big() -> str:
        "A large result."
        return lines

    calls = [call("big")]
    agent = agent_of(answering(calls), tools=[big, "read_result"])
    async with talked(agent, prompts=("0", "x", "y", "z")) as session:
        (big_id,) = [event.call_id for event in only(await events_of(session), ToolRequested)]
        assert all(ref.part != big_id for ref in (await session.state()).history.items)
        calls.append(call("read_result", call_id=big_id, offset=100_000, limit=20))
        await say(session, "1")
        head, _, page = result(agent).partition("\n")
        assert head == f"[bytes 100000 to 100020 of {len(lines)}; the next page begins at 100020]"
        assert page == lines[100_000:100_020]
