"""Credentials: every source, bound to one endpoint, renewed and rotated, and never shown."""

from __future__ import annotations

import asyncio
import copy
import pathlib
import pickle
import traceback
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from aiohttp import web

from windlass.events.errors import UsageError
from windlass.models.catalogue import credentials, oauth
from windlass.models.catalogue.credentials import (
    CredentialError,
    Credentials,
    Rotated,
    Secret,
    from_callable,
    from_environment,
    from_file,
    from_keyring,
    from_value,
    origin_of,
)
from windlass.models.catalogue.endpoints import ENDPOINTS
from windlass.models.catalogue.oauth import OAuthSource, expiry_ms, from_oauth

OPENAI = ENDPOINTS["openai"]
SECRET = "sk-very-secret-0123456789"


async def refusal(credential: Credentials) -> tuple[str, str]:
    with pytest.raises(CredentialError) as raised:
        await credential()
    shown = "".join(traceback.format_exception(raised.value)) + repr(raised.value) + repr(raised.value.failure)
    assert SECRET not in shown
    return raised.value.failure.kind, raised.value.failure.message


async def test_fixed_value_is_given_and_cannot_be_renewed():
    credential = from_value(OPENAI, f"  {SECRET}\n")
    assert await credential() == SECRET
    assert await credential.refused(SECRET) is False


async def test_environment_is_read_anew_for_each_request():
    environ = {"OPENAI_API_KEY": SECRET}
    credential = from_environment(OPENAI, environ=environ)
    assert await credential() == SECRET
    assert await credential.refused(SECRET) is False
    environ["OPENAI_API_KEY"] = "sk-next"
    assert await credential.refused(SECRET) is True
    assert await credential() == "sk-next"


async def test_missing_variable_names_what_to_set():
    credential = from_environment(ENDPOINTS["gemini"], environ={"GEMINI_API_KEY": " "})
    assert await refusal(credential) == (
        "no_credentials",
        "no key for 'gemini': set GEMINI_API_KEY or GOOGLE_API_KEY (in Python also: credential=)",
    )
    assert await credential.refused("x") is False


async def test_variable_may_have_another_name(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TEAM_KEY", SECRET)
    assert await from_environment(OPENAI, "TEAM_KEY")() == SECRET
    with pytest.raises(UsageError, match="'ollama' has no usual key variable"):
        from_environment(ENDPOINTS["ollama"])


async def test_file_is_read_anew(tmp_path: pathlib.Path):
    path = tmp_path / "key"
    credential = from_file(OPENAI, path)
    kind, message = await refusal(credential)
    assert kind == "no_credentials"
    assert message.endswith("cannot be read: No such file or directory")
    assert await credential.refused("x") is False
    path.write_text(SECRET + "\n")
    assert await credential() == SECRET
    path.write_text("sk-next")
    assert await credential.refused(SECRET) is True
    path.write_bytes(b"\xff\xfe\xff")
    assert (await refusal(credential))[1].endswith("it is not text")


class Ring:
    """What the keyring library offers, in memory."""

    def __init__(self) -> None:
        self.entries: dict[tuple[str, str], str] = {}

    def get_password(self, service: str, user: str) -> str | None:
        if service == "locked":
            raise RuntimeError(f"locked: {SECRET}")
        return self.entries.get((service, user))


async def test_keyring_entry_is_used():
    ring = Ring()
    credential = from_keyring(OPENAI, backend=ring)
    assert await refusal(credential) == (
        "no_credentials",
        "the keyring has no entry 'windlass' / 'openai' for 'openai': store it there",
    )
    ring.entries["windlass", "openai"] = SECRET
    assert await credential() == SECRET
    assert await credential.refused(SECRET) is False
    ring.entries["windlass", "openai"] = "sk-next"
    assert await credential.refused(SECRET) is True


async def test_keyring_that_fails_shows_only_the_type():
    credential = from_keyring(OPENAI, "locked", backend=Ring())
    assert await refusal(credential) == ("no_credentials", "the keyring failed for 'openai': RuntimeError")
    assert await credential.refused("x") is False


def test_missing_keyring_library_names_the_extra(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(__import__("sys").modules, "keyring", None)
    with pytest.raises(UsageError, match=r"pip install 'windlass\[keyring\]'"):
        from_keyring(OPENAI)


async def test_callable_with_refresh_rotates_once_for_many_requests():
    seen: list[Rotated] = []
    asked: list[str] = []

    async def get() -> str:
        return "one"

    def refresh(old: str) -> str:
        asked.append(old)
        return "two"

    credential = from_callable(OPENAI, get, refresh=refresh, on_rotate=seen.append)
    assert await credential() == "one"
    assert await credential.refused("one") is True
    assert await credential.refused("one") is True
    assert await credential() == "two"
    assert asked == ["one"]
    assert [(rotated.endpoint, rotated.access.reveal()) for rotated in seen] == [("openai", "two")]


async def test_callable_without_refresh_cannot_be_renewed():
    assert await from_callable(OPENAI, lambda: SECRET).refused(SECRET) is False


async def test_refresh_that_gives_nothing_asks_for_a_person():
    values = [SECRET]
    credential = from_callable(OPENAI, lambda: values[-1], refresh=lambda old: None)
    assert await credential.refused(SECRET) is True
    assert await refusal(credential) == (
        "reauth_required",
        "the sign-in for 'openai' is no longer valid: sign in again",
    )
    values.append("signed-in-again")
    assert await credential() == "signed-in-again"


async def test_function_that_raises_shows_only_the_type():
    def get() -> str:
        raise ValueError(f"bad {SECRET}")

    assert await refusal(from_callable(OPENAI, get)) == (
        "no_credentials",
        "the credential function for 'openai' raised ValueError",
    )


async def test_function_may_say_itself_what_is_wrong():
    def get() -> str:
        raise CredentialError(credentials.sign_in_again("mine"))

    assert (await refusal(from_callable(OPENAI, get)))[0] == "reauth_required"


async def test_hook_that_fails_costs_a_warning_and_not_the_token():
    async def hook(rotated: Rotated) -> None:
        raise OSError(rotated.access.reveal())

    credential = from_callable(OPENAI, lambda: "one", refresh=lambda old: SECRET, on_rotate=hook)
    with pytest.warns(RuntimeWarning, match="rotation hook for 'openai' raised OSError") as caught:
        assert await credential.refused("one") is True
    assert SECRET not in str(caught[0].message)
    assert await credential() == SECRET


@pytest.mark.parametrize("value", ["", "  ", "two\nlines", "tab\there", "schlüssel", "x" * 20_000])
async def test_value_that_no_header_can_carry_is_refused_unseen(value: str):
    kind, message = await refusal(from_value(OPENAI, value))
    assert kind == "no_credentials"
    assert value.strip() == "" or value not in message


def test_bound_to_scheme_host_and_port():
    credential = from_value(OPENAI, SECRET)
    credential.check_bound_to(ENDPOINTS["openai-responses"])
    moved = msgspec.structs.replace(OPENAI, base_url="http://api.openai.com/v1")
    for other in (ENDPOINTS["anthropic"], moved):
        with pytest.raises(UsageError, match=r"belongs to 'openai' at https://api\.openai\.com:443"):
            credential.check_bound_to(other)


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("https://a.example/v1", "https://a.example:443"),
        ("https://A.example:443", "https://a.example:443"),
        ("http://127.0.0.1:8080/v1/", "http://127.0.0.1:8080"),
    ],
)
def test_origin_of(url: str, origin: str):
    assert origin_of(url) == origin


def test_no_view_of_a_credential_shows_its_value():
    credential = from_value(OPENAI, SECRET)
    secret = Secret(SECRET)
    rotated = Rotated("openai", secret, secret, 5)
    for thing in (credential, secret, rotated):
        assert SECRET not in f"{thing!r} {thing!s} {thing}"
    for thing in (credential, secret):
        with pytest.raises(TypeError, match="cannot be pickled"):
            pickle.dumps(thing)
        assert copy.deepcopy(thing) is thing
        assert copy.copy(thing) is thing
    assert secret == Secret(SECRET)
    assert secret != SECRET
    with pytest.raises(TypeError):
        hash(secret)


# --- OAuth -------------------------------------------------------------------------------------------------------


class TokenServer:
    """A token endpoint on loopback: answers from a list and keeps what it was sent."""

    def __init__(self, answers: list[tuple[int, Any]]) -> None:
        self.answers = answers
        self.forms: list[dict[str, str]] = []
        self.url = ""

    async def handle(self, request: web.Request) -> web.Response:
        self.forms.append({key: str(value) for key, value in (await request.post()).items()})
        await asyncio.sleep(0)
        status, body = self.answers.pop(0)
        if isinstance(body, str):
            headers = {"Location": self.url} if status == 302 else {}
            return web.Response(status=status, text=body, headers=headers)
        return web.json_response(body, status=status)


@asynccontextmanager
async def token_server(*answers: tuple[int, Any]) -> AsyncIterator[TokenServer]:
    server = TokenServer(list(answers))
    app = web.Application()
    app.router.add_post("/token", server.handle)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    server.url = f"http://127.0.0.1:{port}/token"
    try:
        yield server
    finally:
        await runner.cleanup()


def sign_in(server: TokenServer, **more: Any) -> Credentials:
    return from_oauth(
        OPENAI, token_url=server.url, client_id="windlass-host", refresh_token="refresh-1", scope="models", **more
    )


async def test_oauth_refreshes_once_for_concurrent_requests_and_tells_the_host():
    seen: list[Rotated] = []
    answer = {"access_token": "access-1", "refresh_token": "refresh-2", "expires_in": 3600, "token_type": "bearer"}
    async with token_server((200, answer)) as server:
        credential = sign_in(server, client_secret="shh", on_rotate=seen.append, now_ms=lambda: 1_000)
        assert await asyncio.gather(*(credential() for _ in range(5))) == ["access-1"] * 5
    assert server.forms == [
        {
            "grant_type": "refresh_token",
            "refresh_token": "refresh-1",
            "client_id": "windlass-host",
            "client_secret": "shh",
            "scope": "models",
        }
    ]
    (rotated,) = seen
    assert rotated.refresh == Secret("refresh-2")
    assert rotated.expires_at_ms == 3_601_000


async def test_oauth_uses_the_rotated_refresh_token_when_the_access_token_ends():
    clock = [0]
    first = {"access_token": "access-1", "refresh_token": "refresh-2", "expires_in": "120"}
    async with token_server((200, first), (200, {"access_token": "access-2"})) as server:
        credential = sign_in(server, now_ms=lambda: clock[0])
        assert await credential() == "access-1"
        clock[0] = 59_999
        assert await credential() == "access-1"
        clock[0] = 60_000
        assert await credential() == "access-2"
        clock[0] = 10**12
        assert await credential() == "access-2"
    assert [form["refresh_token"] for form in server.forms] == ["refresh-1", "refresh-2"]


async def test_oauth_refused_token_is_renewed_and_a_newer_one_is_left_alone():
    async with token_server((200, {"access_token": "access-2"})) as server:
        credential = sign_in(server, access_token="access-1")
        assert await credential() == "access-1"
        assert await credential.refused("access-1") is True
        assert await credential() == "access-2"
        assert await credential.refused("access-1") is True
        assert await credential() == "access-2"


async def test_oauth_revoked_sign_in_needs_a_person_and_is_not_tried_again():
    refused = {"error": "invalid_grant", "error_description": SECRET}
    async with token_server((400, refused), (200, {"access_token": "access-9"})) as server:
        credential = sign_in(server)
        for _ in range(2):
            assert (await refusal(credential))[0] == "reauth_required"
        assert len(server.forms) == 1
        assert isinstance(credential.source, OAuthSource)
        credential.source.signed_in("refresh-9")
        assert await credential() == "access-9"
        assert server.forms[1]["refresh_token"] == "refresh-9"


@pytest.mark.parametrize(
    ("status", "body", "kind", "retryable"),
    [
        (401, {"error": "invalid_client"}, "auth", False),
        (400, {"error": SECRET}, "auth", False),
        (400, {"error": {"code": 7}}, "auth", False),
        (429, {}, "rate_limited", True),
        (503, "<html>down</html>", "server_error", True),
        (302, "elsewhere", "redirected", False),
        (200, {"token_type": "bearer"}, "malformed_reply", True),
        (200, "[]", "malformed_reply", True),
        (200, b"\xff".decode("latin-1") * 3, "malformed_reply", True),
    ],
)
async def test_oauth_answers_without_a_token_are_typed(status: int, body: Any, kind: str, retryable: bool):
    async with token_server((status, body)) as server:
        with pytest.raises(CredentialError) as raised:
            await sign_in(server)()
    assert (raised.value.failure.kind, raised.value.failure.retryable) == (kind, retryable)
    assert SECRET not in str(raised.value)
    assert len(server.forms) == 1


async def test_oauth_endpoint_that_is_not_there():
    async with token_server() as server:
        pass
    kind, message = await refusal(sign_in(server))
    assert (kind, message) == ("connect_failed", "the token endpoint '127.0.0.1' for 'openai' did not answer")


async def test_oauth_endpoint_that_stalls_times_out(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(oauth, "REFRESH_TIMEOUT_S", 0.05)

    async def never(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(-1)
        writer.close()
        await writer.wait_closed()
        gone.set()

    gone = asyncio.Event()
    listener = await asyncio.start_server(never, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}/token"
    credential = from_oauth(OPENAI, token_url=url, client_id="c", refresh_token=SECRET)
    assert (await refusal(credential))[0] == "total_timeout"
    await gone.wait()
    listener.close()


def test_oauth_serves_one_loop_after_the_other():
    async def ask(credential: Credentials, server: TokenServer) -> list[str]:
        await credential.refused("access-1")
        return list(await asyncio.gather(credential(), credential()))

    async def round_of(make: Callable[[TokenServer], Credentials]) -> list[str]:
        async with token_server((200, {"access_token": "access-1"})) as server:
            return await ask(make(server), server)

    kept: list[Credentials] = []

    def once(server: TokenServer) -> Credentials:
        if not kept:
            kept.append(sign_in(server))
        kept[0].source._token_url = server.url  # type: ignore[attr-defined]  # the next round's own port
        return kept[0]

    assert asyncio.run(round_of(once)) == ["access-1"] * 2
    assert asyncio.run(round_of(once)) == ["access-1"] * 2


def test_oauth_token_endpoint_must_be_https():
    with pytest.raises(UsageError, match="must be https"):
        from_oauth(OPENAI, token_url="http://auth.example/token", client_id="c", refresh_token="r")


@pytest.mark.parametrize(
    ("expires_in", "at"),
    [
        (None, None),
        (0, None),
        (-5, None),
        ("soon", None),
        ("nan", None),
        (float("inf"), None),
        (10, 15_000),
        ("10", 15_000),
        (10**12, 5_000 + oauth.LIFETIME_MAX_MS),
    ],
)
def test_expiry(expires_in: Any, at: int | None):
    assert expiry_ms(expires_in, 5_000) == at
