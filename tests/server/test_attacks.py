"""Attacks on every route, made from the list of routes: a route without its row here fails the first test."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import importlib.util
import json
import re
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any

import aiohttp
import msgspec
import pytest
from yarl import URL

from windlass.adapters.mounts import mount_names, mounts_named
from windlass.server.access.limits import Limits
from windlass.server.access.roles import ROLES, allows
from windlass.server.mount import Mount, joined
from windlass.server.resources.route_list import ROUTES as OWN
from windlass.server.route import Route
from windlass.server.webhooks import Endpoint, Webhook, webhook_mount

from .attack_rows import Row
from .support import PROMPT, Client, Running, Said, clerk, serving

DIGEST = "sha256:" + "ab" * 32
BODY_MAX = 2_000
HOOK = Webhook(name="ci", session="march", kind="build", secret_env="UNUSED")
MOUNTS = [*mounts_named(mount_names()), webhook_mount({"ci": Endpoint(HOOK, (b"s" * 32,))})]
ROUTES = joined(OWN, MOUNTS)


UNSIGNED = "signature"
"""What is said to whoever asks a route that takes signatures, and has none: no token helps there."""


def adapter_rows(names: Iterable[str]) -> dict[str, Row]:
    """The rows of the routes that adapters add: each keeps them beside its tests, in `tests/adapters/NAME/rows.py`."""
    places = [f"tests.adapters.{name}.rows" for name in names]
    modules = [importlib.import_module(place) for place in places if importlib.util.find_spec(place) is not None]
    return {name: row for module in modules for name, row in module.ROWS.items()}


ROWS: dict[str, Row] = {
    **adapter_rows(mount_names()),
    "getHealth": Row(found=False),
    "getReady": Row(found=False),
    "getMetrics": Row(found=False),
    "listAgents": Row(found=False),
    "getSchema": Row(found=False),
    "getOpenapi": Row(found=False),
    "listSessions": Row(found=False),
    "createSession": Row(body={"agent": "clerk", "session_id": "new"}, found=False),
    "getSession": Row(),
    "deleteSession": Row(),
    "listRecords": Row(),
    "followEvents": Row(),
    "getResult": Row(),
    "sendCommand": Row(body=PROMPT, role="drive"),
    "listRequests": Row(),
    "answerRequest": Row(body={"decision": "deny"}),
    "listSlashCommands": Row(),
    "answerSlashCommand": Row(body={"handled": True}),
    "verifySession": Row(),
    "inspectSession": Row(),
    "forkSession": Row(body={"session_id": "fork"}),
    "compareSessions": Row(),
    "replaySession": Row(body={"agent": "clerk"}),
    "eraseContent": Row(body={"seq": 2, "why": "because"}),
    "putBlob": Row(found=False),
    "getBlob": Row(),
    "receiveWebhook": Row(found=False),
    "askStore": Row(body={"do": "log.forks", "session": "march"}),
}

TRICKS = [
    "..",
    ".",
    "%2e%2e",
    "..%2f..%2fetc%2fpasswd",
    "a%2f..%2fb",
    "a%5c..%5cb",
    "%00",
    "a%00",
    "a%0d%0aSet-Cookie:%20x",
    "%ff",
    "x" * 300,
    "%20a",
    "sha256:..%2f",
    "~",
    "%E2%80%AE",
]
"""Names in a path that must lead nowhere."""


def check_rows(routes: Iterable[Route], rows: Iterable[str]) -> None:
    """Fails for a route that nothing attacks, and for a row that attacks nothing."""
    there, attacked = {route.name for route in routes}, set(rows)
    assert not there - attacked, f"a route needs its row in ROWS, or in its adapter's rows.py: {there - attacked}"
    assert not attacked - there, f"these rows are of no route: {attacked - there}"


def test_every_route_has_its_row_and_no_row_is_of_a_route_that_is_gone():
    check_rows(ROUTES, ROWS)
    assert {mount.name for mount in MOUNTS} >= {"a2a", "agui", "openai", "webhooks"}


@pytest.mark.parametrize("mount", [None, *MOUNTS], ids=lambda mount: getattr(mount, "name", "the server"))
def test_a_new_route_without_a_row_fails_wherever_it_is_added(mount: Mount | None):
    new = msgspec.structs.replace(OWN[0], name="newThing", path="/v1/new-things")
    own: Sequence[Route] = (*OWN, new) if mount is None else OWN
    grown = [dataclasses.replace(one, routes=(*one.routes, new)) if one is mount else one for one in MOUNTS]
    with pytest.raises(AssertionError, match="newThing"):
        check_rows(joined(own, grown), ROWS)


def test_an_adapter_whose_tests_bring_no_rows_fails():
    for name in mount_names():
        left = {row for row in ROWS if row not in adapter_rows([name])}
        with pytest.raises(AssertionError, match="a route needs its row"):
            check_rows(ROUTES, left)


def path_of(route: Route, name: str = "march") -> str:
    """The path of a route, with names of things that are there."""
    digest = DIGEST if name == "march" else name
    return (
        route.path.replace("{session_id}", name)
        .replace("{other_id}", name)
        .replace("{request_id}", "p8" if name == "march" else name)
        .replace("{digest}", digest)
        .replace("{agent_name}", "clerk" if name == "march" else name)
        .replace("{hook}", "ci" if name == "march" else name)
        .replace("{response_id}", "resp_march.2.2" if name == "march" else name)
    )


async def asked(client: Client, route: Route, row: Row, *, path: str | None = None, **headers: str) -> Said:
    more: dict[str, Any] = {"json": row.body} if row.body is not None else {}
    if route.takes_bytes:
        more = {"data": b"bytes"}
    return await client.ask(route.method, path or path_of(route), headers=headers, **more)


@contextlib.asynccontextmanager
async def attacked(tmp_path: Any) -> AsyncIterator[Running]:
    """A server with a session that waits for an approval."""
    limits = Limits(body_bytes=BODY_MAX, blob_bytes=BODY_MAX, burst=5_000, failure_burst=5_000)
    async with serving(tmp_path, [clerk()], limits=limits, mounts=MOUNTS) as running:
        admin = running.client()
        await admin.begin("march")
        await admin.prompt("march")
        await admin.asked("march")
        yield running


async def log_of(running: Running) -> Any:
    return [await running.client().records("march"), await running.client().get("/v1/sessions")]


async def test_nothing_is_told_to_somebody_without_a_token(tmp_path):
    async with attacked(tmp_path) as running:
        before = await log_of(running)
        first = running.client().token
        gone = running.client("admin", name="gone")
        running.server.tokens.revoke("gone")
        attempts: list[tuple[Client, str, dict[str, str]]] = [
            (running.stranger(), "", {}),
            (running.stranger("wl_" + "x" * 43), "", {}),
            (running.stranger(), f"?token={first}", {}),
            (running.stranger(), "", {"Authorization": f"Basic {first}"}),
            (running.stranger(), "", {"Authorization": str(first)}),
            (gone, "", {}),
        ]
        for route in ROUTES:
            for client, query, headers in attempts:
                said = await asked(client, route, ROWS[route.name], path=path_of(route) + query, **headers)
                assert (said.status, said.code) == (401, UNSIGNED if route.signed else "token"), route.name
                assert "march" not in said.body.decode()
                assert route.signed or said.headers["www-authenticate"] == "Bearer"
        assert (await running.stranger().ask("GET", "/v1/nowhere")).status == 401
        assert await log_of(running) == before


async def test_a_role_that_is_not_enough_is_refused_on_every_route(tmp_path):
    async with attacked(tmp_path) as running:
        before = await log_of(running)
        tried = 0
        clients = {role: running.client(role) for role in ROLES}
        for route in ROUTES:
            row = ROWS[route.name]
            needed = row.role or route.role
            for role in ROLES:
                if not allows((role,), needed):  # type: ignore[arg-type]
                    said = await asked(clients[role], route, row)
                    refused = (401, UNSIGNED) if route.signed else (403, "role")
                    assert (said.status, said.code) == refused, (route.name, role)
                    tried += 1
        assert tried > 15
        assert await log_of(running) == before


FOR_APPROVERS: list[dict[str, Any]] = [
    {"type": "permission.approved", "request_id": "p8", "digest": "d"},
    {"type": "permission.denied", "request_id": "p8"},
    {"type": "answer.received", "question_id": "q8", "outcome": "answered"},
    {"type": "tool.settled", "call_id": "c6.0", "outcome": "happened"},
    {"type": "labels.declassified", "labels": ["private"], "reason": "x"},
    {"type": "change.received", "change": {"what": "mode", "mode": "autopilot"}},
    {"type": "change.received", "change": {"what": "grants", "revoke": ["g1"]}},
    {"type": "change.received", "change": {"what": "settings", "settings": {}}},
    PROMPT | {"options": {"limits": {"turns": 1000}}},
]


async def test_who_drives_a_session_cannot_approve_what_it_asks_nor_widen_what_it_may(tmp_path):
    async with attacked(tmp_path) as running:
        before = await log_of(running)
        driver = running.client("drive", "read")
        for command in FOR_APPROVERS:
            said = await driver.ask("POST", "/v1/sessions/march/commands", json=command)
            assert (said.status, said.code) == (403, "role"), command
        assert await log_of(running) == before


async def test_another_tenant_finds_nothing(tmp_path):
    async with attacked(tmp_path) as running:
        before = await log_of(running)
        digest = (await running.client().ask("POST", "/v1/blobs", data=b"ours")).json["digest"]
        other = running.client("admin", name="other", tenant="acme")
        for route in ROUTES:
            row = ROWS[route.name]
            if row.found:
                path = path_of(route).replace(DIGEST, digest)
                said = await asked(other, route, row, path=path)
                assert said.status == 404, route.name
        assert (await other.get("/v1/sessions"))["sessions"] == []
        assert (await other.ask("POST", "/v1/sessions", json={"agent": "clerk", "session_id": "march"})).status == 201
        assert await log_of(running) == before


FOREIGN = [
    {"Host": "evil.example"},
    {"Host": "127.0.0.1.evil.example"},
    {"Host": "localhost.evil.example:80"},
    {"Host": "127.0.0.1@evil.example"},
    {"Host": ""},
    {"Origin": "https://evil.example"},
    {"Origin": "null"},
    {"Origin": "http://127.0.0.1"},
]


async def test_a_foreign_host_or_origin_is_refused_on_every_route(tmp_path):
    async with attacked(tmp_path) as running:
        before = await log_of(running)
        admin = running.client()
        for header in FOREIGN:
            expected = (421, "host") if "Host" in header else (403, "origin")
            for route in ROUTES:
                said = await asked(admin, route, ROWS[route.name], **header)
                assert (said.status, said.code) == expected, (route.name, header)
                assert "access-control-allow-origin" not in said.headers
            preflight = {"Access-Control-Request-Method": "POST", **header}
            assert (await admin.ask("OPTIONS", "/v1/sessions", headers=preflight)).status == expected[0]
        assert await log_of(running) == before


async def test_a_body_that_is_too_large_is_not_read_to_its_end(tmp_path):
    async with attacked(tmp_path) as running:
        before = await log_of(running)
        admin, tried = running.client(), 0
        for route in ROUTES:
            if route.method != "POST":
                continue

            async def endless() -> AsyncIterator[bytes]:
                for _ in range(200):
                    yield b'{"a":"' + b"x" * BODY_MAX

            for data in (b" " * (BODY_MAX + 1), endless()):
                with contextlib.suppress(OSError, aiohttp.ClientError):  # cut off while it still sent
                    said = await admin.ask(
                        "POST", path_of(route), data=data, headers={"Content-Type": "application/json"}
                    )
                    assert (said.status, said.code) == (413, "too_large"), route.name
                    tried += 1
        assert tried >= 6
        assert await log_of(running) == before


async def test_names_that_play_tricks_lead_nowhere(tmp_path):
    async with attacked(tmp_path) as running:
        before = await log_of(running)
        admin = running.client()
        for route in ROUTES:
            if "{" not in route.path:
                continue
            for trick in TRICKS:
                said = await asked(admin, route, ROWS[route.name], path=path_of(route, trick))
                assert said.status in ((401, 404) if route.signed else (400, 404)), (route.name, trick, said)
                assert "set-cookie" not in said.headers
        assert (await admin.ask("GET", "/v1/sessions/../sessions/march")).status == 404
        assert (await admin.ask("GET", "/v1//sessions/march")).status == 404
        assert (await admin.ask("GET", "/v1/sessions/march/")).status == 404
        assert await log_of(running) == before


async def test_other_methods_are_refused_on_every_route(tmp_path):
    async with attacked(tmp_path) as running:
        admin = running.client()
        for path in sorted({path_of(route) for route in ROUTES}):
            for method in ("PUT", "PATCH", "HEAD", "OPTIONS", "TRACE", "BREW"):
                said = await admin.ask(method, path)
                assert said.status == 405, (path, method)
                assert said.headers["allow"]


async def test_json_must_be_said_to_be_json_so_that_no_plain_form_can_send_it(tmp_path):
    async with attacked(tmp_path) as running:
        admin = running.client()
        for route in ROUTES:
            if route.takes is not None:
                data = json.dumps(ROWS[route.name].body).encode()
                said = await admin.ask("POST", path_of(route), data=data, headers={"Content-Type": "text/plain"})
                assert (said.status, said.code) == (415, "media_type"), route.name


INERT = re.compile(r"application/([a-z]+\+)?json|application/octet-stream|text/event-stream|text/plain")
"""What a browser shows as text, keeps or reads as data, and never runs."""


async def test_no_answer_is_anything_that_a_browser_would_run(tmp_path):
    page = "<script src=https://evil.example></script><svg onload=alert(1)>"
    async with attacked(tmp_path) as running:
        admin = running.client()
        prompt = {**PROMPT, "body": {"content": [{"type": "text", "text": page}]}}
        await admin.ask("POST", "/v1/sessions/march/commands", json=prompt)
        kept = (await admin.ask("POST", "/v1/blobs", data=page.encode(), headers={"Content-Type": "text/html"})).json
        seen = set()
        for route in sorted(ROUTES, key=lambda one: one.method == "DELETE"):
            row, path = ROWS[route.name], path_of(route).replace(DIGEST, kept["digest"])
            more: dict[str, Any] = {"json": row.body} if row.body is not None else {}
            for strange in ("", "%3Csvg%20onload=alert(1)%3E"):
                async with admin.http.request(
                    route.method, URL(admin.url + path + strange, encoded=True), headers=admin.heads(), **more
                ) as answer:
                    assert answer.status not in range(500, 600), route.name
                    said = answer.headers
                    if answer.status != 204:
                        assert INERT.fullmatch(answer.content_type), (route.name, answer.content_type)
                        seen.add(answer.content_type)
                    assert said["x-content-type-options"] == "nosniff", route.name
                    assert "default-src 'none'" in said["content-security-policy"], route.name
                    assert "access-control-allow-origin" not in said, route.name
                    if route.name == "getBlob" and answer.status == 200:
                        assert said["content-disposition"] == "attachment"
                        assert await answer.text() == page
        assert {"application/json", "application/octet-stream", "text/event-stream"} <= seen
