"""The official client, of both eras of the protocol, before agents that are served over HTTP."""

from __future__ import annotations

import asyncio
import json

import pytest

from .support import APPROVE, DENY, People, exists, kinds, read, serving, told

ERAS = ["legacy", "auto"]
"""The handshake with requests from the server, and requests that stand for themselves."""


@pytest.mark.parametrize("era", ERAS)
async def test_an_agent_is_called_with_progress_and_a_person_approves(tmp_path, era):
    people, heard = People(APPROVE), []

    async def progress(count, total, message):
        heard.append((count, message))

    async with serving(tmp_path) as served, served.client(served.token(), era, people) as client:
        names = [tool.name for tool in (await client.list_tools()).tools]
        assert names[:4] == ["agent_clerk", "agent_reader", "agent_painter", "agent_planner"]
        result = await client.call_tool(
            "agent_clerk", {"prompt": "Pay.", "session_id": "march"}, progress_callback=progress
        )
        assert (result.is_error, told(result)["status"], told(result)["text"]) == (False, "completed", "It is paid.")
        log = await read(client, "windlass://sessions/march/log")
    (asked,) = people.asked
    assert '"amount": 3' in asked.message
    messages = [message for _, message in heard]
    assert "prompt.received" in messages
    assert "permission.requested pay" in messages
    assert messages[-1] == "run.completed"
    assert kinds(log).count("tool.finished") == 1
    by = {record["event"]["type"]: record["event"] for record in log["records"]}
    assert (by["prompt.received"]["actor"], by["prompt.received"]["auth"]) == ("first/model", "token")
    assert by["prompt.received"]["labels"] == ["untrusted:client"]
    assert (by["permission.approved"]["actor"], by["permission.approved"]["auth"]) == ("first", "token")


@pytest.mark.parametrize("era", ERAS)
async def test_a_person_denies_and_one_who_closes_the_form_has_said_nothing(tmp_path, era):
    async with serving(tmp_path) as served:
        token = served.token()
        async with served.client(token, era, People()) as client:
            result = told(await client.call_tool("agent_clerk", {"prompt": "Pay.", "session_id": "m", "wait_s": 0}))
            result = told(await client.call_tool("wait", {"session_id": "m", "wait_s": 1}))
            assert result["status"] == "asked"
            assert [ask["tool"] for ask in result["asks"]] == ["pay"]
        people = People(("accept", {"feedback": "go"}), DENY)
        async with served.client(token, era, people) as client:
            assert told(await client.call_tool("wait", {"session_id": "m", "wait_s": 1}))["status"] == "asked"
            ended = told(await client.call_tool("wait", {"session_id": "m"}))
            log = await read(client, "windlass://sessions/m/log")
        assert ended["status"] == "completed"
    assert len(people.asked) == 2
    assert "permission.approved" not in kinds(log)
    (denied,) = [one["event"] for one in log["records"] if one["event"]["type"] == "permission.denied"]
    assert (denied["actor"], denied["body"]) == ("first", {"feedback": "too much"})


@pytest.mark.parametrize("era", ERAS)
async def test_a_model_cannot_approve_what_it_asked_for(tmp_path, era):
    async with serving(tmp_path) as served, served.client(served.token(), era) as client:
        asked = told(await client.call_tool("agent_clerk", {"prompt": "Pay.", "session_id": "m"}))
        assert asked["status"] == "asked"
        (ask,) = asked["asks"]
        assert ask["answered_by"].splitlines()[0] == f"  windlass approve m {ask['request_id']}"
        wish = {"session_id": "m", "request_id": ask["request_id"], "digest": ask["digest"]}
        refused = await client.call_tool("answer", {**wish, "decision": "approve"})
        assert (refused.is_error, told(refused)["code"]) == (True, "by_people")
        denied = await client.call_tool("answer", {**wish, "decision": "deny", "text": "no"})
        assert not denied.is_error
        assert told(await client.call_tool("wait", {"session_id": "m"}))["status"] == "completed"
        log = await read(client, "windlass://sessions/m/log")
    assert "permission.approved" not in kinds(log)
    (denial,) = [one["event"] for one in log["records"] if one["event"]["type"] == "permission.denied"]
    assert denial["actor"] == "first/model"


@pytest.mark.parametrize("era", ERAS)
async def test_what_a_tool_asks_while_it_runs_is_put_before_a_person_or_told_at_once(tmp_path, era):
    people = People(("accept", {"choice_0": "L"}))
    async with serving(tmp_path) as served:
        async with served.client(served.token(), era, people) as client:
            ordered = told(await client.call_tool("agent_tailor", {"prompt": "A shirt.", "session_id": "q"}))
            assert (ordered["status"], ordered["text"]) == ("completed", "It is ordered.")
            assert "ordered L" in json.dumps(await read(client, "windlass://sessions/q/log"))
        async with served.client(served.token(), era) as client:
            wish = {"prompt": "A shirt.", "session_id": "r", "wait_s": 3_600}
            result = await client.call_tool("agent_tailor", wish)
            assert "It waits for a person." in str(result.content)
            (ask,) = told(result)["asks"]
            answer = {"session_id": "r", "request_id": ask["request_id"], "decision": "answer", "selected": ["S"]}
            assert not (await client.call_tool("answer", answer)).is_error
            assert told(await client.call_tool("wait", {"session_id": "r"}))["text"] == "It is ordered."


async def test_a_plan_is_approved_by_a_person_alone(tmp_path):
    people = People(("accept", {"decision": "approve"}))
    async with serving(tmp_path) as served:
        async with served.client(served.token()) as client:
            asked = told(await client.call_tool("agent_planner", {"prompt": "Paint.", "session_id": "p"}))
            (ask,) = asked["asks"]
            assert (ask["kind"], "1. paint" in ask["shown"]) == ("plan", True)
            wish = {"session_id": "p", "request_id": ask["request_id"]}
            refused = await client.call_tool("answer", {**wish, "decision": "approve"})
            assert told(refused)["code"] == "by_people"
        async with served.client(served.token(), people=people) as client:
            assert told(await client.call_tool("wait", {"session_id": "p"}))["text"] == "Planned."
    assert len(people.asked) == 1


@pytest.mark.parametrize("era", ERAS)
async def test_a_question_is_put_before_a_person_or_answered_by_a_call(tmp_path, era):
    people = People(("accept", {"choice_0": "blue"}))
    async with serving(tmp_path) as served:
        async with served.client(served.token(), era, people) as client:
            assert told(await client.call_tool("agent_painter", {"prompt": "Go.", "session_id": "q"}))["text"]
            log = await read(client, "windlass://sessions/q/log")
        async with served.client(served.token(), era) as client:
            asked = told(await client.call_tool("agent_painter", {"prompt": "Go.", "session_id": "r"}))
            (ask,) = asked["asks"]
            assert "Which colour?" in ask["shown"]
            wish = {"session_id": "r", "request_id": ask["request_id"], "decision": "answer", "selected": ["red"]}
            assert not (await client.call_tool("answer", wish)).is_error
            assert told(await client.call_tool("wait", {"session_id": "r"}))["text"] == "As you wish."
            other = await read(client, "windlass://sessions/r/log")
    assert people.asked[0].requested_schema["properties"]["choice_0"]["enum"] == ["red", "blue"]
    answers = [
        one["event"] for page in (log, other) for one in page["records"] if one["event"]["type"] == "answer.received"
    ]
    assert [one["body"]["answers"][0]["selected"] for one in answers] == [["blue"], ["red"]]
    assert [one["actor"] for one in answers] == ["first", "first/model"]


async def test_a_cancelled_call_stops_waiting_and_the_run_goes_on_until_it_is_cancelled_itself(tmp_path):
    async with serving(tmp_path) as served, served.client(served.token(), "legacy") as client:
        waiting = asyncio.ensure_future(client.call_tool("agent_reader", {"prompt": "Read.", "session_id": "long"}))
        await exists(tmp_path / "begun")
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        still = told(await client.call_tool("wait", {"session_id": "long", "wait_s": 0}))
        assert still["status"] == "running"
        assert not (await client.call_tool("cancel", {"session_id": "long", "reason": "enough"})).is_error
        ended = await client.call_tool("wait", {"session_id": "long"})
        assert (ended.is_error, told(ended)["status"]) == (True, "cancelled")
        log = await read(client, "windlass://sessions/long/log")
    assert kinds(log).count("prompt.received") == 1
    (cancelled,) = [one["event"] for one in log["records"] if one["event"]["type"] == "cancel.received"]
    assert (cancelled["reason"], cancelled["actor"]) == ("enough", "first/model")


async def test_a_call_that_is_repeated_under_its_key_is_taken_once_and_another_under_it_is_refused(tmp_path):
    (tmp_path / "go").touch()
    wish = {"prompt": "Read.", "session_id": "once", "key": "k1"}
    async with serving(tmp_path) as served, served.client(served.token()) as client:
        for _ in range(2):
            assert told(await client.call_tool("agent_reader", wish))["text"] == "Read."
        other = await client.call_tool("agent_reader", {**wish, "prompt": "Burn it."})
        assert (other.is_error, told(other)["code"]) == (True, "key_reused")
        said = await client.call_tool("send", {"session_id": "once", "text": "Again.", "key": "k2"})
        assert told(said)["status"] == "completed"
        log = await read(client, "windlass://sessions/once/log")
    assert kinds(log).count("prompt.received") == 2


async def test_sessions_and_logs_are_resources(tmp_path):
    (tmp_path / "go").touch()
    async with serving(tmp_path) as served, served.client(served.token()) as client:
        await client.call_tool("agent_reader", {"prompt": "Read.", "session_id": "ä b"})
        listed = [one.uri for one in (await client.list_resources()).resources]
        assert listed == [
            "windlass://sessions",
            "windlass://sessions/%C3%A4%20b",
            "windlass://sessions/%C3%A4%20b/log",
        ]
        templates = [one.uri_template for one in (await client.list_resource_templates()).resource_templates]
        assert templates == ["windlass://sessions/{session_id}", "windlass://sessions/{session_id}/log{?after,limit}"]
        assert [row["session"] for row in (await read(client, listed[0]))["sessions"]] == ["ä b"]
        view = await read(client, listed[1])
        assert (view["status"], view["text"], view["agent"]) == ("completed", "Read.", "reader")
        whole = await read(client, listed[2])
        first = await read(client, f"{listed[2]}?limit=2")
        rest = await read(client, f"{listed[2]}?after={first['cursor']}")
        assert (len(first["records"]), first["more"]) == (2, True)
        assert first["records"] + rest["records"] == whole["records"]
        page = told(await client.call_tool("read_log", {"session_id": "ä b", "after": first["cursor"], "limit": 200}))
        assert page == rest
        found = told(await client.call_tool("list_sessions", {"agent": "reader"}))["sessions"]
        assert [row["state"] for row in found] == ["idle"]
        assert told(await client.call_tool("read_session", {"session_id": "ä b"}))["cursor"] == view["cursor"]
