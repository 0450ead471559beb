"""MCP over HTTP before an attacker: hosts, origins, tokens, roles, tenants, sizes, and what clients bring back."""

from __future__ import annotations

import json
from typing import Any

import aiohttp
import pytest

from windlass.mcp_server.wait import RoundTrip
from windlass.server.access.limits import Limits

from .support import People, Served, kinds, read, serving, told

ACCEPT = {"Accept": "application/json, text/event-stream"}
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}},
}


class Web:
    """Requests as they are written."""

    def __init__(self, served: Served, http: aiohttp.ClientSession) -> None:
        self._url = served.url
        self._http = http

    async def post(self, body: Any, token: str | None = None, **headers: str) -> tuple[int, Any, dict[str, str]]:
        """The status, what was said and the headers of an answer."""
        sent = {**ACCEPT, "Content-Type": "application/json", **{k.replace("_", "-"): v for k, v in headers.items()}}
        if token is not None:
            sent["Authorization"] = f"Bearer {token}"
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        async with self._http.post(self._url, data=data, headers=sent) as answer:
            text = await answer.text()
            plain = text.partition("data: ")[2] if answer.content_type == "text/event-stream" else text
            try:
                said = json.loads(plain)
            except ValueError:
                said = plain
            return answer.status, said, {name.lower(): value for name, value in answer.headers.items()}


async def test_hosts_origins_tokens_and_paths_are_checked_before_anything_is_read(tmp_path):
    async with serving(tmp_path) as served, aiohttp.ClientSession() as http:
        web, token = Web(served, http), served.token()
        assert (await web.post(INITIALIZE))[0] == 401
        assert (await web.post(INITIALIZE, "wl_wrong"))[0] == 401
        assert (await web.post(INITIALIZE, token, Host="evil.example"))[0] == 421
        assert (await web.post(INITIALIZE, token, Origin="https://evil.example"))[0] == 403
        status, _, headers = await web.post(INITIALIZE, token)
        assert (status, headers["x-content-type-options"], headers["cache-control"]) == (200, "nosniff", "no-store")
        assert (await web.post(INITIALIZE, token, Content_Type="text/plain"))[0] == 415
        auth = {"Authorization": f"Bearer {token}"}
        async with http.get(served.server.url + "/v1/sessions", headers=auth) as answer:
            assert answer.status == 404
        async with http.put(served.url, headers=auth) as answer:
            assert (answer.status, answer.headers["Allow"]) == (405, "POST, GET, DELETE")


async def test_what_is_too_large_deep_or_no_message_is_refused_and_the_server_answers_on(tmp_path):
    async with serving(tmp_path, limits=Limits(body_bytes=20_000)) as served, aiohttp.ClientSession() as http:
        web, token = Web(served, http), served.token()
        assert (await web.post(b"x" * 20_001, token))[0] == 413
        for body in (b"", b"garbage", b"[" * 9_000, b"\xff\xfe", b'{"jsonrpc": "2.0"}', b"[]", b"null"):
            assert (await web.post(body, token))[0] == 400, body
        _, _, headers = await web.post(INITIALIZE, token)
        connection = headers["mcp-session-id"]
        ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
        assert (await web.post(ping, token, Mcp_Session_Id=connection))[1]["result"] == {}
        other = served.token("read", "drive")
        assert (await web.post(ping, other, Mcp_Session_Id=connection))[0] == 404, "another token uses the connection"
        assert (await web.post(ping, token, Mcp_Session_Id="0" * 32))[0] == 404


async def test_a_token_has_the_tools_of_its_roles_and_no_others(tmp_path):
    async with serving(tmp_path) as served:
        reads = {"wait", "list_sessions", "read_session", "read_log"}
        agents = {"agent_clerk", "agent_reader", "agent_painter", "agent_planner", "agent_tailor"}
        drives = agents | {"send", "interrupt", "cancel"}
        for roles, names in [
            (("read",), reads),
            (("drive",), reads | drives),
            (("approve",), reads | {"answer"}),
            (("drive", "approve"), reads | drives | {"answer"}),
        ]:
            async with served.client(served.token(*roles)) as client:
                assert {tool.name for tool in (await client.list_tools()).tools} == names
        async with served.client(served.token("read", name="reader")) as client:
            refused = await client.call_tool("agent_clerk", {"prompt": "Pay."})
            assert (refused.is_error, told(refused)["code"]) == (True, "role")
            assert (await read(client, "windlass://sessions"))["sessions"] == []


@pytest.mark.parametrize("era", ["legacy", "auto"])
async def test_who_may_only_drive_is_not_asked_to_approve_and_who_may_only_approve_does_so_by_a_call(tmp_path, era):
    people = People(("accept", {"decision": "approve"}))
    async with serving(tmp_path) as served:
        async with served.client(served.token("drive"), era, people) as client:
            asked = told(await client.call_tool("agent_clerk", {"prompt": "Pay.", "session_id": "m"}))
            assert asked["status"] == "asked"
            (ask,) = asked["asks"]
            refused = await client.call_tool("answer", {"session_id": "m", "request_id": "p9", "decision": "deny"})
            assert told(refused)["code"] == "role"
        assert people.asked == []
        async with served.client(served.token("approve"), era) as client:
            wish = {"session_id": "m", "request_id": ask["request_id"], "decision": "approve"}
            assert told(await client.call_tool("answer", wish))["code"] == "malformed"
            wrong = await client.call_tool("answer", {**wish, "digest": "0" * 24})
            assert wrong.is_error
            assert not (await client.call_tool("answer", {**wish, "digest": ask["digest"]})).is_error
            assert told(await client.call_tool("wait", {"session_id": "m"}))["text"] == "It is paid."
            late = await client.call_tool("answer", {**wish, "digest": ask["digest"]})
            assert told(late)["code"] == "not_open"
            log = await read(client, "windlass://sessions/m/log")
    (approved,) = [one["event"] for one in log["records"] if one["event"]["type"] == "permission.approved"]
    assert approved["actor"] == "approve-default/model"


async def test_sessions_of_another_tenant_are_not_found_by_any_door(tmp_path):
    (tmp_path / "go").touch()
    async with serving(tmp_path) as served:
        async with served.client(served.token()) as client:
            await client.call_tool("agent_reader", {"prompt": "Read.", "session_id": "mine"})
        async with served.client(served.token("admin", tenant="acme")) as client:
            tools: dict[str, dict[str, Any]] = {
                "wait": {},
                "read_session": {},
                "read_log": {},
                "cancel": {},
                "interrupt": {},
            }
            tools |= {"send": {"text": "hello"}, "answer": {"request_id": "p9", "decision": "deny"}}
            for tool, more in tools.items():
                refused = await client.call_tool(tool, {"session_id": "mine", **more})
                assert (refused.is_error, told(refused)["code"]) == (True, "not_found"), tool
            for uri in ("windlass://sessions/mine", "windlass://sessions/mine/log"):
                with pytest.raises(Exception, match="no session 'mine'"):
                    await client.read_resource(uri)
            assert [one.uri for one in (await client.list_resources()).resources] == ["windlass://sessions"]
            forged = RoundTrip(session_id="mine", digests={"p9": "x"})
            state = json.dumps({"session_id": forged.session_id, "digests": forged.digests})
            forgery = await client.session.call_tool(
                "wait", {"session_id": "mine"}, request_state=state, input_responses={}, allow_input_required=True
            )
            assert told(forgery)["code"] == "not_found"


async def test_what_a_client_brings_back_is_held_against_what_is_open(tmp_path):
    from mcp_types import ElicitResult, InputRequiredResult

    yes = ElicitResult(action="accept", content={"decision": "approve"})
    async with serving(tmp_path) as served, served.client(served.token(), people=People()) as client:
        wish: dict[str, Any] = {"session_id": "m"}
        first = await client.session.call_tool(
            "agent_clerk", {"prompt": "Pay.", "session_id": "m"}, allow_input_required=True
        )
        assert isinstance(first, InputRequiredResult)
        (name,) = first.input_requests or {}
        state = json.loads(first.request_state or "")
        for forged in (
            {**state, "digests": {name: "0" * 24}},
            {**state, "digests": {}},
        ):
            result = await client.session.call_tool(
                "wait",
                wish,
                request_state=json.dumps(forged),
                input_responses={name: yes},
                allow_input_required=True,
            )
            assert told(result)["status"] == "asked"
        refused = await client.session.call_tool(
            "wait", wish, request_state="no state", input_responses={name: yes}, allow_input_required=True
        )
        assert told(refused)["code"] == "usage"
        done = await client.session.call_tool(
            "wait", wish, request_state=first.request_state, input_responses={name: yes}, allow_input_required=True
        )
        assert told(done)["text"] == "It is paid."
        log = await read(client, "windlass://sessions/m/log")
    assert kinds(log).count("permission.approved") == 1


async def test_addresses_of_nothing_are_refused(tmp_path):
    async with serving(tmp_path) as served, served.client(served.token()) as client:
        for uri in (
            "file:///etc/passwd",
            "windlass://sessions/nobody",
            "windlass://sessions/..%2f..%2fetc",
            "windlass://sessions/%ff",
            "windlass://sessions/a/b/c",
            "windlass://sessions/a/log?limit=0",
            "windlass://sessions/a/log?what=1",
            "windlass://elsewhere/a",
            "windlass://sessions/" + "x" * 3_000,
        ):
            with pytest.raises(Exception, match=r"there is no|not allowed|must have"):
                await client.read_resource(uri)
        with pytest.raises(Exception, match="none of this list's"):
            await client.list_resources(cursor="nonsense")


async def test_a_token_that_is_revoked_is_cut_off(tmp_path):
    async with serving(tmp_path) as served, aiohttp.ClientSession() as http:
        token = served.token("drive", name="gone")
        web = Web(served, http)
        _, _, headers = await web.post(INITIALIZE, token)
        served.server.tokens.revoke("gone")
        ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
        assert (await web.post(ping, token, Mcp_Session_Id=headers["mcp-session-id"]))[0] == 401
