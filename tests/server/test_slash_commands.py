"""Slash commands of clients, over a real server: brought with a stream, put to each client that has them, answered once."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from urllib.parse import quote

import pytest

from windlass.server.access.limits import Limits
from windlass.server.slash_desk import OPEN_MAX

from .support import WAIT_S, Client, Said, Stream, clerk, serving

DEPLOY = [{"name": "deploy", "description": "Ships it"}]
PLACE = "/v1/sessions/a/slash-commands"


def brings(commands: Any) -> str:
    return "?commands=" + quote(json.dumps(commands))


async def slash(stream: Stream) -> dict[str, Any]:
    """The next that a stream says of slash commands."""
    while (event := await stream.next()) is not None:
        if event.kind == "slash":
            assert event.id is None
            found: dict[str, Any] = event.data
            return found
    raise AssertionError("the stream has ended")


def naming(client: Client, text: str, key: str | None = None) -> asyncio.Future[Said]:
    """Prompts, and waits beside."""
    prompt = {"type": "prompt.received", "body": {"content": [{"type": "text", "text": text}]}}
    headers = {"Idempotency-Key": key} if key else None
    return asyncio.ensure_future(client.ask("POST", "/v1/sessions/a/commands", json=prompt, headers=headers))


async def prompts(client: Client) -> list[dict[str, Any]]:
    events = [one["event"] for one in await client.records("a")]
    return [event for event in events if event["type"] == "prompt.received"]


async def test_the_first_answer_goes_on_as_the_prompt_and_the_other_client_is_told(tmp_path):
    async with serving(tmp_path, [clerk(ask=False)]) as running:
        admin, ada, bob = running.client(), running.client("drive", name="ada"), running.client("drive", name="bob")
        await admin.begin("a")
        async with ada.stream("a", query=brings(DEPLOY)) as first, bob.stream("a", query=brings(DEPLOY)) as second:
            assert await admin.get(PLACE) == {"commands": DEPLOY}
            sent = naming(admin, "/deploy to staging", "k1")
            asked = await slash(first)
            assert asked == await slash(second)
            request = asked.pop("request_id")
            assert asked == {"status": "open", "name": "deploy", "args": "to staging", "by": "first"}
            place = f"{PLACE}/{request}"
            said = await asyncio.gather(
                ada.ask("POST", place, json={"text": "Ship it."}), bob.ask("POST", place, json={"text": "Ship it."})
            )
            assert sorted(one.status for one in said) == [200, 409]
            winner = "ada" if said[0].status == 200 else "bob"
            late = next(one.json for one in said if one.status == 409)
            assert (late["code"], late["detail"]) == ("not_open", f"{winner} answered it first")
            for stream in (first, second):
                ended = await slash(stream)
                assert (ended["request_id"], ended["status"], ended["by"]) == (request, "answered", winner)
            assert (await sent).json == {"command_id": "k1", "session_id": "a", "seq": 2}
            (prompt,) = await prompts(admin)
            assert prompt["body"] == {
                "content": [{"type": "text", "text": "Ship it."}],
                "displayed": "/deploy to staging",
            }
            assert (prompt["actor"], prompt["origin"]) == ("first", {"kind": "client", "name": winner})
            again = await naming(admin, "/deploy to staging", "k1")  # nobody is asked: it is in the log
            assert again.json == {"command_id": "k1", "session_id": "a", "seq": 2}
        assert len(await prompts(admin)) == 1


async def test_a_command_that_a_client_handled_sends_nothing(tmp_path):
    async with serving(tmp_path, [clerk()]) as running:
        admin, ada = running.client(), running.client("drive", name="ada")
        await admin.begin("a")
        async with ada.stream("a", query=brings(DEPLOY)) as stream:
            sent = naming(admin, "/deploy", "k1")
            asked = await slash(stream)
            assert asked["args"] == ""
            await ada.post(f"{PLACE}/{asked['request_id']}", {"handled": True})
            said = await sent
            assert said.status == 200
            assert said.json == {"command_id": "k1", "session_id": "a", "handled_by": "ada"}
        assert await prompts(admin) == []


async def test_a_late_client_is_told_what_is_open_and_may_answer_it(tmp_path):
    async with serving(tmp_path, [clerk(ask=False)]) as running:
        admin = running.client()
        await admin.begin("a")
        async with admin.stream("a", query=brings(DEPLOY)) as early:
            sent = naming(admin, "/deploy")
            asked = await slash(early)
            async with admin.stream("a", query=brings([{"name": "other"}, *DEPLOY])) as late:
                assert await slash(late) == asked
                await admin.post(f"{PLACE}/{asked['request_id']}", {"text": "Ship it."})
                assert (await slash(late))["status"] == "answered"
            assert (await sent).status == 200


async def test_a_client_that_leaves_takes_its_commands_and_the_last_one_is_told_to_whoever_prompted(tmp_path):
    async with serving(tmp_path, [clerk(ask=False)]) as running:
        admin = running.client()
        await admin.begin("a")
        async with admin.stream("a", query=brings([])) as bystander:
            async with admin.stream("a", query=brings(DEPLOY)) as first:
                async with admin.stream("a", query=brings(DEPLOY)) as second:
                    sent = naming(admin, "/deploy")
                    asked = await slash(first)
                    assert await slash(second) == asked
                assert not sent.done()
            said = await asyncio.wait_for(sent, WAIT_S)
            assert (said.status, said.code) == (409, "no_client")
            assert await admin.get(PLACE) == {"commands": []}
            assert await prompts(admin) == []
            late = await admin.ask("POST", f"{PLACE}/{asked['request_id']}", json={"handled": True})
            assert (late.status, late.code) == (409, "not_open")
            assert (await naming(admin, "/deploy")).status == 200  # nobody has it now: it is a prompt like others
            kinds = []
            while (told := await bystander.next()) is not None:
                kinds.append(told.kind)
                if told.kind == "record" and told.data["event"]["type"] == "prompt.received":
                    break
            assert "slash" not in kinds  # it has no such command
        (prompt,) = await prompts(admin)
        assert prompt["body"] == {"content": [{"type": "text", "text": "/deploy"}]}


async def test_a_prompter_that_leaves_takes_the_request_back(tmp_path):
    async with serving(tmp_path, [clerk()]) as running:
        admin = running.client()
        await admin.begin("a")
        async with admin.stream("a", query=brings(DEPLOY)) as stream:
            sent = naming(admin, "/deploy")
            asked = await slash(stream)
            sent.cancel()
            ended = await slash(stream)
            assert (ended["request_id"], ended["status"]) == (asked["request_id"], "withdrawn")
        assert await prompts(admin) == []


async def test_a_command_that_nobody_answers_is_given_up(tmp_path):
    async with serving(tmp_path, [clerk()], limits=Limits(wait_s=0.1)) as running:
        admin = running.client()
        await admin.begin("a")
        async with admin.stream("a", query=brings(DEPLOY)) as stream:
            said = await asyncio.wait_for(naming(admin, "/deploy"), WAIT_S)
            assert (said.status, said.code) == (409, "unanswered")
            assert [(await slash(stream))["status"], (await slash(stream))["status"]] == ["open", "withdrawn"]
        assert await prompts(admin) == []


async def test_a_command_beyond_those_that_may_wait_is_refused(tmp_path):
    async with serving(tmp_path, [clerk()]) as running:
        admin = running.client()
        await admin.begin("a")
        async with admin.stream("a", query=brings(DEPLOY)) as stream:
            waiting = [naming(admin, "/deploy") for _ in range(OPEN_MAX)]
            asked = [await slash(stream) for _ in range(OPEN_MAX)]
            refused = await naming(admin, "/deploy")
            assert (refused.status, refused.code) == (429, "busy")
            for one in asked:
                await admin.post(f"{PLACE}/{one['request_id']}", {"handled": True})
            assert {(await one).status for one in waiting} == {200}


@pytest.mark.parametrize(
    ("commands", "words"),
    [
        ("deploy", "write a list"),
        ([{"name": "deploy", "run": "rm"}], "write a list"),
        ([{"name": "/deploy"}], "without its slash"),
        ([{"name": "deploy\n"}], "without its slash"),
        ([*DEPLOY, *DEPLOY], "there twice"),
        ([{"name": "deploy", "description": "x" * 201}], "more than 200"),
        ([{"name": f"n{i}"} for i in range(65)], "up to 64"),
    ],
)
async def test_commands_that_make_no_sense_are_refused_by_what_is_wrong(tmp_path, commands, words):
    async with serving(tmp_path, [clerk()]) as running:
        admin = running.client()
        await admin.begin("a")
        said = await admin.ask("GET", "/v1/sessions/a/events" + brings(commands))
        assert (said.status, said.code) == (400, "usage")
        assert words in said.json["detail"]


async def test_who_may_only_read_brings_no_commands_and_answers_none(tmp_path):
    async with serving(tmp_path, [clerk()]) as running:
        admin, reader = running.client(), running.client("read")
        await admin.begin("a")
        said = await reader.ask("GET", "/v1/sessions/a/events" + brings(DEPLOY))
        assert (said.status, said.code) == (403, "role")
        async with admin.stream("a", query=brings(DEPLOY)) as stream:
            sent = naming(admin, "/deploy")
            place = f"{PLACE}/{(await slash(stream))['request_id']}"
            assert (await reader.ask("POST", place, json={"handled": True})).code == "role"
            for body in ({}, {"text": " "}, {"text": "x", "handled": True}):
                assert (await admin.ask("POST", place, json=body)).code == "malformed"
            await admin.post(place, {"handled": True})
            assert (await sent).status == 200
