"""A connection's login: it goes with each request to its server, is renewed before it is over or once it is refused,
and what is missing is said in words. It asks nobody: only a person logs in."""

from __future__ import annotations

import asyncio
import shlex
import time
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from windlass.mcp.server import CODE, McpServer

from . import grants
from .addresses import LoginEnded, LoginError, origin, whereabouts
from .discovery import parameter, words
from .kept_logins import KeptLogins, Login

EARLY_S = 10.0
"""So long before it is over a login is renewed."""
AGAIN_S = 60.0
"""How often a login is renewed at most because a server refused it: one that refuses all would never end that."""
REFUSED_MAX = 1_000
SHOWN_SCOPE = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.:/-"
"""What may stand in a command that people are told to type."""


class Bearer:
    """The login of one connection, whoever uses it at once."""

    def __init__(
        self,
        server: McpServer,
        working_for: ContextVar[str],
        logins: KeptLogins | None = None,
        now_s: Callable[[], float] = time.time,
    ) -> None:
        self._server = server
        self._logins = logins or KeptLogins()
        self._now_s = now_s
        self._working_for = working_for
        self._login: Login | None = None
        self._mark: tuple[int, int, int] | None = None
        self._refused: dict[str, str] = {}
        self._renewed_s = float("-inf")
        self._renewing: set[asyncio.Future[str]] = set()
        self.noticed: Callable[[str], None] = lambda why: None
        """Told each time when a request was refused for want of a login."""

    def why(self, call_id: str) -> str:
        """Why a call was not even looked at by the server; empty if it was. Said once."""
        return self._refused.pop(call_id, "")

    # --- what is kept ---

    def _kept(self) -> Login | None:
        """The login as it is kept now; read again if somebody else has written it."""
        mark = self._logins.mark(self._server.url)
        if mark is None or mark != self._mark:
            self._login = self._logins.of(self._server.url) if mark is not None else None
            self._mark = mark
            if self._login is not None:
                grants.hide(self._login)
        return self._login

    async def token(self, *, refused: str = "") -> str:
        """A token that is good, and not the one that was `refused`; empty if nobody has logged in. Raises
        `LoginError`."""
        login = self._kept()
        if login is None:
            return ""
        if login.access_token != refused and not self._is_over(login):
            return login.access_token
        renewing = asyncio.ensure_future(self._renewed(refused))
        self._renewing.add(renewing)
        renewing.add_done_callback(self._renewing.discard)
        return await asyncio.shield(renewing)

    async def _renewed(self, refused: str) -> str:
        """Renews a login. Nobody who gives up what they do must cut this off: the older login may be over already, and
        the newer one would be known to nobody."""
        async with self._logins.alone(self._server.url):
            login = self._kept()  # somebody may have renewed it, or logged out, while we waited
            if login is None:
                return ""
            if login.access_token == refused or self._is_over(login):
                login = await grants.renewed(login, self._now_s())
                self._logins.keep(login)
            return login.access_token

    async def settled(self) -> None:
        """Waits until nothing is renewed any more, which every request has a bound for."""
        await asyncio.gather(*self._renewing, return_exceptions=True)

    def _is_over(self, login: Login) -> bool:
        return login.expires_s is not None and self._now_s() + EARLY_S >= login.expires_s

    def _may_renew(self) -> bool:
        """Whether a login that was refused is renewed; notes that it is."""
        now_s = self._now_s()
        if abs(now_s - self._renewed_s) < AGAIN_S:
            return False
        self._renewed_s = now_s
        return True

    # --- requests ---

    def auth(self) -> Any:
        """What a client of `httpx2` is given."""
        import httpx2

        bearer = self

        class LoginAuth(httpx2.Auth):
            async def async_auth_flow(self, request: Any) -> Any:
                if origin(str(request.url)) != origin(bearer._server.url):
                    yield request
                    return
                token, trouble = await bearer._had()
                _put(request, token)
                response = yield request
                if response.status_code == 401 and token and bearer._may_renew():
                    token, trouble = await bearer._had(refused=token)
                    if token:
                        _put(request, token)
                        response = yield request
                bearer._judge(response.status_code, response.headers.get("www-authenticate", ""), token, trouble)

        return LoginAuth()

    async def _had(self, *, refused: str = "") -> tuple[str, str]:
        """A token, or why there is none."""
        try:
            return await self.token(refused=refused), ""
        except LoginEnded as error:
            return "", f"{error}: {self._advice()}"
        except LoginError as error:
            return "", f"its login cannot be used now: {error}"

    def _judge(self, status: int, challenge: str, token: str, trouble: str) -> None:
        """Remembers for which call the server wanted a login, and which."""
        why = ""
        if status == 401:
            why = trouble or f"{'its login is not taken any more' if token else 'it wants a login'}: {self._advice()}"
        elif status == 403 and parameter(challenge, "error") == "insufficient_scope":
            why = f"it wants a login that may do more: {self._advice(words(parameter(challenge, 'scope')))}"
        if not why:
            return
        if len(self._refused) >= REFUSED_MAX:
            self._refused.clear()
        self._refused[self._working_for.get()] = why
        self.noticed(why)

    def _advice(self, scopes: tuple[str, ...] = ()) -> str:
        server = self._server
        what = [server.url] if server.origin in ("", CODE) else [server.name, server.origin]
        if scopes and all(sign in SHOWN_SCOPE for scope in scopes for sign in scope):
            what += ["--scope", " ".join(scopes)]
        command = shlex.join(["windlass", "mcp", "login", *what])
        return f"run: {command}" if "'" in command else f"run '{command}'"


def _put(request: Any, token: str) -> None:
    request.headers.pop("Authorization", None)
    if token:
        request.headers["Authorization"] = f"Bearer {token}"


def may_log_in(server: McpServer) -> bool:
    """Whether a server's logins are ours to send: one with a header of its own says who comes by that, and nothing is
    said to one that others could hear."""
    scheme, host, _ = origin(server.url)
    if server.transport == "stdio" or any(name.lower() == "authorization" for name in server.headers):
        return False
    return scheme == "https" or whereabouts(host) == 2
