"""What is refused of servers and authorization servers that want more than a login: other people's codes, addresses
inside, plain HTTP, floods, words in our commands and logs."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest

from tests.mcp_client.conftest import PATIENCE_S
from tests.mcp_client.loopback import listener, origin_of, running
from windlass.events.stored.known_secrets import SECRETS
from windlass.mcp.login.addresses import LoginEnded, LoginError, address, covers, resource, whereabouts
from windlass.mcp.login.bearer import Bearer, may_log_in
from windlass.mcp.login.consent import Consent, NotOurs, chosen
from windlass.mcp.login.discovery import AuthorizationServer, Found, listed, parameter
from windlass.mcp.login.grants import renewed
from windlass.mcp.login.interactive import LoginAsk, login
from windlass.mcp.login.kept_logins import KeptLogins, Login
from windlass.mcp.login.redirect_listener import STRANGE, listening
from windlass.mcp.login.registration import Client
from windlass.mcp.server import McpServer
from windlass.mcp.server_requests import CALL

OUTSIDE = "https://example.com/mcp"
Reply = tuple[int, dict[str, str], bytes]


class Liar:
    """A server, and who gives logins for it, in one: it says what a test has it say."""

    def __init__(self, origin: str) -> None:
        self.origin = origin
        self.seen: list[tuple[str, str, bytes, dict[str, str]]] = []
        self.challenge = "Bearer"
        self.resource: Any = {"resource": f"{origin}/mcp", "authorization_servers": [origin]}
        self.metadata: Any = {
            "issuer": origin,
            "authorization_endpoint": f"{origin}/authorize",
            "token_endpoint": f"{origin}/token",
            "registration_endpoint": f"{origin}/register",
            "code_challenge_methods_supported": ["S256"],
        }
        self.client: Any = {"client_id": "c1"}
        self.token: Any = {"access_token": "t" * 20, "token_type": "Bearer"}
        self.back: dict[str, str] = {}
        """What whoever comes back brings beside a code and the state."""
        self.instead: dict[str, Reply] = {}

    def reply(self, method: str, path: str) -> Reply:
        if path in self.instead:
            return self.instead[path]
        match path:
            case "/mcp":
                return 401, {"www-authenticate": self.challenge}, b""
            case "/.well-known/oauth-protected-resource/mcp" if self.resource is not None:
                return self._json(200, self.resource)
            case "/.well-known/oauth-authorization-server":
                return self._json(200, self.metadata)
            case "/register":
                return self._json(201, self.client)
            case "/token":
                return self._json(200 if "access_token" in self.token else 400, self.token)
        return 404, {}, b""

    def _json(self, status: int, body: Any) -> Reply:
        return status, {"content-type": "application/json"}, json.dumps(body).encode()

    async def app(self, scope: Any, receive: Any, send: Any) -> None:
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        self.seen.append((scope["method"], scope["path"], body, headers))
        status, more, data = self.reply(scope["method"], scope["path"])
        raw = [(name.encode(), value.encode()) for name, value in more.items()]
        await send({"type": "http.response.start", "status": status, "headers": raw})
        await send({"type": "http.response.body", "body": data})

    async def person(self, ask: LoginAsk) -> None:
        """Agrees, and comes back as this server has them come back."""
        import httpx2

        query = {name: values[0] for name, values in parse_qs(urlsplit(ask.url).query).items()}
        brought = {"code": "a-code", "state": query["state"], **self.back}
        async with httpx2.AsyncClient(trust_env=False, timeout=PATIENCE_S) as browser:
            await browser.get(f"{query['redirect_uri']}?{urlencode(brought)}")

    async def log_in(self, **more: Any) -> Login:
        async with asyncio.timeout(PATIENCE_S):
            return await login(f"{self.origin}/mcp", self.person, **more)

    def asked(self, path: str) -> list[tuple[bytes, dict[str, str]]]:
        return [(body, headers) for _, at, body, headers in self.seen if at == path]


@contextlib.asynccontextmanager
async def liar() -> AsyncIterator[Liar]:
    place = listener()
    found = Liar(origin_of(place))
    async with running(found.app, place, lifespan="off"):
        yield found


async def test_a_server_that_does_not_lie_gives_a_login() -> None:
    """Else nothing below would prove anything."""
    async with liar() as place:
        given = await place.log_in()
        assert given.access_token == "t" * 20
        form = parse_qs(place.asked("/token")[0][0].decode())
        assert (form["grant_type"], form["code"]) == (["authorization_code"], ["a-code"])
        assert form["resource"] == [f"{place.origin}/mcp"]


Lie = Callable[[Liar], object]


def speak_from_a_corner(place: Liar) -> None:
    """Metadata that anybody could have put on a host who has a folder there."""
    place.challenge = f'Bearer resource_metadata="{place.origin}/mine/meta"'
    place.instead["/mine/meta"] = place._json(200, {**place.resource, "resource": place.origin})


LIES: list[tuple[str, Lie, str]] = [
    ("metadata elsewhere", lambda p: setattr(p, "challenge", 'Bearer resource_metadata="http://127.0.0.1:1/m"'),
     "has its metadata elsewhere"),
    ("another resource", lambda p: p.resource.update(resource="https://bank.example/api"), "a login for that is not"),
    ("a resource beside it", lambda p: p.resource.update(resource=f"{p.origin}/mc"), "a login for that is not"),
    ("a resource that is no text", lambda p: p.resource.update(resource=7), "the resource is no address"),
    ("a whole host that others share", lambda p: speak_from_a_corner(p), "a login for that is not"),
    ("no issuer", lambda p: p.resource.update(authorization_servers=[]), "does not say who gives logins"),
    ("an issuer over plain HTTP", lambda p: p.resource.update(authorization_servers=["http://login.example"]),
     "is not https"),
    ("an issuer with a password", lambda p: p.resource.update(authorization_servers=["https://a:b@login.example"]),
     "a name, a password"),
    ("an issuer that is a script", lambda p: p.resource.update(authorization_servers=["javascript:alert(1)"]),
     "or no host"),
    ("an issuer with a query", lambda p: p.resource.update(authorization_servers=[f"{p.origin}?a=b"]), "a query in it"),
    ("mixed-up metadata", lambda p: p.metadata.update(issuer="https://bank.example"), "they are not believed"),
    ("no PKCE", lambda p: p.metadata.update(code_challenge_methods_supported=["plain"]), "does not take PKCE"),
    ("PKCE unsaid", lambda p: p.metadata.pop("code_challenge_methods_supported"), "does not take PKCE"),
    ("tokens in addresses", lambda p: p.metadata.update(response_types_supported=["token"]), "gives no codes"),
    ("no token endpoint", lambda p: p.metadata.pop("token_endpoint"), "names no token_endpoint"),
    ("a plain token endpoint", lambda p: p.metadata.update(token_endpoint="http://login.example/t"), "is not https"),
    ("a plain page", lambda p: p.metadata.update(authorization_endpoint="http://login.example/t"), "is not https"),
    ("a page that is a file", lambda p: p.metadata.update(authorization_endpoint="file:///etc/passwd"), "or no host"),
    ("codes of somebody else", lambda p: p.metadata.update(authorization_endpoint="https://bank.example/authorize"),
     "a login of somebody else could be taken"),
    ("a page that says where to", lambda p: p.metadata.update(
        authorization_endpoint=f"{p.origin}/authorize?redirect_uri=https://evil.example"), "that is ours to say"),
    ("a strange way to say who we are", lambda p: p.metadata.update(
        token_endpoint_auth_methods_supported=["private_key_jwt"]), "takes none of"),
    ("no registration", lambda p: p.metadata.pop("registration_endpoint"), "takes only clients that it knows"),
    ("a client without an id", lambda p: setattr(p, "client", {"client_id": "a b"}), "without an id"),
    ("a client without its secret", lambda p: p.client.update(token_endpoint_auth_method="client_secret_post"),
     "to say who it is by"),
    ("back from somebody else", lambda p: p.back.update(iss="https://bank.example"), "was sent by"),
    ("back from nobody", lambda p: p.metadata.update(authorization_response_iss_parameter_supported=True),
     "does not say who sent them"),
    ("back without a code", lambda p: p.back.update(code=""), "brought no code"),
    ("a token that is no bearer's", lambda p: p.token.update(token_type="mac"), "used otherwise"),
    ("a token that is a word", lambda p: p.token.update(access_token="completed"), "a strange form"),
    ("a token with a line in it", lambda p: p.token.update(access_token="t" * 20 + "\r\nX: y"), "a strange form"),
    ("no token", lambda p: p.token.update(access_token=None), "gave no token"),
    ("huge metadata", lambda p: p.metadata.update(more="x" * 300_000), "answered with more than 262144 bytes"),
    ("a huge token", lambda p: p.token.update(more="x" * 300_000), "answered with more than 262144 bytes"),
    ("metadata that are no JSON", lambda p: p.instead.update(
        {"/.well-known/oauth-authorization-server": (200, {}, b"<html>")}), "is no object of JSON"),
    ("metadata that lead away", lambda p: p.instead.update(
        {"/.well-known/oauth-authorization-server": (302, {"location": "https://bank.example/m"}, b"")}),
     "does not say how it gives logins"),
    ("a token endpoint that leads away", lambda p: p.instead.update(
        {"/token": (307, {"location": "http://127.0.0.1:1/token"}, b"")}), "gives no login: 307"),
    ("packed metadata", lambda p: p.instead.update(
        {"/.well-known/oauth-authorization-server": (200, {"content-encoding": "gzip"}, b"x")}), "packed its answer"),
    ("trouble there", lambda p: p.instead.update(
        {"/.well-known/oauth-protected-resource/mcp": (503, {}, b"")}), "answered 503: try again later"),
]  # fmt: skip


@pytest.mark.parametrize(("lie", "why"), [each[1:] for each in LIES], ids=[each[0] for each in LIES])
async def test_a_lie_gives_no_login(lie: Lie, why: str) -> None:
    async with liar() as place:
        lie(place)
        with pytest.raises(LoginError) as told:
            await place.log_in()
        assert why in str(told.value)
        assert KeptLogins().of(f"{place.origin}/mcp") is None


async def test_a_server_without_metadata_of_its_own_is_asked_the_old_way() -> None:
    async with liar() as place:
        place.resource = None
        assert (await place.log_in()).issuer == place.origin


async def test_metadata_may_lie_elsewhere_on_the_host_and_speak_for_this_server() -> None:
    async with liar() as place:
        place.challenge = f'Bearer resource_metadata="{place.origin}/mine/meta"'
        place.instead["/mine/meta"] = place._json(200, place.resource)
        place.resource = None
        assert (await place.log_in()).resource == f"{place.origin}/mcp"


async def test_the_owner_of_a_host_may_speak_for_all_of_it() -> None:
    async with liar() as place:
        place.resource["resource"] = place.origin
        assert (await place.log_in()).resource == place.origin


async def test_a_client_is_registered_for_what_is_asked_for_and_no_more() -> None:
    async with liar() as place:
        place.metadata["scopes_supported"] = ["files", "mail", "admin", "offline_access"]
        place.resource["scopes_supported"] = ["files"]
        await place.log_in(scopes=("mail",))
        assert json.loads(place.asked("/register")[0][0])["scope"] == "files mail offline_access"


async def test_a_renewal_is_not_cut_off_by_whoever_gives_up() -> None:
    """The older refresh token is over by then: without the newer one the login would be lost."""
    came, may_go = asyncio.Event(), asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        came.set()
        await may_go.wait()
        body = json.dumps({"access_token": "n" * 20, "token_type": "bearer", "refresh_token": "m" * 20})
        writer.write(f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n{body}".encode())
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as listening_there:
        origin = f"http://127.0.0.1:{listening_there.sockets[0].getsockname()[1]}"
        KeptLogins().keep(kept(f"{origin}/mcp", f"{origin}/token", expires_s=0.0))
        bearer = Bearer(McpServer(name="slow", transport="http", url=f"{origin}/mcp"), CALL)
        asking = asyncio.ensure_future(bearer.token())
        async with asyncio.timeout(PATIENCE_S):
            await came.wait()
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
            may_go.set()
            await bearer.settled()
        login = KeptLogins().of(f"{origin}/mcp")
    assert login is not None
    assert (login.access_token, login.refresh_token) == ("n" * 20, "m" * 20)


async def test_a_code_is_not_given_to_somebody_else_before_the_page_was_seen() -> None:
    """Endpoints elsewhere are taken of one that says who sends people back, and then that is looked at."""
    async with liar() as place, liar() as other:
        place.metadata.update(
            token_endpoint=f"{other.origin}/token", authorization_response_iss_parameter_supported=True
        )
        with pytest.raises(LoginError, match="does not say who sent them"):
            await place.log_in()
        assert other.seen == []
        place.back = {"iss": place.origin}
        assert (await place.log_in()).token_endpoint == f"{other.origin}/token"


@pytest.mark.parametrize(
    ("url", "near", "why"),
    [
        ("https://127.0.0.1/t", OUTSIDE, "points into this machine"),
        ("http://localhost:8080/t", OUTSIDE, "points into this machine"),
        ("http://foo.localhost./t", OUTSIDE, "points into this machine"),
        ("https://2130706433/t", OUTSIDE, "points into this machine"),
        ("https://0x7f.1/t", OUTSIDE, "points into this machine"),
        ("https://[::ffff:127.0.0.1]/t", OUTSIDE, "points into this machine"),
        ("https://[::]/t", OUTSIDE, "points into this machine"),
        ("https://169.254.169.254/latest", OUTSIDE, "points into this machine"),
        ("https://10.0.0.1/t", OUTSIDE, "points into this machine"),
        ("https://127.0.0.1/t", "https://10.0.0.1/mcp", "points into this machine"),
        ("http://10.0.0.1/t", "https://10.0.0.1/mcp", "is not https"),
        ("https://exаmple.com/t", OUTSIDE, "no address of at most"),
        ("https://e.example/ t", OUTSIDE, "no address of at most"),
        ("https://e.example/\n", OUTSIDE, "no address of at most"),
        ("https://e.example/#f", OUTSIDE, "a fragment"),
        ("https://e.example:99999/", OUTSIDE, "is no address"),
        ("https://" + "e" * 3_000, OUTSIDE, "no address of at most"),
        ("https:///t", OUTSIDE, "no host"),
        (None, OUTSIDE, "no address of at most"),
    ],
)
def test_an_address_that_leaks_or_points_inwards_is_refused(url: Any, near: str, why: str) -> None:
    with pytest.raises(LoginError, match=why):
        address(url, "it", near)


def test_addresses_that_are_taken() -> None:
    for url, near in [
        ("https://login.example/t?a=b", OUTSIDE),
        ("http://127.0.0.1:1/t", "http://localhost:2/mcp"),
        ("https://10.0.0.1/t", "https://10.0.0.2/mcp"),
        ("https://8.8.8.8/t", OUTSIDE),
    ]:
        assert address(url, "it", near) == url
    assert [whereabouts(host) for host in ("example.com", "192.168.1.1", "::1")] == [0, 1, 2]


def test_one_server_has_one_address() -> None:
    assert resource("HTTPS://Example.COM:443/") == "https://example.com"
    assert resource("http://[::1]:80/mcp?a=b#c") == "http://[::1]/mcp?a=b"
    assert covers("https://example.com", "https://example.com/mcp")
    assert covers("https://example.com/mcp/", "https://example.com/mcp")
    assert not covers("https://example.com/mcp", "https://example.com/mcpx")
    assert not covers("https://example.com:444/mcp", "https://example.com/mcp")
    assert not covers("https://example.com/mcp?a=b", "https://example.com/mcp")


# --- coming back ---


def waiting() -> Consent:
    server = AuthorizationServer(
        issuer="https://i.example", authorization_endpoint="https://i.example/a", token_endpoint="https://i.example/t"
    )
    found = Found(url=OUTSIDE, resource=OUTSIDE, server=server)
    return Consent(found, Client(client_id="c"), "http://127.0.0.1:1/callback", ())


def test_whoever_does_not_know_what_was_sent_is_not_heard() -> None:
    consent = waiting()
    for state in ({}, {"state": ""}, {"state": "guess"}, {"state": "é"}):
        with pytest.raises(NotOurs):
            consent.code({"code": "stolen", **state})


def test_two_logins_have_nothing_in_common() -> None:
    one, other = (parse_qs(urlsplit(waiting().url).query) for _ in range(2))
    assert one["state"] != other["state"]
    assert one["code_challenge"] != other["code_challenge"]


async def test_strangers_at_the_page_do_not_end_the_wait() -> None:
    import httpx2

    async with listening() as page, httpx2.AsyncClient(trust_env=False, timeout=PATIENCE_S) as browser:
        assert (await browser.get(f"{page.redirect}?code=x&state=y")).status_code == 404  # nobody is waited for yet
        page.consent = consent = waiting()
        ours = parse_qs(urlsplit(consent.url).query)["state"][0]
        for wrong in (
            await browser.get(f"{page.redirect}?code=x&state=guess"),
            await browser.get(f"{page.redirect}?{'&'.join(f'a{n}=b' for n in range(99))}&state={ours}&code=x"),
            await browser.post(f"{page.redirect}?code=x&state={ours}"),
            await browser.get(page.redirect.replace("callback", "other") + f"?code=x&state={ours}"),
        ):
            assert wrong.status_code in (400, 404)
            assert wrong.text == STRANGE
        reader, writer = await asyncio.open_connection("127.0.0.1", urlsplit(page.redirect).port)
        writer.write(b"GET /callback?" + b"x" * 40_000)  # longer than any head may be
        with contextlib.suppress(ConnectionError):
            await writer.drain()
            assert await reader.read() == b""
        writer.close()
        answer = await browser.get(f"{page.redirect}?code=right&state={ours}")
        assert answer.headers["cache-control"] == "no-store"
        assert "right" not in answer.text
        assert await page.code(PATIENCE_S) == "right"
        assert (await browser.get(f"{page.redirect}?code=again&state={ours}")).status_code == 404


# --- what is kept, sent and shown ---


def kept(url: str, token_endpoint: str, **more: Any) -> Login:
    return Login(
        url=url, resource=url, issuer="https://i.example", token_endpoint=token_endpoint,
        client=Client(client_id="c"), access_token="a" * 20, refresh_token="r" * 20, **more,
    )  # fmt: skip


@pytest.mark.parametrize(("error", "ends"), [("invalid_grant", True), ("invalid_client", True), ("slow_down", False)])
async def test_a_login_is_over_only_if_that_is_said(error: str, ends: bool) -> None:
    async with liar() as place:
        place.token = {"error": error}
        with pytest.raises(LoginError, match=error) as told:
            await renewed(kept(f"{place.origin}/mcp", f"{place.origin}/token"), 0.0)
        assert isinstance(told.value, LoginEnded) is ends


async def test_an_answer_that_is_no_text_is_a_failure_in_words() -> None:
    """It is an object of JSON but for one byte that no text has."""
    answer = (200, {"content-type": "application/json"}, b'{"access_token": "\xff"}')
    async with liar() as place:
        place.instead["/token"] = answer
        with pytest.raises(LoginError) as told:
            await renewed(kept(f"{place.origin}/mcp", f"{place.origin}/token"), 0.0)
        assert not isinstance(told.value, LoginEnded)
        place.instead["/.well-known/oauth-protected-resource/mcp"] = answer
        with pytest.raises(LoginError, match="is no object of JSON"):
            await place.log_in()


async def test_a_secret_of_a_client_is_said_as_it_was_agreed() -> None:
    async with liar() as place:
        login = kept(f"{place.origin}/mcp", f"{place.origin}/token")
        for method, in_form, in_header in [
            ("client_secret_post", True, False),
            ("client_secret_basic", False, True),
            ("none", False, False),
        ]:
            client = Client(client_id="c", secret="s" * 20, method=method)
            await renewed(Login(**{**{n: getattr(login, n) for n in login.__struct_fields__}, "client": client}), 0.0)
            body, headers = place.asked("/token")[-1]
            assert (b"s" * 20 in body, headers.get("authorization", "").startswith("Basic ")) == (in_form, in_header)


async def test_a_server_that_refuses_everything_does_not_use_logins_up() -> None:
    import httpx2

    async with liar() as place:
        url = f"{place.origin}/mcp"
        KeptLogins().keep(kept(url, f"{place.origin}/token"))
        now_s = [1_000.0]
        bearer = Bearer(McpServer(name="liar", transport="http", url=url), CALL, now_s=lambda: now_s[0])
        async with httpx2.AsyncClient(trust_env=False, auth=bearer.auth()) as client:
            for _ in range(5):
                assert (await client.post(url)).status_code == 401
            assert len(place.asked("/token")) == 1
            assert len(place.asked("/mcp")) == 6
            now_s[0] += 61.0
            await client.post(url)
            assert len(place.asked("/token")) == 2
        assert bearer.why("").startswith("its login is not taken any more")


async def test_a_token_goes_to_its_server_alone() -> None:
    import httpx2

    async with liar() as place, liar() as other:
        url = f"{place.origin}/mcp"
        KeptLogins().keep(kept(url, f"{place.origin}/token"))
        bearer = Bearer(McpServer(name="liar", transport="http", url=url), CALL)
        async with httpx2.AsyncClient(trust_env=False, auth=bearer.auth()) as client:
            await client.post(f"{other.origin}/mcp")
        assert all("authorization" not in headers for _, headers in other.asked("/mcp"))


async def test_what_a_server_wants_more_is_not_put_into_a_command_that_people_type() -> None:
    import httpx2

    async with liar() as place:
        url = f"{place.origin}/mcp"
        bearer = Bearer(McpServer(name="liar", transport="http", url=url), CALL)
        for scope, told in [
            ("files:write mail", f"run: windlass mcp login {url} --scope 'files:write mail'"),
            ("a$(reboot)", f"run 'windlass mcp login {url}'"),
            ("a`reboot`", f"run 'windlass mcp login {url}'"),
        ]:
            challenge = {"www-authenticate": f'Bearer error="insufficient_scope", scope="{scope}"'}
            place.instead["/mcp"] = (403, challenge, b"")
            async with httpx2.AsyncClient(trust_env=False, auth=bearer.auth()) as client:
                await client.post(url)
            why = bearer.why("")
            assert told in why
            assert "reboot" not in why


def test_a_login_is_for_servers_that_others_cannot_hear() -> None:
    def server(url: str, **more: Any) -> McpServer:
        return McpServer(name="s", transport="http", url=url, **more)

    assert may_log_in(server("https://example.com/mcp"))
    assert may_log_in(server("http://127.0.0.1:1/mcp"))
    assert not may_log_in(server("http://example.com/mcp"))
    assert not may_log_in(server("https://example.com/mcp", headers={"authorization": "Bearer x"}))
    assert not may_log_in(McpServer(name="s", command="s"))


async def test_tokens_are_hidden_from_the_moment_they_are_given_or_read() -> None:
    async with liar() as place:
        place.token = {"access_token": "Zq8-given-only-here-XyW7", "token_type": "Bearer"}
        await place.log_in()
        assert SECRETS.hidden(b"it is Zq8-given-only-here-XyW7") == b"it is [hidden]"
        url = f"{place.origin}/other"
        login = kept(url, f"{place.origin}/token")
        values = {name: getattr(login, name) for name in login.__struct_fields__}
        KeptLogins().keep(Login(**{**values, "access_token": "Zq8-read-only-here-XyW7"}))
        assert SECRETS.hidden(b"it is Zq8-read-only-here-XyW7") == b"it is Zq8-read-only-here-XyW7"
        assert await Bearer(McpServer(name="liar", transport="http", url=url), CALL).token()
        assert SECRETS.hidden(b"it is Zq8-read-only-here-XyW7") == b"it is [hidden]"


def test_words_of_challenges_and_lists_are_taken_within_bounds() -> None:
    assert parameter('Bearer realm="a", scope="x y", error=invalid', "scope") == "x y"
    assert parameter('Bearer realm="a", scope="x y", error=invalid', "error") == "invalid"
    assert parameter('Bearer xscope="no"', "scope") == ""
    assert listed(["a", "a", "b c", 7, "é", "x" * 300]) == ("a",)
    assert len(listed([f"s{n}" for n in range(500)])) == 50
    assert chosen("a b") == ("a", "b")
    with pytest.raises(LoginError, match="are no scopes"):
        chosen('a "b"')
