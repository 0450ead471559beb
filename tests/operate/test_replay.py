"""A session run again and compared with what it was."""

from __future__ import annotations

from dataclasses import replace as changed

import pytest

import windlass
from windlass.events.errors import UsageError
from windlass.events.turns import ModelReplied
from windlass.events.values.items import HistoryItem, ResultItem
from windlass.models.base import Request
from windlass.runtime.api.agent import Agent
from windlass.runtime.api.runtime import Runtime
from windlass.runtime.operate.item_text import blocks_text
from windlass.runtime.operate.log_point import read_point
from windlass.runtime.operate.replay import ReplayPlan, WithinRun, replay
from windlass.store import MemoryStore
from windlass.store.base import Key
from windlass.testing.scripted import ScriptedModel, by_history, call
from windlass.tools.context import ToolError
from windlass.tools.planes.results import INLINE_MEDIA_BYTES

from .support import DONE, paid, payer, sessions

PICTURE = b"\x89PNG\r\n\x1a\n" + bytes(INLINE_MEDIA_BYTES)
GIVES = {
    "int": 42,
    "list": [1, "two", None],
    "dict": {"b": 1, "a": [True]},
    "none": None,
    "text": "words",
    "large": "line\n" * 40_000,
    "rows": [{"row": row, "text": "x" * 40} for row in range(4_000)],
    "picture": PICTURE,
}


@windlass.tool
def give(what: str) -> object:
    "Give something of some kind."
    if what == "error":
        raise ToolError("no such thing", code="none", hint="ask for another")
    return GIVES[what]


def results(items: list[HistoryItem]) -> list[ResultItem]:
    return [item for item in items if isinstance(item, ResultItem)]


def giver(what: str, seen: list[Request]) -> Agent:
    turns = by_history([[call("give", what=what)], "Done."])

    def answer(request: Request):
        seen.append(request)
        return turns(request)

    return Agent("giver", model=ScriptedModel(answer), tools=[give, "read_result"])


@pytest.mark.parametrize("what", [*GIVES, "error"])
async def test_a_tool_gives_the_model_what_it_gave_then_whatever_that_was(what):
    store, seen = MemoryStore(), list[Request]()
    async with Runtime(store, agents=[agent := giver(what, [])]) as runtime:
        session = await runtime.session(agent, "then")
        await session.prompt("Give it.")
        await session.result()
    whole = await read_point(store, Key("default", "then"))
    again = await replay(store, whole, giver(what, seen), ReplayPlan(session_id="again"))
    (then,), (now,) = results(whole.items()), results(seen[-1].items)
    assert (now.content, now.is_error) == (then.content, then.is_error)
    assert again.comparison.same
    assert then.is_error is (what == "error")
    await store.close()


@pytest.mark.parametrize(
    ("what", "shown"),
    [("int", "42"), ("list", '[1, "two", null]'), ("dict", '{"b": 1, "a": [true]}'), ("none", "(no result)")],
)
async def test_people_are_shown_what_a_tool_gave_as_data(what, shown):
    store = MemoryStore()
    async with Runtime(store, agents=[agent := giver(what, [])]) as runtime:
        session = await runtime.session(agent, "then")
        await session.prompt("Give it.")
        await session.result()
    (given,) = results((await read_point(store, Key("default", "then"))).items())
    assert blocks_text(given.content) == shown
    await store.close()


async def test_the_same_agent_goes_as_before_and_pays_nothing():
    async with sessions() as store:
        whole = await read_point(store, DONE)
        again = await replay(store, whole, payer(), ReplayPlan(session_id="again"))
        metadata = (await read_point(store, Key("default", "again"))).overview.metadata
    assert (again.replayed, again.session, again.items, again.strayed) == ("done", "again", 4, False)
    assert again.comparison.same
    assert again.comparison.difference("then", "now") == []
    assert metadata == {"replay_of": "done", "replay_at": "0"}
    assert paid == [7]


async def test_another_model_is_compared_line_by_line():
    async with sessions() as store:
        whole = await read_point(store, DONE)
        again = await replay(store, whole, payer([call("pay", cents=7)], "Paid."), ReplayPlan())
    assert not again.comparison.same
    assert again.comparison.difference("then", "now")[-2:] == ["-  Done: 7.", "+  Paid."]


async def test_up_to_the_point_the_model_says_what_it_said_then():
    async with sessions() as store:
        whole = await read_point(store, DONE)
        replied = next(seq for seq, event in whole.events.items() if isinstance(event, ModelReplied))
        again = await replay(store, whole, payer([call("pay", cents=8)], "Paid."), ReplayPlan(at_seq=replied))
    assert again.comparison.difference("then", "now")[-2:] == ["-  Done: 7.", "+  Paid."]
    assert not again.strayed


async def test_what_was_said_then_does_not_follow_another_history():
    async with sessions() as store:
        whole = await read_point(store, DONE)
        last = max(seq for seq, event in whole.events.items() if isinstance(event, ModelReplied))
        plan = ReplayPlan(at_seq=last)
        agent = changed(payer([call("pay", cents=7)], "Paid."), tools=[])
        again = await replay(store, whole, agent, plan)
    assert again.strayed


async def test_a_live_replay_pays_and_does_not_begin_within_a_run():
    async with sessions() as store:
        whole = await read_point(store, DONE)
        await replay(store, whole, payer(), ReplayPlan(live=True))
        assert paid == [7, 7]
        replied = next(seq for seq, event in whole.events.items() if isinstance(event, ModelReplied))
        with pytest.raises(WithinRun) as refused:
            await replay(store, whole, payer(), ReplayPlan(at_seq=replied, live=True))
        assert 0 < refused.value.rest_seq < replied


async def test_behind_the_last_prompt_there_is_nothing_to_run_again():
    async with sessions() as store:
        whole = await read_point(store, DONE)
        with pytest.raises(UsageError, match="there is nothing to run again"):
            await replay(store, whole, payer(), ReplayPlan(at_seq=whole.seq))
