"""Chat completions by the public `openai` client: a whole history finds its session, and nothing happens twice."""

from __future__ import annotations

import asyncio
import json
import pathlib
from typing import Any

import openai
import pytest

import windlass
from tests.adapters.served_agents import teller
from tests.server.support import Running, serving
from windlass.adapters.openai import chat_thread
from windlass.adapters.openai.mount import MOUNT
from windlass.events.values.blocks import plain_text
from windlass.events.values.items import UserItem
from windlass.testing.scripted import ScriptedModel, call, fail

from .test_sdk import client_of

LOOK_UP: Any = [{"type": "function", "function": {"name": "look_up", "parameters": {"type": "object"}}}]


def user(text: str) -> Any:
    return {"role": "user", "content": text}


async def said(client: openai.AsyncOpenAI, messages: list[Any], **more: Any) -> dict[str, Any]:
    """The message of the answer, as clients keep it, which joins the history."""
    answer = await client.chat.completions.create(model="teller", messages=messages, **more)
    message: dict[str, Any] = answer.choices[0].message.model_dump(exclude_none=True)
    messages.append(message)
    return message


def result(message: dict[str, Any], content: str) -> dict[str, Any]:
    (asked,) = message["tool_calls"]
    return {"role": "tool", "tool_call_id": asked["id"], "content": content}


async def sessions(running: Running) -> list[Any]:
    found: list[Any] = (await running.client().get("/v1/sessions"))["sessions"]
    return found


async def prompts(running: Running, session: str) -> int:
    records = await running.client().records(session)
    return sum(record["event"]["type"] == "prompt.received" for record in records)


async def test_a_conversation_with_a_tool_of_the_client_and_an_approval_is_one_session(tmp_path: pathlib.Path):
    messages: list[Any] = [{"role": "system", "content": "Be brief."}, user("Pay the invoice.")]
    async with serving(tmp_path, [teller], mounts=[MOUNT]) as running, client_of(running) as client:
        wanted = await said(client, messages, tools=LOOK_UP)
        assert wanted["content"] == "One moment."
        assert wanted["tool_calls"][0]["function"]["name"] == "look_up"
        messages.append(result(wanted, "it is ours"))
        asked = await said(client, messages, tools=LOOK_UP)
        function = asked["tool_calls"][0]["function"]
        assert (function["name"], json.loads(function["arguments"])["detail"]["args"]) == (
            "request_approval",
            {"amount": 3},
        )
    async with serving(tmp_path, [teller], mounts=[MOUNT]) as running, client_of(running) as client:
        messages.append(result(asked, '{"approved": true}'))
        paid = await said(client, messages, tools=LOOK_UP)
        assert paid["content"] == "It is so: paid 3."
        messages.append(user("Thanks."))
        assert (await said(client, messages, tools=LOOK_UP))["content"] == "heard Thanks."
        (session,) = await sessions(running)
        records = await running.client().records(session["session"])
        told = [one["event"]["body"]["text"] for one in records if one["event"]["type"] == "instructions.rendered"]
        assert told == ["You are a teller.\n\nBe brief."]


async def test_the_same_request_is_answered_again_and_carried_out_once(tmp_path: pathlib.Path):
    async with serving(tmp_path, [teller], mounts=[MOUNT]) as running, client_of(running) as client:
        first = await client.chat.completions.create(model="teller", messages=[user("Pay it.")])
        again = await client.chat.completions.create(model="teller", messages=[user("Pay it.")])
        assert again == first
        asked = first.choices[0].message.model_dump(exclude_none=True)
        yes = [user("Pay it."), asked, result(asked, "approve")]
        answers = [await said(client, list(yes)) for _ in range(2)]
        assert answers[0] == answers[1] == {"role": "assistant", "content": "It is so: paid 3."}
        (session,) = await sessions(running)
        kinds = [one["event"]["type"] for one in await running.client().records(session["session"])]
        assert (kinds.count("prompt.received"), kinds.count("tool.finished")) == (1, 1)


async def test_a_history_that_goes_on_otherwise_is_a_fork_and_one_from_elsewhere_a_session(tmp_path: pathlib.Path):
    messages: list[Any] = [user("Hello.")]
    async with serving(tmp_path, [teller], mounts=[MOUNT]) as running, client_of(running) as client:
        await said(client, messages)
        one, other = [*messages, user("One.")], [*messages, user("Other.")]
        for history, text in ((one, "heard One."), (other, "heard Other.")):
            assert (await said(client, history))["content"] == text
        found = await sessions(running)
        assert len(found) == 2
        assert [await prompts(running, row["session"]) for row in found] == [2, 2]
        for history in (one, other):
            history.append(user("More."))
            await said(client, history)
        assert len(await sessions(running)) == 2
        foreign = [user("Hello."), {"role": "assistant", "content": "I never said this."}, user("Well?")]
        assert (await said(client, foreign))["content"] == "heard Well?"
        foreign.append(user("And?"))
        assert (await said(client, foreign))["content"] == "heard And?"
        assert len(await sessions(running)) == 3


def words(request: Any) -> str:
    """What a person has said in a conversation, all of it."""
    return " | ".join(plain_text(item.content) for item in request.items if isinstance(item, UserItem))


async def test_clients_that_say_different_things_to_one_history_at_once_do_not_hear_each_other(tmp_path: pathlib.Path):
    echo = windlass.Agent("teller", ScriptedModel(words))
    async with serving(tmp_path, [echo], mounts=[MOUNT]) as running, client_of(running) as client:
        history: list[Any] = [user("Hello.")]
        await said(client, history)
        more = [[*history, user(f"I am {at}.")] for at in range(4)]
        heard = await asyncio.gather(*(said(client, one) for one in more))
        assert [one["content"] for one in heard] == [f"Hello. | I am {at}." for at in range(4)]
        assert len(await sessions(running)) == 4, "one goes on, the others are forks"

        first = await client.responses.create(model="teller", input="Hello.")
        says = [
            client.responses.create(model="teller", input=f"I am {at}.", previous_response_id=first.id)
            for at in range(4)
        ]
        assert [one.output_text for one in await asyncio.gather(*says)] == [f"Hello. | I am {at}." for at in range(4)]


async def test_a_question_that_is_asked_again_much_later_is_asked_anew(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
):
    async with serving(tmp_path, [teller], mounts=[MOUNT]) as running, client_of(running) as client:
        monkeypatch.setattr(chat_thread, "REPEAT_MS", 0)
        for count in (1, 2, 3):
            await said(client, [user("Hello.")])
            assert len(await sessions(running)) == count


async def test_a_run_that_failed_is_tried_anew_by_the_same_request(tmp_path: pathlib.Path):
    turns: list[Any] = [fail("invalid_request", "the provider says no"), "Here I am.", "Going on."]
    model = ScriptedModel(lambda request: turns.pop(0))
    agent = windlass.Agent("teller", model=model)
    async with serving(tmp_path, [agent], mounts=[MOUNT]) as running, client_of(running) as client:
        messages: list[Any] = [user("Hello.")]
        with pytest.raises(openai.InternalServerError) as failed:
            await said(client, messages)
        assert failed.value.code == "run_failed"
        assert (await said(client, messages))["content"] == "Here I am."
        messages.append(user("Go on."))
        assert (await said(client, messages))["content"] == "Going on."
        assert len(await sessions(running)) == 2


async def test_a_run_that_failed_behind_a_result_is_resumed_by_the_same_request(tmp_path: pathlib.Path):
    no = fail("invalid_request", "the provider says no")
    turns: list[Any] = [call("look_up", name="x"), no, no, "Found.", "Going on."]
    agent = windlass.Agent("teller", model=ScriptedModel(lambda request: turns.pop(0)), policy=windlass.ALLOW_ALL)
    async with serving(tmp_path, [agent], mounts=[MOUNT]) as running, client_of(running) as client:
        messages: list[Any] = [user("Hello.")]
        messages.append(result(await said(client, messages, tools=LOOK_UP), "here"))
        for _ in range(2):
            with pytest.raises(openai.InternalServerError):
                await said(client, messages, tools=LOOK_UP)
        assert (await said(client, list(messages), tools=LOOK_UP))["content"] == "Found."
        assert (await said(client, messages, tools=LOOK_UP))["content"] == "Found."
        messages.append(user("Go on."))
        assert (await said(client, messages, tools=LOOK_UP))["content"] == "Going on."
        assert len(await sessions(running)) == 1


async def test_a_stream_adds_up_to_the_same_message(tmp_path: pathlib.Path):
    async with serving(tmp_path, [teller], mounts=[MOUNT]) as running, client_of(running) as client:
        messages: list[Any] = [user("Pay it.")]
        options: Any = {"stream": True, "stream_options": {"include_usage": True}}
        stream = await client.chat.completions.create(model="teller", messages=messages, tools=LOOK_UP, **options)
        chunks = [chunk async for chunk in stream]
        deltas = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
        whole = await client.chat.completions.create(model="teller", messages=messages, tools=LOOK_UP)
        assert "".join(delta.content or "" for delta in deltas) == whole.choices[0].message.content == "One moment."
        (call,) = [call for delta in deltas for call in delta.tool_calls or ()]
        kept = (whole.choices[0].message.tool_calls or [])[0]
        assert call.model_dump(exclude={"index"}) == kept.model_dump()
        assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == "tool_calls"
        assert chunks[-1].usage == whole.usage
        failing: Any = await client.chat.completions.create(
            model="teller",
            messages=[user("Fail.")],
            stream=True,
        )
        with pytest.raises(openai.APIError, match="the provider says no"):
            await read(failing)


async def read(stream: Any) -> None:
    async for _ in stream:
        continue


async def test_what_means_nothing_is_refused_and_only_who_approves_may_approve(tmp_path: pathlib.Path):
    async with serving(tmp_path, [teller], mounts=[MOUNT]) as running, client_of(running) as client:
        hello: Any = [user("Hello.")]
        wrong: list[tuple[dict[str, Any], str]] = [
            ({"messages": []}, "messages"),
            ({"messages": [*hello, {"role": "assistant", "content": "Yes?"}]}, "messages"),
            ({"messages": [{"role": "critic", "content": "Hm."}]}, "messages[0].role"),
            ({"messages": [*hello, {"role": "assistant", "tool_calls": ["c1"]}, *hello]}, "messages[1].tool_calls"),
            ({"messages": [*hello, {"role": "assistant", "tool_calls": 5}, *hello]}, "messages[1].tool_calls"),
            ({"messages": hello, "n": 2}, "n"),
            ({"messages": hello, "response_format": {"type": "json_object"}}, "response_format"),
            ({"messages": hello, "tools": [{"type": "web_search"}]}, "tools[0]"),
        ]
        for request, param in wrong:
            with pytest.raises(openai.BadRequestError) as refused:
                await client.chat.completions.create(model="teller", **request)
            assert refused.value.param == param
        assert await sessions(running) == []
        messages: list[Any] = [user("Pay it.")]
        driver = client_of(running, "drive")
        asked = await said(driver, messages)
        with pytest.raises(openai.PermissionDeniedError):
            await said(driver, [*messages, result(asked, "approve")])
        with pytest.raises(openai.BadRequestError):
            await said(driver, [*messages, user("Go ahead, I say!")])
        stranger = result(asked, "approve") | {"tool_call_id": "call_x:p1"}
        with pytest.raises(openai.BadRequestError):
            await said(driver, [*messages, stranger])
        await driver.close()
