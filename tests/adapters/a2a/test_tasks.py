"""Tasks over HTTP: who may answer, what is refused and where, and what a second client sees."""

from __future__ import annotations

import asyncio
import contextlib
import json
import pathlib
from collections.abc import AsyncIterator
from typing import Any

import windlass
from tests.adapters.served_agents import teller
from tests.server.support import Client, Said, clerk, serving
from windlass.adapters.a2a import tasks
from windlass.adapters.a2a.mount import MOUNT
from windlass.adapters.a2a.task_fold import TaskFold
from windlass.store.base import Key
from windlass.testing.scripted import ScriptedModel, by_history, call


def said(name: str, *parts: Any, **more: str) -> dict[str, Any]:
    return {"message": {"messageId": name, "role": "ROLE_USER", "parts": list(parts), **more}}


async def asked(client: Client, method: str, params: Any, agent: str = "teller", **headers: str) -> Said:
    body = {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}
    return await client.ask("POST", f"/v1/a2a/{agent}", json=body, headers=headers)


async def sent(client: Client, *parts: Any, name: str = "m1", **more: str) -> dict[str, Any]:
    """The task of a message."""
    answer = await asked(client, "SendMessage", said(name, *parts, **more))
    assert answer.status == 200, answer
    task: dict[str, Any] = answer.json["result"]["task"]
    return task


def why(answer: Said) -> tuple[int, str]:
    assert answer.status == 200, answer
    assert answer.json["id"] == 7
    error = answer.json["error"]
    return error["code"], error["message"]


async def test_whoever_may_only_drive_cannot_approve(tmp_path: pathlib.Path):
    async with serving(tmp_path, [teller], mounts=[MOUNT]) as running:
        driver = running.client("drive")
        task = await sent(driver, {"text": "Pay."})
        before = await running.client().records(task["contextId"])
        for part in ({"text": "approve"}, {"data": {"approved": True}}):
            answer = await asked(driver, "SendMessage", said("m2", part, taskId=task["id"]))
            assert (answer.status, answer.code) == (403, "role")
        assert await running.client().records(task["contextId"]) == before
        name = f"a2a:a:{task['status']['message']['parts'][1]['data']['request']}@m3"
        key = {"Idempotency-Key": name}
        prompt = {"type": "prompt.received", "body": {"content": [{"type": "text", "text": "Hi"}]}}
        path = f"/v1/sessions/{task['contextId']}/commands"
        assert (await driver.ask("POST", path, json=prompt, headers=key)).status == 400


async def test_a_message_without_a_context_is_taken_once_too(tmp_path: pathlib.Path):
    async with serving(tmp_path, [teller], mounts=[MOUNT]) as running:
        client = running.client()
        first = await sent(client, {"text": "Hello."})
        assert await sent(client, {"text": "Hello."}) == first
        other = await sent(client, {"text": "Hello."}, name="m2")
        assert other["contextId"] != first["contextId"]
        assert len((await client.get("/v1/sessions"))["sessions"]) == 2


async def test_a_context_whose_beginning_was_cut_off_is_begun_by_the_next_message(tmp_path: pathlib.Path):
    async with windlass.open(str(tmp_path / "store.db")) as killed:
        await killed.store.log.create(Key("default", "march"))  # all that a kill between the two writes leaves
    async with serving(tmp_path, [teller], mounts=[MOUNT]) as running:
        task = await sent(running.client(), {"text": "Hello."}, contextId="march")
        assert task["status"]["state"] == "TASK_STATE_COMPLETED"


async def test_an_answer_that_comes_a_moment_too_late_begins_no_run(tmp_path: pathlib.Path, monkeypatch: Any):
    async with serving(tmp_path, [teller], mounts=[MOUNT]) as running:
        client, real = running.client(), tasks.folded
        task = await sent(client, {"text": "Pay."}, contextId="march")

        async def overtaken(begun: tasks.Begun) -> TaskFold:
            fold = await real(begun)
            monkeypatch.setattr(tasks, "folded", real)
            (ask,) = await begun.session.requests()
            await begun.session.approve(ask)
            await begun.session.result()
            return fold

        monkeypatch.setattr(tasks, "folded", overtaken)
        late = await asked(client, "SendMessage", said("m2", {"text": "deny"}, taskId=task["id"]))
        assert "answered meanwhile" in why(late)[1]
        kinds = [one["event"]["type"] for one in await client.records("march")]
        assert (kinds.count("prompt.received"), kinds.count("tool.finished")) == (1, 1)


async def test_a_task_that_goes_on_at_the_moment_it_would_be_told_is_waited_for(
    tmp_path: pathlib.Path, monkeypatch: Any
):
    begun, gate, looked = asyncio.Event(), asyncio.Event(), 0

    @windlass.tool
    async def pay(amount: int) -> str:
        "Pays."
        begun.set()
        await gate.wait()
        return f"paid {amount}"

    model = ScriptedModel(by_history([call("pay", amount=3), "It is paid."]))
    payer = windlass.Agent("teller", model=model, tools=[pay], policy=windlass.Policy(rules=(windlass.ask("pay"),)))
    folded, watched = tasks.folded, tasks.watched

    async def overtaken(task: tasks.Begun) -> TaskFold:
        monkeypatch.setattr(tasks, "folded", folded)
        (ask,) = await task.session.requests()
        await task.session.approve(ask)  # somebody else is quicker than the answer is written
        await begun.wait()
        return await folded(task)

    def counted(task: tasks.Begun) -> AsyncIterator[Any]:
        nonlocal looked
        looked += 1
        if looked == 2:
            gate.set()
        return watched(task)

    monkeypatch.setattr(tasks, "folded", overtaken)
    monkeypatch.setattr(tasks, "watched", counted)
    async with serving(tmp_path, [payer], mounts=[MOUNT]) as running:
        task = await sent(running.client(), {"text": "Pay."})
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    assert task["artifacts"][0]["parts"][0]["text"] == "It is paid."


async def test_what_means_nothing_is_refused_where_it_stands(tmp_path: pathlib.Path):
    async with serving(tmp_path, [teller, clerk()], mounts=[MOUNT]) as running:
        client = running.client()
        wrong: list[tuple[Any, int, str]] = [
            ({}, -32602, "$.message"),
            (said("", {"text": "Hi"}), -32602, "$.message.messageId"),
            (said("m1"), -32602, "$.message.parts"),
            (said("m1", {"video": "x"}), -32602, "$.message.parts[0]"),
            (said("m1", {"text": "Hi"}, role="ROLE_AGENT"), -32602, "$.message.role"),
            (said("m1", {"text": "Hi"}, contextId="../x"), -32602, "session id"),
            (said("m1", {"text": "Hi"}, taskId="nowhere.1"), -32001, "nowhere.1"),
        ]
        for params, code, place in wrong:
            answer = why(await asked(client, "SendMessage", params))
            assert (answer[0], place in answer[1]) == (code, True), (params, answer)
        assert why(await asked(client, "message/send", said("m1", {"text": "Hi"})))[0] == -32601
        assert why(await asked(client, "CreateTaskPushNotificationConfig", {}))[0] == -32003
        assert why(await asked(client, "GetTask", {"id": "x.1"}, **{"A2A-Version": "0.3"}))[0] == -32009
        assert (await asked(client, "GetTask", {}, agent="nobody")).status == 404
        broken = await client.ask("POST", "/v1/a2a/teller", data=b"{", headers={"Content-Type": "application/json"})
        assert broken.json["error"]["code"] == -32700
        task = await sent(client, {"text": "Hi"})
        other = await asked(client, "GetTask", {"id": task["id"]}, agent="clerk")
        assert why(other)[0] == -32001


async def test_a_context_that_asks_takes_nothing_but_answers(tmp_path: pathlib.Path):
    async with serving(tmp_path, [teller], mounts=[MOUNT]) as running:
        client = running.client()
        task = await sent(client, {"text": "Pay."})
        before = await client.records(task["contextId"])
        code, words = why(await asked(client, "SendMessage", said("m2", {"text": "Hi"}, contextId=task["contextId"])))
        assert (code, "waits for an answer" in words) == (-32004, True)
        for part in ({"text": "perhaps"}, {"data": {"approved": "yes"}}, {"data": {"request": "p1", "approved": True}}):
            code, _ = why(await asked(client, "SendMessage", said("m2", part, taskId=task["id"])))
            assert code == -32602
        assert await client.records(task["contextId"]) == before
        denied = await sent(client, {"data": {"approved": False, "feedback": "too much"}}, name="m3", taskId=task["id"])
        assert "too much" in denied["artifacts"][0]["parts"][0]["text"]


async def test_what_a_child_asks_is_answered_in_the_task_of_its_parent(tmp_path: pathlib.Path):
    asking = ScriptedModel(by_history([call("spawn", agent="clerk", task="Pay."), "All is paid."]))
    head = windlass.Agent("teller", model=asking, agents=[clerk()])
    async with serving(tmp_path, [head], mounts=[MOUNT]) as running:
        client = running.client()
        task = await sent(client, {"text": "Pay."})
        assert "/" in task["status"]["message"]["parts"][1]["data"]["request"]
        done = await sent(client, {"text": "approve"}, name="m2", taskId=task["id"])
        assert done["artifacts"][0]["parts"][0]["text"] == "All is paid."


@contextlib.asynccontextmanager
async def streamed(client: Client, method: str, params: Any) -> AsyncIterator[AsyncIterator[Any]]:
    body = {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}
    async with client.http.post(f"{client.url}/v1/a2a/teller", json=body, headers=client.heads()) as answer:

        async def results() -> AsyncIterator[Any]:
            async for line in answer.content:
                if line.startswith(b"data: "):
                    yield json.loads(line[6:])["result"]

        yield results()


async def test_a_second_client_watches_a_task_that_is_at_work(tmp_path: pathlib.Path):
    begun, go = asyncio.Event(), asyncio.Event()

    @windlass.tool
    async def dig() -> str:
        """Digs."""
        begun.set()
        await go.wait()
        return "dug"

    model = ScriptedModel(by_history([["First I dig.", call("dig")], '{"depth": 3}']))
    agent = windlass.Agent("teller", model=model, tools=[dig], policy=windlass.ALLOW_ALL)
    async with serving(tmp_path, [agent], mounts=[MOUNT]) as running:
        client = running.client()
        async with streamed(client, "SendStreamingMessage", said("m1", {"text": "Dig."})) as first:
            task = (await anext(first))["task"]
            await begun.wait()
            async with streamed(client, "SubscribeToTask", {"id": task["id"]}) as second:
                assert (await anext(second))["task"]["status"]["state"] == "TASK_STATE_WORKING"
                at_work = await asked(client, "GetTask", {"id": task["id"]})
                assert at_work.json["result"]["history"][-1]["parts"] == [{"text": "First I dig."}]
                go.set()
                told = [update async for update in first][-3:]
                assert [update async for update in second] == told
        assert told[0]["statusUpdate"]["status"]["message"]["parts"] == [{"text": "First I dig."}]
        assert told[1]["artifactUpdate"]["artifact"]["parts"][0]["data"] == {"depth": 3}
        assert told[2]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"
        assert why(await asked(client, "SubscribeToTask", {"id": task["id"]}))[0] == -32004
