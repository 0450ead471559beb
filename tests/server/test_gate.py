"""The gate: rates, allowed origins and names, slow clients, tokens as they change, and the socket."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pathlib
import shutil
import stat
import tempfile
from collections.abc import Iterator

import aiohttp
import pytest

from windlass.events.errors import UsageError
from windlass.server.access.limits import Bucket, Limits
from windlass.server.access.token_file import FIRST, TokenFile
from windlass.server.listener import listen_on_address, listen_on_path

from .support import WAIT_S, Client, clerk, serving


@pytest.fixture
def short() -> Iterator[pathlib.Path]:
    """A folder whose path is short enough for a socket."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="wl-", dir="/tmp"))
    yield folder
    shutil.rmtree(folder)


def test_a_bucket_gives_so_many_at_once_and_so_many_each_second():
    now = [0.0]
    bucket = Bucket(2.0, 3, lambda: now[0])
    assert [bucket.take() for _ in range(4)] == [0, 0, 0, 0.5]
    now[0] = 0.5
    assert [bucket.take(), bucket.take()] == [0, 0.5]
    now[0] = 100.0
    assert [bucket.take() for _ in range(4)] == [0, 0, 0, 0.5]


async def test_a_token_that_asks_too_often_waits_and_the_others_do_not(tmp_path):
    async with serving(tmp_path, limits=Limits(rate=0.001, burst=3)) as running:
        admin, other = running.client(), running.client("read")
        answers = [await admin.ask("GET", "/v1/health") for _ in range(4)]
        assert [said.status for said in answers] == [200, 200, 200, 429]
        assert int(answers[3].headers["retry-after"]) > 100
        assert (await other.ask("GET", "/v1/health")).status == 200


async def test_guesses_are_slowed_down_and_do_not_slow_others(tmp_path):
    async with serving(tmp_path, limits=Limits(failures=0.001, failure_burst=2)) as running:
        answers = [await running.stranger(f"guess{n}").ask("GET", "/v1/health") for n in range(3)]
        assert [said.status for said in answers] == [401, 401, 429]
        assert (await running.client().ask("GET", "/v1/health")).status == 200


async def test_tokens_that_cannot_be_read_let_nobody_in_and_strangers_learn_nothing(tmp_path, caplog):
    async with serving(tmp_path) as running:
        admin = running.client()
        running.server.tokens.path.write_bytes(b"damaged")
        said = await admin.ask("GET", "/v1/health")
        assert (said.status, said.json["code"]) == (503, "tokens")
        assert str(tmp_path) not in said.body.decode()
        assert "tokens.json" in caplog.text


async def test_an_origin_and_a_name_are_allowed_if_they_are_named(tmp_path):
    origin = "https://app.example"
    async with serving(tmp_path, origins=[origin], names=["box.example"]) as running:
        admin = running.client()
        said = await admin.ask("GET", "/v1/health", headers={"Origin": origin, "Host": "Box.Example:8443"})
        assert (said.status, said.headers["access-control-allow-origin"]) == (200, origin)
        asks = {"Origin": origin, "Access-Control-Request-Method": "POST"}
        preflight = await running.stranger().ask("OPTIONS", "/v1/sessions", headers=asks)
        assert preflight.status == 204
        assert "Authorization" in preflight.headers["access-control-allow-headers"]
        assert (await admin.ask("GET", "/v1/health", headers={"Origin": origin + ".evil"})).status == 403
        plain = await running.stranger().ask("GET", "/v1/health", headers={"Origin": origin})
        assert plain.status == 401


async def test_a_connection_that_sends_no_request_is_cut_off(tmp_path):
    async with serving(tmp_path, limits=Limits(head_s=0.2)) as running:
        host, port = running.server.url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"GET /v1/health HTTP/1.1\r\nHost: 127")
        with contextlib.suppress(ConnectionError):  # reset, or ended: nothing was said
            assert await reader.read() == b""
        writer.close()


async def test_a_later_request_of_a_connection_that_never_comes_is_cut_off_too(tmp_path):
    async with serving(tmp_path, limits=Limits(head_s=3)) as running:
        host, port = running.server.url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        head = f"GET /v1/health HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {running.client().token}\r\n"
        writer.write(f"{head}\r\n".encode())
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        writer.write(head.encode())
        with contextlib.suppress(ConnectionError):
            while await asyncio.wait_for(reader.read(1000), 60):
                pass
        writer.close()


async def test_a_body_that_never_comes_is_not_waited_for(tmp_path):
    async with serving(tmp_path, limits=Limits(body_s=0.2)) as running:
        host, port = running.server.url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        head = f"POST /v1/blobs HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {running.client().token}\r\n"
        writer.write(f"{head}Content-Length: 5\r\n\r\nab".encode())
        assert (await reader.readline()).startswith(b"HTTP/1.1 408")
        writer.close()


async def test_more_connections_than_there_may_be_are_turned_away(tmp_path):
    async with serving(tmp_path, limits=Limits(connections=3, head_s=600)) as running:
        admin = running.client()
        host, port = running.server.url.removeprefix("http://").split(":")
        idle = [await asyncio.open_connection(host, int(port)) for _ in range(3)]
        while running.server.connections < 3:
            await asyncio.sleep(0)
        assert (await admin.ask("GET", "/v1/health")).status == 503
        for _, writer in idle:
            writer.close()


async def test_a_body_with_two_lengths_is_refused_and_nothing_behind_it_is_read(tmp_path):
    async with serving(tmp_path, [clerk()]) as running:
        token = running.client().token
        host, port = running.server.url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        heads = f"Host: {host}\r\nAuthorization: Bearer {token}\r\n"
        body = "Content-Type: application/json\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
        behind = f"GET /v1/agents HTTP/1.1\r\n{heads}\r\n"
        writer.write(f"POST /v1/sessions HTTP/1.1\r\n{heads}{body}{behind}".encode())  # at once: nothing is left unread
        async with asyncio.timeout(WAIT_S):
            said = await reader.read()  # up to the end of the connection
        writer.close()
        assert (said.startswith(b"HTTP/1.1 400 "), said.count(b"HTTP/1.1 ")) == (True, 1)


async def test_a_unix_socket_is_its_owners_alone_and_replaces_one_that_is_dead(short, tmp_path):
    path = str(short / "w.sock")
    listen_on_path(path).close()  # as a server that was killed leaves it
    async with serving(tmp_path, [clerk()], socket_path=path) as running:
        assert running.server.url == f"unix:{path}"
        assert stat.S_IMODE(os.lstat(path).st_mode) == 0o600
        with pytest.raises(UsageError, match="already: stop it"):
            listen_on_path(path)
        async with aiohttp.ClientSession(connector=aiohttp.UnixConnector(path=path)) as http:
            client = Client(http, "http://localhost", running.client().token)
            assert (await client.get("/v1/health"))["status"] == "ok"
    assert list(short.iterdir()) == []


def test_a_path_that_is_no_place_for_a_socket_is_refused(short):
    (short / "file").write_text("mine")
    with pytest.raises(UsageError, match="is no socket"):
        listen_on_path(str(short / "file"))
    with pytest.raises(UsageError, match="at most 100 bytes"):
        listen_on_path("/" + "x" * 200)
    with pytest.raises(UsageError, match="cannot listen on"):
        listen_on_path(str(short / "none" / "w.sock"))
    taken = listen_on_address("127.0.0.1", 0)
    with pytest.raises(UsageError, match="cannot listen on 127"):
        listen_on_address("127.0.0.1", taken.getsockname()[1])
    taken.close()


def test_the_first_token_is_made_once_and_nobody_else_can_read_either_file(tmp_path):
    tokens = TokenFile(tmp_path / "state" / "tokens.json")
    assert tokens.ensure_first(tenant="default", now_ms=1)
    first = tokens.first_path.read_text().strip()
    assert not TokenFile(tokens.path).ensure_first(tenant="default", now_ms=2)
    found = TokenFile(tokens.path).found(first)
    assert found is not None
    assert (found.name, found.roles, found.tenant) == (FIRST, ("admin",), "default")
    for path in (tokens.path, tokens.first_path):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert first not in tokens.path.read_text()


def test_tokens_are_added_and_revoked_and_other_processes_see_it(tmp_path):
    mine, theirs = TokenFile(tmp_path / "t.json"), TokenFile(tmp_path / "t.json")
    token = mine.add("ada", ["approve", "drive"], tenant="acme")
    found = theirs.found(token)
    assert found is not None
    assert (found.roles, found.tenant) == (("drive", "approve"), "acme")
    assert theirs.found(token + "x") is None
    assert theirs.found("") is None
    mine.revoke("ada")
    assert theirs.found(token) is None
    with pytest.raises(UsageError, match="no token 'ada'"):
        mine.revoke("ada")


@pytest.mark.parametrize(
    ("name", "roles", "tenant"),
    [
        ("", ["read"], "default"),
        ("../x", ["read"], "default"),
        ("a b", ["read"], "default"),
        ("a", [], "default"),
        ("a", ["root"], "default"),
        ("a", ["read"], "a/b"),
        ("a", ["read"], ""),
        ("taken", ["read"], "default"),
    ],
)
def test_a_token_that_means_nothing_is_not_made(tmp_path, name, roles, tenant):
    tokens = TokenFile(tmp_path / "t.json")
    tokens.add("taken", ["read"])
    before = tokens.path.read_bytes()
    with pytest.raises(UsageError):
        tokens.add(name, roles, tenant=tenant)
    assert tokens.path.read_bytes() == before


@pytest.mark.parametrize("data", [b"", b"[]", b'{"tokens":[{"name":"a"}]}', b'{"tokens":[],"more":1}'])
def test_a_file_of_tokens_that_is_damaged_lets_nobody_in(tmp_path, data):
    path = tmp_path / "t.json"
    path.write_bytes(data)
    path.chmod(0o600)
    with pytest.raises(UsageError, match="cannot be read"):
        TokenFile(path).found("anything")


def test_a_file_of_tokens_that_others_can_read_is_refused(tmp_path):
    tokens = TokenFile(tmp_path / "t.json")
    tokens.add("ada", ["read"])
    tokens.path.chmod(0o640)
    with pytest.raises(UsageError, match="chmod 600"):
        TokenFile(tokens.path).tokens()
