"""Logins (OAuth) at a real authorization server on loopback, for a real MCP server on another port: found out about,
agreed to, used, renewed, over, taken back."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import pathlib
import stat
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import pytest

import windlass
from tests.mcp_client.conftest import PATIENCE_S, PATIENT_MS
from tests.mcp_client.loopback import listener, origin_of, running
from tests.mcp_client.test_connection import agreed, nothing, said
from windlass.events.sessions import NoticeGiven
from windlass.events.tools.calls import ToolFinished
from windlass.events.tools.mcp import McpConnected
from windlass.mcp.connection import Connection, LoginWanted
from windlass.mcp.login.addresses import LoginError
from windlass.mcp.login.bearer import Bearer
from windlass.mcp.login.interactive import LoginAsk, login, logout
from windlass.mcp.login.kept_logins import KeptLogins, Login
from windlass.mcp.login.registration import Client
from windlass.mcp.server import McpServer
from windlass.mcp.server_requests import CALL
from windlass.testing.scripted import ScriptedModel, call

if TYPE_CHECKING:
    from tests.mcp_client.authorization_server import Logins


class Vault:
    """A server that wants logins, and who gives them."""

    def __init__(self, url: str, issuer: str, logins: Logins) -> None:
        self.url = url
        self.issuer = issuer
        self.logins = logins
        self.server = McpServer(
            name="vault", transport="sse" if url.endswith("/sse") else "http", url=url, start_timeout_ms=PATIENT_MS
        )

    async def log_in(self, **more: Any) -> Login:
        async with asyncio.timeout(PATIENCE_S):
            return await login(self.url, person, stream=self.url.endswith("/sse"), **more)


@contextlib.asynccontextmanager
async def vault(kind: str = "http", **how: Any) -> AsyncIterator[Vault]:
    from tests.mcp_client.authorization_server import Logins, guarded, issuing

    logins = Logins()
    for name, value in how.items():
        setattr(logins, name, value)
    gate, door = listener(), listener()
    issuer, origin = origin_of(gate), origin_of(door)
    async with (
        running(issuing(logins, issuer), gate),
        running(guarded(logins, issuer, origin, kind), door),
    ):
        yield Vault(f"{origin}/{'mcp' if kind == 'http' else 'sse'}", issuer, logins)


async def person(ask: LoginAsk) -> None:
    """Opens an address as a browser does, and follows where that leads."""
    import httpx2

    async with httpx2.AsyncClient(trust_env=False, follow_redirects=True, timeout=PATIENCE_S) as browser:
        await browser.get(ask.url)


def said_anywhere(folder: pathlib.Path, text: str) -> bool:
    return any(text.encode() in file.read_bytes() for file in folder.iterdir())


# --- the whole way ---


@pytest.mark.parametrize("kind", ["http", "sse"])
async def test_a_server_that_wants_a_login_is_used_once_somebody_has_logged_in(kind: str) -> None:
    async with vault(kind) as place:
        connection = Connection(place.server)
        with pytest.raises(LoginWanted, match=f"it wants a login: run 'windlass mcp login {place.url}'"):
            await connection.connect()
        given = await place.log_in()
        connection.restarts.worked()
        connection.agreed = (await connection.connect()).digest
        assert said(await connection.call("vault__opens", {"door": "one"}, nothing)) == "opened one"
        await connection.close()
        (asked,) = place.logins.asked
    assert asked.resource == place.url
    assert asked.scopes == ["files"]
    assert len(asked.code_challenge) == 43
    assert (given.url, given.issuer.rstrip("/"), given.scope) == (place.url, place.issuer, "files")


async def test_what_a_person_is_shown_names_the_server_who_gives_logins_and_what_for() -> None:
    shown: list[LoginAsk] = []

    async def looks(ask: LoginAsk) -> None:
        shown.append(ask)
        await person(ask)

    async with vault() as place:
        await login(place.url, looks)
    (ask,) = shown
    assert (ask.server, ask.issuer.rstrip("/"), ask.scopes) == (place.url, place.issuer, ("files",))
    query = parse_qs(urlsplit(ask.url).query)
    assert query["code_challenge_method"] == ["S256"]
    assert query["redirect_uri"][0].startswith("http://127.0.0.1:")


async def test_a_login_is_kept_where_its_owner_alone_can_read_it() -> None:
    async with vault() as place:
        given = await place.log_in()
    kept = KeptLogins()
    path = kept.path(place.url)
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(kept.folder).st_mode) == 0o700
    assert kept.of(place.url) == given
    assert given.access_token not in repr(given)
    os.chmod(path, 0o640)
    with pytest.raises(LoginError, match="must be its owner's alone"):
        kept.of(place.url)


async def test_a_session_without_a_login_is_told_and_works_on_and_with_one_it_uses_the_server(
    tmp_path: pathlib.Path,
) -> None:
    async with vault() as place:
        script: list[Any] = ["nobody is there", call("vault__opens", door="one"), "done"]
        agent = windlass.Agent("clerk", ScriptedModel(script), policy=windlass.ALLOW_ALL, mcp=[place.server])
        async with windlass.open(str(tmp_path / "work.db"), agents=[agent]) as runtime:
            session = await runtime.session(agent, "one")
            await session.prompt("open it")
            await session.wait_idle()
            found = [record.event async for record in session.records()]
        told = [each.message for each in found if isinstance(each, NoticeGiven) and each.code == "mcp_failed"]
        assert told == [f"MCP server 'vault': it wants a login: run 'windlass mcp login {place.url}'"]
        given = await place.log_in()
        async with windlass.open(str(tmp_path / "work.db"), agents=[agent]) as runtime:
            session = await runtime.session(agent, "one")
            await session.prompt("open it now")
            await session.wait_idle()
            found = [record.event async for record in session.records()]
    (finished,) = [each for each in found if isinstance(each, ToolFinished)]
    assert finished.ok
    assert [each.status for each in found if isinstance(each, McpConnected)] == ["failed", "connected"]
    assert not any(said_anywhere(tmp_path, token) for token in (given.access_token, given.refresh_token))


async def test_a_call_that_says_a_token_has_it_hidden_in_the_log(tmp_path: pathlib.Path) -> None:
    async with vault() as place:
        given = await place.log_in()
        script: list[Any] = [call("vault__opens", door=given.access_token), "done"]
        agent = windlass.Agent("clerk", ScriptedModel(script), policy=windlass.ALLOW_ALL, mcp=[place.server])
        async with windlass.open(str(tmp_path / "work.db"), agents=[agent]) as runtime:
            session = await runtime.session(agent, "one")
            await session.prompt("open it")
            await session.wait_idle()
    assert not said_anywhere(tmp_path, given.access_token)
    assert said_anywhere(tmp_path, "[hidden]")


# --- renewing ---


async def test_a_login_that_is_over_is_renewed_before_it_is_used() -> None:
    async with vault(lasts_s=0) as place:
        first = await place.log_in()
        place.logins.lasts_s = 3_600
        connection = await agreed(place.server)
        assert said(await connection.call("vault__opens", {"door": "one"}, nothing)) == "opened one"
        await connection.close()
        kept = KeptLogins().of(place.url)
    assert kept is not None
    assert place.logins.renewals == 1
    assert (kept.issuer, kept.token_endpoint, kept.client) == (first.issuer, first.token_endpoint, first.client)
    assert kept.access_token != first.access_token
    assert kept.refresh_token != first.refresh_token


async def test_a_login_that_is_refused_is_renewed_once_and_the_request_made_again() -> None:
    async with vault() as place:
        await place.log_in()
        connection = await agreed(place.server)
        place.logins.access.clear()  # as if it had been over earlier than was said
        assert said(await connection.call("vault__opens", {"door": "one"}, nothing)) == "opened one"
        assert place.logins.renewals == 1
        await connection.close()


async def test_many_that_need_a_new_login_at_once_renew_it_once() -> None:
    """Renewing takes the older login away: whoever did it a second time would end it for all."""
    async with vault(lasts_s=0) as place:
        await place.log_in()
        place.logins.lasts_s = 3_600
        users = [Bearer(place.server, CALL) for _ in range(8)]
        tokens = await asyncio.gather(*(user.token() for user in users))
    assert len(set(tokens)) == 1
    assert place.logins.renewals == 1


async def test_a_login_that_was_revoked_is_said_to_be_over_and_the_run_goes_on(tmp_path: pathlib.Path) -> None:
    async with vault() as place:
        await place.log_in()
        script: list[Any] = ["ready", call("vault__opens", door="one"), "done"]
        agent = windlass.Agent("clerk", ScriptedModel(script), policy=windlass.ALLOW_ALL, mcp=[place.server])
        async with windlass.open(str(tmp_path / "work.db"), agents=[agent]) as runtime:
            session = await runtime.session(agent, "one")
            await session.prompt("are you ready?")
            await session.wait_idle()
            place.logins.access.clear()
            place.logins.refresh.clear()
            await session.prompt("open it")
            result = await session.result()
            found = [record.event async for record in session.records()]
    assert result.ok
    (finished,) = [each for each in found if isinstance(each, ToolFinished)]
    assert not finished.ok
    (told,) = [each for each in found if isinstance(each, NoticeGiven) and each.code == "mcp_login"]
    assert "gives no login: 400 invalid_grant" in told.message
    assert f"run 'windlass mcp login {place.url}'" in told.message
    assert told.call_id == finished.call_id


async def test_a_login_that_cannot_be_renewed_is_over() -> None:
    async with vault(lasts_s=0, renewable=False) as place:
        await place.log_in()
        connection = Connection(place.server)
        with pytest.raises(LoginWanted, match="its login is over, and cannot be renewed: run 'windlass mcp login"):
            await connection.connect()
        await connection.close()


async def test_a_login_is_renewed_where_it_was_given_and_nowhere_else() -> None:
    """Also if the server names somebody else by now, and after everything but the file is forgotten."""
    async with vault(lasts_s=0) as place:
        given = await place.log_in()
        place.logins.lasts_s = 3_600
        asked: list[str] = []

        async def notes(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            asked.append((await reader.readuntil(b"\r\n\r\n")).decode())
            writer.write(b"HTTP/1.1 401 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            writer.close()

        door = await asyncio.start_server(notes, "127.0.0.1", 0)
        async with door:
            port = door.sockets[0].getsockname()[1]
            elsewhere = f"http://127.0.0.1:{port}/mcp"
            KeptLogins().keep(
                Login(**{name: getattr(given, name) for name in given.__struct_fields__} | {"url": elsewhere})
            )
            server = McpServer(name="other", transport="http", url=elsewhere, start_timeout_ms=PATIENT_MS)
            connection = Connection(server)
            with pytest.raises(LoginWanted, match="its login is not taken any more"):
                await connection.connect()
            await connection.close()
    assert asked
    assert not any(given.refresh_token in head or "refresh" in head for head in asked)
    assert place.logins.renewals >= 2  # it was over, and then it was refused


async def test_a_server_of_a_file_is_named_as_one_types_it(tmp_path: pathlib.Path) -> None:
    from windlass.mcp.config import servers_of_file

    async with vault() as place:
        path = tmp_path / "my servers.json"
        path.write_text(json.dumps({"mcpServers": {"vault": {"url": place.url, "startTimeout": PATIENT_MS}}}))
        connection = Connection(servers_of_file(path)[0])
        with pytest.raises(LoginWanted) as told:
            await connection.connect()
        await connection.close()
    assert str(told.value) == f"it wants a login: run: windlass mcp login vault '{path}'"


# --- logging out, and not logging in ---


async def test_logging_out_takes_the_login_back_and_forgets_it() -> None:
    async with vault() as place:
        await place.log_in()
        assert await logout(place.url) is True
        assert (place.logins.access, place.logins.refresh) == ({}, {})
        assert KeptLogins().of(place.url) is None
        assert await logout(place.url) is None


async def test_a_login_is_forgotten_even_if_nobody_can_take_it_back() -> None:
    async with vault() as place:
        await place.log_in()
    with pytest.raises(LoginError, match="cannot be asked"):
        await logout(place.url)
    assert KeptLogins().of(place.url) is None


async def test_a_person_who_refuses_leaves_what_was_kept() -> None:
    async with vault() as place:
        given = await place.log_in()
        place.logins.refuses = True
        with pytest.raises(LoginError, match="gave no login: access_denied"):
            await place.log_in()
        assert KeptLogins().of(place.url) == given


async def test_a_server_with_a_header_of_its_own_gets_no_login() -> None:
    async with vault() as place:
        given = await place.log_in()
        bad = {"Authorization": "Bearer something-of-their-own"}
        server = McpServer(name="vault", transport="http", url=place.url, headers=bad, start_timeout_ms=PATIENT_MS)
        connection = Connection(server)
        with pytest.raises(Exception, match="error response"):
            await connection.connect()
        await connection.close()
        assert place.logins.renewals == 0
        assert given.access_token in place.logins.access


async def test_a_login_at_one_server_is_not_sent_to_another() -> None:
    async with vault() as one, vault() as other:
        given = await one.log_in()
        with pytest.raises(LoginWanted, match="it wants a login"):
            await Connection(other.server).connect()
        kept = KeptLogins()
        os.rename(kept.path(one.url), kept.path(other.url))
        with pytest.raises(LoginError, match="is one at another server"):
            kept.of(other.url)
        assert given.url == one.url


async def test_nobody_comes_back() -> None:
    async def goes_away(ask: LoginAsk) -> None:
        return None

    async with vault() as place:
        with pytest.raises(LoginError, match=r"nobody came back within 0.01 s"):
            await login(place.url, goes_away, wait_s=0.01)
        assert KeptLogins().of(place.url) is None


def test_a_damaged_login_is_said_to_be_one(tmp_path: pathlib.Path) -> None:
    kept = KeptLogins(str(tmp_path / "logins"))
    url = "https://example.com/mcp"
    given = Login(
        url=url, resource=url, issuer="https://i.invalid", token_endpoint="https://i.invalid/t",
        client=Client(client_id="c"), access_token="a" * 20,
    )  # fmt: skip
    kept.keep(given)
    assert kept.of("https://EXAMPLE.com:443/mcp") == given
    for damaged in (b"{", b'{"url": "\xff"}'):
        pathlib.Path(kept.path(url)).write_bytes(damaged)
        with pytest.raises(LoginError, match="is damaged: log in again"):
            kept.of(url)


@pytest.mark.parametrize("verb", ["login", "logout"])
def test_a_name_that_two_servers_have_says_nothing_of_which_is_meant(
    verb: str, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A stranger's file could give its server the name of a known one."""
    from windlass.cli.main import main
    from windlass.mcp.trust import TrustRecords, key_of, sight_of

    for number in (1, 2):
        server = McpServer(name="docs", origin=f"/f{number}", transport="http", url=f"http://127.0.0.1:{number}/mcp")
        TrustRecords().saw(server, key_of(server, ""), sight_of(server))
        (tmp_path / f"{number}.json").write_text(json.dumps({"mcpServers": {"docs": {"url": server.url}}}))
    for files in ([], [str(tmp_path / "1.json"), str(tmp_path / "2.json")]):
        assert main(["mcp", verb, "docs", *files]) != 0
        assert "2 MCP servers are called 'docs', at different addresses: give the" in capsys.readouterr().err


def test_what_cannot_be_forgotten_is_said_in_words(tmp_path: pathlib.Path) -> None:
    kept = KeptLogins(str(tmp_path / "logins"))
    url = "https://example.com/mcp"
    os.makedirs(kept.path(url))
    with pytest.raises(LoginError, match="cannot be forgotten"):
        kept.forget(url)


def test_a_login_that_stays_here_is_not_said_to_be_forgotten(capsys: pytest.CaptureFixture[str]) -> None:
    """Where others may write, no login is used or changed: a person who logs out has to hear that it is still there."""
    from windlass.cli.main import main

    kept, url = KeptLogins(), "http://127.0.0.1:1/mcp"
    given = Login(
        url=url, resource=url, issuer="http://127.0.0.1:1", token_endpoint="http://127.0.0.1:1/t",
        revocation_endpoint="http://127.0.0.1:1/r", client=Client(client_id="c"), access_token="a" * 20,
    )  # fmt: skip
    kept.keep(given)
    os.chmod(kept.folder, 0o777)
    assert main(["mcp", "logout", url]) != 0
    assert "it is still kept here" in capsys.readouterr().err
    assert kept.of(url) == given
    os.chmod(kept.folder, 0o700)
    assert main(["mcp", "logout", url]) != 0
    assert "it is forgotten here, but may still hold" in capsys.readouterr().err
    assert kept.of(url) is None
    os.chmod(kept.folder, 0o777)
    assert main(["mcp", "logout", url]) != 0
    assert "nobody was logged in" in capsys.readouterr().err
