"""A tool that asks a person while it runs holds its run up: each adapter tells its client so, instead of waiting for an
end that comes only with an answer; and the answer is one exchange more, in which the same call goes on."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Sequence
from typing import Any

import openai
import pytest

import windlass
from tests.adapters.a2a.test_tasks import asked as asked_a2a
from tests.adapters.a2a.test_tasks import said as message
from tests.adapters.a2a.test_tasks import sent, streamed
from tests.adapters.agui.support import interrupts, resume, run, text
from tests.adapters.agui.support import user as words_of
from tests.adapters.openai.test_chat import result, said, user
from tests.adapters.openai.test_sdk import client_of, item, yes
from tests.server.support import Running, clerk, serving
from windlass.adapters.a2a.mount import MOUNT as A2A
from windlass.adapters.agui.mount import MOUNT as AGUI
from windlass.adapters.openai.mount import MOUNT as OPENAI
from windlass.testing.scripted import ScriptedModel, by_history, call


class Shop:
    """An agent whose tools ask while they run; `orders` is what they did."""

    def __init__(self, *calls: Any) -> None:
        self.orders: list[str] = []
        self.agent = windlass.Agent(
            "teller",
            ScriptedModel(by_history([[*calls] or call("order"), "It is ordered.", "You are welcome."])),
            tools=self._tools(),
        )

    def _tools(self) -> list[Any]:
        @windlass.tool(contract="idempotent")
        async def order(ctx: windlass.ToolContext) -> str:
            """Orders a shirt."""
            self.orders.append("begun")
            answer = await ctx.ask("Which size?", options=["S", "L"])
            chosen = answer.body.answers[0]
            self.orders.append(chosen.text or chosen.selected[0])
            return f"ordered {self.orders[-1]}"

        @windlass.tool(contract="pure")
        def count() -> str:
            """Counts shirts."""
            return "12"

        return [order, count]


async def kinds(running: Running, session: str, *wanted: str) -> list[str]:
    records = await running.client().records(session)
    return [one["event"]["type"] for one in records if one["event"]["type"] in wanted]


@pytest.mark.parametrize("calls", [(), (call("order"), call("count"))])
async def test_a_chat_is_given_the_question_and_goes_on_with_the_answer(tmp_path: pathlib.Path, calls: Sequence[Any]):
    shop = Shop(*calls)
    async with serving(tmp_path, [shop.agent], mounts=[OPENAI]) as running, client_of(running) as client:
        messages = [user("A shirt.")]
        asked = await said(client, messages)
        (wanted,) = asked["tool_calls"]
        assert wanted["function"]["name"] == "ask_user"
        assert json.loads(wanted["function"]["arguments"])["questions"][0]["question"] == "Which size?"
        assert await said(client, [user("A shirt.")]) == asked, "the same request finds the same answer"
        messages.append(result(asked, "L"))
        assert (await said(client, messages))["content"] == "It is ordered."
        assert (await said(client, messages[:3]))["content"] == "It is ordered."
        assert shop.orders == ["begun", "L"]


async def test_a_tool_that_was_cut_off_asks_anew_and_the_same_request_finds_its_question(tmp_path: pathlib.Path):
    shop = Shop()
    messages = [user("A shirt.")]
    async with serving(tmp_path, [shop.agent], mounts=[OPENAI]) as running, client_of(running) as client:
        asked = await said(client, list(messages))
        response = await client.responses.create(model="teller", input="A shirt.")
    async with serving(tmp_path, [shop.agent], mounts=[OPENAI]) as running, client_of(running) as client:
        before = asked["tool_calls"][0]["id"]
        while (again := await said(client, list(messages)))["tool_calls"][0]["id"] == before:
            continue  # until the session is resumed
        with pytest.raises(openai.ConflictError, match="send the history before it again"):
            await said(client, [*messages, asked, result(asked, "S")])
        assert (await said(client, [*messages, again, result(again, "L")]))["content"] == "It is ordered."
        before = item(response, "function_call").call_id
        while (now := item(await client.responses.retrieve(response.id), "function_call")).call_id == before:
            continue
        output: Any = [{"type": "function_call_output", "call_id": now.call_id, "output": "S"}]
        done = await client.responses.create(model="teller", previous_response_id=response.id, input=output)
        assert done.output_text == "It is ordered."
        assert sorted(shop.orders) == ["L", "S", *["begun"] * 4]


async def test_a_stream_of_a_chat_ends_with_the_question(tmp_path: pathlib.Path):
    shop = Shop()
    async with serving(tmp_path, [shop.agent], mounts=[OPENAI]) as running, client_of(running) as client:
        chunks = await client.chat.completions.create(model="teller", messages=[user("A shirt.")], stream=True)
        finished = [chunk.choices[0].finish_reason async for chunk in chunks if chunk.choices]
        assert finished[-1] == "tool_calls"


async def test_a_response_is_given_the_question_and_goes_on_with_the_answer(tmp_path: pathlib.Path):
    shop = Shop()
    async with serving(tmp_path, [shop.agent], mounts=[OPENAI]) as running, client_of(running) as client:
        asked = await client.responses.create(model="teller", input="A shirt.")
        wanted = item(asked, "function_call")
        assert (asked.status, wanted.name) == ("completed", "ask_user")
        assert (await client.responses.retrieve(asked.id)).output == asked.output
        output: Any = [{"type": "function_call_output", "call_id": wanted.call_id, "output": "S"}]
        more: Any = {"model": "teller", "previous_response_id": asked.id, "input": output}
        done = await client.responses.create(**more)
        assert (done.output_text, item(done, "mcp_call").output) == ("It is ordered.", "ordered S")
        assert (await client.responses.create(**more)).output == done.output
        assert (await client.responses.retrieve(asked.id)).output == asked.output
        assert shop.orders == ["begun", "S"]
        thanks = await client.responses.create(model="teller", previous_response_id=done.id, input="Thanks.")
        assert thanks.output_text == "You are welcome."


async def test_a_stream_of_a_response_ends_with_the_question(tmp_path: pathlib.Path):
    shop = Shop()
    async with serving(tmp_path, [shop.agent], mounts=[OPENAI]) as running, client_of(running) as client:
        stream = await client.responses.create(model="teller", input="A shirt.", stream=True)
        assert [event.type async for event in stream][-1] == "response.completed"


async def test_a_no_behind_a_yes_is_told_what_came_first(tmp_path: pathlib.Path):
    async with serving(tmp_path, [clerk()], mounts=[OPENAI]) as running, client_of(running) as client:
        asked = await client.responses.create(model="clerk", input="Pay.")
        request = item(asked, "mcp_approval_request").id
        more: Any = {"model": "clerk", "previous_response_id": asked.id}
        paid = await client.responses.create(input=yes(request), **more)
        assert (await client.responses.create(input=yes(request), **more)).output == paid.output
        no: Any = [{**yes(request)[0], "approve": False}]
        with pytest.raises(openai.ConflictError, match="approved"):
            await client.responses.create(input=no, **more)


async def test_a_task_needs_input_and_goes_on_with_it(tmp_path: pathlib.Path):
    shop = Shop()
    async with serving(tmp_path, [shop.agent], mounts=[A2A]) as running:
        client = running.client()
        task = await sent(client, {"text": "A shirt."})
        assert task["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
        assert "Which size?" in task["status"]["message"]["parts"][0]["text"]
        assert (await asked_a2a(client, "GetTask", {"id": task["id"]})).json["result"] == task
        done = await sent(client, {"text": "L"}, name="m2", taskId=task["id"])
        assert (done["status"]["state"], done["artifacts"][0]["parts"][0]["text"]) == (
            "TASK_STATE_COMPLETED",
            "It is ordered.",
        )
        assert shop.orders == ["begun", "L"]


async def test_a_stream_of_a_task_ends_when_it_needs_input(tmp_path: pathlib.Path):
    shop = Shop()
    async with serving(tmp_path, [shop.agent], mounts=[A2A]) as running:
        told = message("m1", {"text": "A shirt."}, contextId="march")
        async with streamed(running.client(), "SendStreamingMessage", told) as updates:
            states = [one["statusUpdate"]["status"]["state"] async for one in updates if "statusUpdate" in one]
        assert states == ["TASK_STATE_WORKING", "TASK_STATE_INPUT_REQUIRED"]


async def test_a_thread_is_interrupted_and_goes_on_with_the_answer(tmp_path: pathlib.Path):
    shop = Shop()
    async with serving(tmp_path, [shop.agent], mounts=[AGUI]) as running:
        client = running.client()
        shirt = words_of("u1", "A shirt.")
        (asked,) = interrupts(await run(client, shirt))
        assert (asked["reason"], asked["message"]) == ("input_required", "Which size?")
        assert interrupts(await run(client, shirt)) == [asked], "a run that says nothing new is told where it stands"
        answer = resume(asked["id"], {"answer": "S"})
        events = await run(client, shirt, resume=answer)
        assert (text(events), events[-1]["outcome"]) == ("It is ordered.", {"type": "success"})
        again = await run(client, shirt)
        assert (text(again), again[-1]["outcome"]) == ("It is ordered.", {"type": "success"})
        assert shop.orders == ["begun", "S"]
        assert await kinds(running, "march", "run.started", "run.completed") == ["run.started", "run.completed"]
