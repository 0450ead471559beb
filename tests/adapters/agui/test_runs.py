"""Runs over HTTP: what counts as new, who may answer, what is refused, and what a client is told that lacks something."""

from __future__ import annotations

import pathlib
from typing import Any

import windlass
from tests.adapters.served_agents import teller
from tests.server.support import clerk, serving
from windlass.adapters.agui.mount import MOUNT
from windlass.store.base import Key
from windlass.testing.scripted import ScriptedModel, by_history, call, think, turn

from .support import asked_to_run, interrupts, resume, run, text, user

YES = {"approved": True}


async def test_a_call_is_denied_and_the_agent_hears_why(tmp_path: pathlib.Path):
    async with serving(tmp_path, [teller], mounts=[MOUNT]) as running:
        client = running.client()
        (asked,) = interrupts(await run(client, user("u1", "Pay.")))
        assert (asked["reason"], asked["metadata"]["tool"]) == ("tool_call", "pay")
        said = {"approved": False, "feedback": "too much"}
        events = await run(client, user("u1", "Pay."), resume=resume(asked["id"], said))
        assert "too much" in text(events)
        (given,) = [event for event in events if event["type"] == "TOOL_CALL_RESULT"]
        assert (given["toolCallId"], given["content"]) == (asked["toolCallId"], "a person denied this")


async def test_an_interrupt_that_is_given_up_is_a_no(tmp_path: pathlib.Path):
    async with serving(tmp_path, [teller], mounts=[MOUNT]) as running:
        client = running.client()
        (asked,) = interrupts(await run(client, user("u1", "Pay.")))
        await run(client, user("u1", "Pay."), resume=resume(asked["id"], status="cancelled"))
        kinds = [one["event"]["type"] for one in await client.records("march")]
        assert ("permission.denied" in kinds, "tool.started" in kinds) == (True, False)


async def test_a_message_is_taken_once_however_often_it_is_sent(tmp_path: pathlib.Path):
    async with serving(tmp_path, [teller], mounts=[MOUNT]) as running:
        client = running.client()
        first = await run(client, user("u1", "Hello."))
        again = await run(client, user("u1", "Hello."), runId="another")
        assert text(again) == text(first) == "heard Hello."
        assert [event["type"] for event in again[:2]] == ["RUN_STARTED", "MESSAGES_SNAPSHOT"]
        assert again[1]["messages"] == [user("u1", "Hello.")]
        records = await client.records("march")
        assert [one["event"]["type"] for one in records].count("prompt.received") == 1


async def test_a_thread_whose_beginning_was_cut_off_is_begun_by_the_next_run(tmp_path: pathlib.Path):
    async with windlass.open(str(tmp_path / "store.db")) as killed:
        await killed.store.log.create(Key("default", "march"))  # all that a kill between the two writes leaves
    async with serving(tmp_path, [teller], mounts=[MOUNT]) as running:
        client = running.client()
        assert (await client.ask("GET", "/v1/sessions/march/result")).status == 404
        assert text(await run(client, user("u1", "Hello."))) == "heard Hello."


async def test_an_answer_is_taken_once_and_one_that_comes_too_late_is_passed_over(tmp_path: pathlib.Path):
    async with serving(tmp_path, [teller], mounts=[MOUNT]) as running:
        client = running.client()
        (asked,) = interrupts(await run(client, user("u1", "Pay.")))
        answer = {"decision": "approve", "digest": asked["metadata"]["digest"]}
        await client.post(f"/v1/sessions/march/requests/{asked['id']}", answer)
        await client.get("/v1/sessions/march/result?wait_s=60")
        for _ in range(2):
            told = await run(client, user("u1", "Pay."), resume=resume(asked["id"], {"approved": False}))
            assert text(told) == "It is so: paid 3."
        kinds = [one["event"]["type"] for one in await client.records("march")]
        assert (kinds.count("tool.finished"), "permission.denied" in kinds) == (1, False)


async def test_whoever_may_only_drive_cannot_approve_nor_use_up_the_id_of_an_answer(tmp_path: pathlib.Path):
    async with serving(tmp_path, [teller], mounts=[MOUNT]) as running:
        driver = running.client("drive")
        (asked,) = interrupts(await run(driver, user("u1", "Pay.")))
        before = await running.client().records("march")
        said = await asked_to_run(driver, user("u1", "Pay."), resume=resume(asked["id"], YES))
        assert (said.status, said.code) == (403, "role")
        name = f"agui:a:{asked['id']}"
        prompt = {"type": "prompt.received", "body": {"content": [{"type": "text", "text": "Hi"}]}}
        said = await driver.ask("POST", "/v1/sessions/march/commands", json=prompt, headers={"Idempotency-Key": name})
        assert said.status == 400
        assert await running.client().records("march") == before


async def test_words_that_do_not_answer_what_is_asked_are_refused(tmp_path: pathlib.Path):
    async with serving(tmp_path, [teller], mounts=[MOUNT]) as running:
        client = running.client()
        (asked,) = interrupts(await run(client, user("u1", "Pay.")))
        before = await client.records("march")
        said = await asked_to_run(client, user("u1", "Pay."), user("u2", "Well?"))
        assert (said.status, said.code) == (409, "asked")
        assert asked["id"] in said.json["detail"]
        said = await asked_to_run(client, user("u1", "Pay."), resume=resume(asked["id"], {"approved": "yes"}))
        assert (said.status, said.json["path"]) == (422, "$.resume[0].payload.approved")
        assert await client.records("march") == before


async def test_what_means_nothing_is_refused_where_it_stands(tmp_path: pathlib.Path):
    image = {"type": "video", "source": {"type": "data", "value": "", "mimeType": "video/mp4"}}
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"role": "user", "content": "Hi"}, "$.messages[0].id"),
        ({"id": "u1", "role": "critic", "content": "Hi"}, "$.messages[0].role"),
        ({"id": "u1", "role": "user", "content": [image]}, "$.messages[0].content[0]"),
        ({"id": "a1", "role": "assistant", "content": "Hi"}, "$.messages"),
    ]
    async with serving(tmp_path, [teller, clerk()], mounts=[MOUNT]) as running:
        client = running.client()
        for message, path in wrong:
            said = await asked_to_run(client, message)
            assert (said.status, said.json["path"]) == (422, path)
        said = await asked_to_run(client, user("u1", "Hi"), tools=[{"name": "x", "parameters": {"type": "string"}}])
        assert said.status == 400
        assert (await asked_to_run(client, user("u1", "Hi"), agent="nobody")).code == "no_agent"
        assert (await asked_to_run(client, user("u1", "Hi"), threadId="../x")).status == 400
        await run(client, user("u1", "Hi"))
        assert (await asked_to_run(client, user("u2", "Hi"), agent="clerk")).code == "other_agent"


async def test_a_text_behind_reasoning_comes_as_it_is_written(tmp_path: pathlib.Path):
    model = ScriptedModel(by_history([turn(think("Let me see."), "One ", "moment.")]))
    async with serving(tmp_path, [windlass.Agent("teller", model=model)], mounts=[MOUNT]) as running:
        events = await run(running.client(), user("u1", "Hi"))
        deltas = [event["delta"] for event in events if event["type"] == "TEXT_MESSAGE_CONTENT"]
        assert deltas == ["One ", "moment."]
        kinds = [event["type"] for event in events]
        assert kinds.index("REASONING_END") < kinds.index("TEXT_MESSAGE_START")


async def test_what_a_child_asks_is_answered_in_the_thread_of_its_parent(tmp_path: pathlib.Path):
    paying = clerk()
    asking = ScriptedModel(by_history([call("spawn", agent="clerk", task="Pay."), "All is paid."]))
    head = windlass.Agent("teller", model=asking, agents=[paying])
    async with serving(tmp_path, [head], mounts=[MOUNT]) as running:
        client = running.client()
        (asked,) = interrupts(await run(client, user("u1", "Pay.")))
        assert "/" in asked["id"]
        events = await run(client, user("u1", "Pay."), resume=resume(asked["id"], YES))
        assert text(events) == "All is paid."
        assert events[-1]["outcome"] == {"type": "success"}
