"""A session may begin with a history from elsewhere, and only with one that a provider would take."""

from __future__ import annotations

from typing import Any

import pytest

import windlass
from windlass.events.values.blocks import Text
from windlass.events.values.items import AssistantItem, CallPart, ResultItem, UserItem
from windlass.models.convert import import_history
from windlass.testing import ModelServer, ScriptedModel

MESSAGES: list[dict[str, Any]] = [
    {"role": "user", "content": "What is 17 + 28?"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "call_1", "type": "function", "function": {"name": "add", "arguments": '{"x":17,"y":28}'}}
        ],
    },
    {"role": "tool", "tool_call_id": "call_1", "content": "45"},
    {"role": "assistant", "content": "45"},
]


async def test_the_model_sees_the_imported_history_before_the_prompt(tmp_path):
    path = str(tmp_path / "work.db")
    model = ScriptedModel(["yes", "still"])
    agent = windlass.Agent("math", model=model)
    async with windlass.open(path, agents=[agent]) as runtime:
        session = await runtime.session(agent, "s", history=import_history(MESSAGES).items)
        await session.prompt("Is that right?")
        assert (await session.result()).text == "yes"
    kinds = [type(item).__name__ for item in model.requests[0].items]
    assert kinds == ["UserItem", "AssistantItem", "ResultItem", "AssistantItem", "UserItem"]
    async with windlass.open(path, agents=[agent]) as runtime:
        session = await runtime.session(agent, "s")
        await session.prompt("And now?")
        assert (await session.result()).text == "still"
    assert model.requests[1].items[:5] == model.requests[0].items


async def test_a_validating_provider_takes_an_imported_history(monkeypatch):
    async with ModelServer(script=["fine"]) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url("openai"))
        monkeypatch.setenv("OPENAI_API_KEY", "sk-imported")
        agent = windlass.Agent("math", model="openai/gpt-4o-mini")
        async with windlass.open(agents=[agent]) as runtime:
            session = await runtime.session(agent, history=import_history(MESSAGES).items)
            await session.prompt("Is that right?")
            assert (await session.result()).text == "fine"
        assert server.refusals == []


SAID = UserItem(content=(Text(text="hi"),))
CALLED = AssistantItem(content=(CallPart(call_id="a", tool="f", args={}),))
RESULT = ResultItem(call_id="a", tool="f", content=(Text(text="r"),))


@pytest.mark.parametrize(
    ("items", "complaint"),
    [
        ([SAID, CALLED], "ends without results for a"),
        ([SAID, CALLED, SAID], "imported item 2: a must have a result first"),
        ([SAID, RESULT], "imported item 1: a result for 'a', which is not waiting for one"),
        ([SAID, CALLED, RESULT, RESULT], "imported item 3: a result for 'a'"),
    ],
)
async def test_a_history_that_no_provider_would_take_is_refused(items, complaint):
    agent = windlass.Agent("math", model=ScriptedModel([]))
    async with windlass.open(agents=[agent]) as runtime:
        with pytest.raises(windlass.UsageError, match=complaint):
            await runtime.session(agent, history=items)
