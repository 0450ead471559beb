"""Built-in tools by name: those of the kernel, and those that look things up in the session itself."""

from __future__ import annotations

import re

import pytest

import windlass
from windlass.events.live import UsageReported
from windlass.events.tasks import TaskChanged
from windlass.events.turns import PrefixChanged
from windlass.events.values.blocks import plain_text
from windlass.events.values.items import ResultItem
from windlass.testing.scripted import ScriptedModel, call

LINES = "".join(f"line {number}\n" for number in range(20_000))


@windlass.tool(contract="pure")
def big() -> str:
    "A large result."
    return LINES


@windlass.tool(contract="pure", deferred=True)
def postal_code(city: str) -> str:
    "Find the postal code of a city."
    return "1234"


def results(request):
    return {item.tool: plain_text(item.content) for item in request.items if isinstance(item, ResultItem)}


async def played(script, tools):
    model = ScriptedModel(script)
    agent = windlass.Agent("built", model=model, tools=tools)
    async with windlass.open(agents=[agent]) as runtime:
        session = await runtime.session(agent)
        async for _ in session.prompt("go"):
            pass
        return model, [record.event async for record in session.records()], await session.state()


async def test_a_large_result_is_shown_in_part_and_read_page_by_page():
    def read_on(request):
        shown = results(request)["big"]
        assert len(shown) < 6_000
        found = re.search(r"read_result with call_id '(\S+)'", shown)
        assert found is not None
        return [call("read_result", call_id=found[1], offset=100_000, limit=50)]

    model, _, _ = await played([[call("big")], read_on, "ok"], [big, "read_result"])
    page = results(model.requests[-1])["read_result"]
    head, _, text = page.partition("\n")
    assert head == f"[bytes 100000 to 100050 of {len(LINES)}; the next page begins at 100050]"
    assert text == LINES[100_000:100_050]


async def test_a_result_that_is_not_there_is_an_error_that_says_so():
    model, _, _ = await played([[call("read_result", call_id="c1.0")], "ok"], ["read_result"])
    assert results(model.requests[-1]) == {"read_result": "there is no result of call 'c1.0' in this conversation"}


@pytest.mark.parametrize("given", [(), ("load_tools",), ("search_tools", "load_tools")])
async def test_a_deferred_tool_is_found_loaded_and_then_offered(given):
    script = [
        [call("search_tools", query="postal code")],
        [call("load_tools", names=["postal_code"])],
        [call("postal_code", city="Bern")],
        "ok",
    ]
    model, events, _ = await played(script, [postal_code, *given])
    assert {tool.name for tool in model.requests[0].tools} == {"search_tools", "load_tools"}
    assert {tool.name for tool in model.requests[2].tools} == {"postal_code", "search_tools", "load_tools"}
    assert results(model.requests[-1]) == {
        "search_tools": "postal_code: Find the postal code of a city.",
        "load_tools": "loaded: postal_code",
        "postal_code": "1234",
    }
    assert [event.reasons for event in events if isinstance(event, PrefixChanged)] == [("tools",)]


async def test_a_tool_that_is_not_loaded_is_not_run():
    model, _, _ = await played([[call("postal_code", city="Bern")], "ok"], [postal_code, "load_tools"])
    assert "load 'postal_code' before calling it" in results(model.requests[-1])["postal_code"]


async def test_todos_become_the_task_state_that_the_model_sees_last():
    todos = [{"todo_id": "1", "content": "buy milk", "status": "in_progress"}]
    model, events, state = await played([[call("todo", todos=todos)], "ok"], ["todo"])
    assert any(isinstance(event, TaskChanged) for event in events)
    assert state.task.current.todos[0].content == "buy milk"
    assert model.requests[0].task_state == ""
    assert "[~] buy milk" in model.requests[1].task_state


@pytest.mark.parametrize("name", ["ask_user", "todo", "plan", "task", "complete_task", "wait", "load_tools"])
async def test_wrong_arguments_of_a_kernel_tool_are_named(name):
    model, _, _ = await played([[call(name, nonsense=1)], "ok"], [name])
    assert "invalid arguments" in results(model.requests[-1])[name]


def test_an_unknown_name_lists_the_known_ones():
    agent = windlass.Agent("x", model=ScriptedModel([]), tools=["reed"])
    with pytest.raises(windlass.UsageError, match=r"no built-in tool 'reed': there are .*read_result"):
        _ = agent.toolset


async def test_watchers_are_told_how_full_the_context_is():
    agent = windlass.Agent("x", model=ScriptedModel([[call("big")], "hello"]), tools=[big])
    async with windlass.open(agents=[agent]) as runtime:
        session = await runtime.session(agent)
        told = [event async for event in session.prompt("hi") if isinstance(event, UsageReported)]
    assert [(event.usage.output_tokens, event.items) for event in told] == [(10, 2)], "after the first of two replies"
    assert 0 < told[0].context_tokens < told[0].window_tokens
