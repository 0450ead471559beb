"""MCP over HTTP: one address, behind the same gate as the server of sessions. Tokens, hosts, origins, rates and sizes
are that server's; what is spoken then is the protocol's own."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any

from starlette.datastructures import Headers
from starlette.types import Message, Receive, Scope, Send

from windlass.server.access.gate import Gate
from windlass.server.access.token_file import Token
from windlass.server.http_answer import GUARDED, Answer
from windlass.server.http_call import LAST, Call
from windlass.server.problems import Problem, answer_of
from windlass.server.request_body import RequestBody, is_awaited
from windlass.server.server_state import ServerState

from .caller import Caller
from .desk import Desk, Words
from .service import service

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

logger = logging.getLogger("windlass.server")

PATH = b"/mcp"
METHODS = ("POST", "GET", "DELETE")
HEADERS = "Authorization, Content-Type, Last-Event-ID, Mcp-Session-Id, Mcp-Protocol-Version, Mcp-Method, Mcp-Name"
CALLER = "windlass.caller"
CONNECTIONS_MAX = 200
"""Clients of the older protocol that are connected at a time."""
SLOW = 408


class McpApp:
    """An ASGI application over one server's state."""

    def __init__(self, server: ServerState, gate: Gate, words: Words, labels: tuple[str, ...]) -> None:
        self._server = server
        self._gate = gate
        self.desk = Desk(server.tenants, words, labels=labels)
        self._manager: StreamableHTTPSessionManager | None = None

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Answers as long as the block is open."""
        from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

        body_bytes = self._server.limits.body_bytes
        self._manager = StreamableHTTPSessionManager(
            service(self.desk, caller_of), max_sessions=CONNECTIONS_MAX, max_request_body_size=body_bytes
        )
        async with self._manager.run():
            yield

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request; anything but HTTP is not spoken here."""
        if scope["type"] != "http":
            return
        body, more = RequestBody(receive, awaited=is_awaited(Headers(scope=scope))), dict[str, str]()
        try:
            more |= self._gate.check_place(Headers(scope=scope))
            made = await self._answered(scope, body, send, more)
        except Exception as error:
            made = answer_of(error)
            if made.status != SLOW:
                await body.discard()
        if made is not None:
            await made.send(send, more | LAST if body.awaited else more)

    async def _answered(self, scope: Scope, body: RequestBody, send: Send, more: dict[str, str]) -> Answer | None:
        headers = Headers(scope=scope)
        if scope["method"] == "OPTIONS" and more and "access-control-request-method" in headers:
            return Answer(status=204, headers=self._gate.preflight() | {"Access-Control-Allow-Headers": HEADERS})
        token = self._gate.token(headers)
        if scope["raw_path"] != PATH:
            raise Problem(404, "not_found", f"there is nothing here: MCP is spoken at {PATH.decode()}")
        if scope["method"] not in METHODS:
            there = ", ".join(METHODS)
            raise Problem(405, "method", f"this takes {there}", headers={"Allow": there})
        if self._server.draining:
            raise Problem(503, "draining", "the server is being stopped: ask another one, or this one once it is back")
        data = b""
        if scope["method"] == "POST":
            data = await Call(scope, body, token, {}, self._server).json_bytes()
        with self._counted(token.name):
            await self._speak(_as(token, scope), _replayed(data, body), self._guarded(token, scope, send, more))
        return None

    async def _speak(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Has the protocol answer, until it has, the server stops, or the client may not or does not read any more."""
        assert self._manager is not None, "it does not run yet"
        speaking = asyncio.ensure_future(self._manager.handle_request(scope, receive, send))
        stopping = asyncio.ensure_future(self._server.stopped.wait())
        try:
            await asyncio.wait((speaking, stopping), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (speaking, stopping):
                task.cancel()
            await asyncio.gather(speaking, stopping, return_exceptions=True)
        if not speaking.cancelled() and (error := speaking.exception()) is not None:
            logger.error("an answer broke off", exc_info=error)
            if "abort" in scope.get("state", {}):
                scope["state"]["abort"]()

    def _guarded(self, token: Token, scope: Scope, send: Send, more: dict[str, str]) -> Send:
        """Sends on, with what browsers are told; cuts a client off whose token was taken away or that does not read."""
        extra = [(name.lower().encode(), value.encode()) for name, value in {**GUARDED, **more}.items()]
        abort = scope.get("state", {}).get("abort")

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = {name.lower() for name, _ in extra}
                kept = [(name, value) for name, value in message.get("headers", ()) if name.lower() not in own]
                message = {**message, "headers": [*kept, *extra]}
            elif token not in self._server.tokens.tokens():
                _cut(abort)
                return
            try:
                async with asyncio.timeout(self._server.limits.stall_s):
                    await send(message)
            except TimeoutError:
                _cut(abort)

        return guarded

    @contextlib.contextmanager
    def _counted(self, name: str) -> Iterator[None]:
        streams = self._server.streams
        if streams.get(name, 0) >= self._server.limits.streams_of_token:
            raise Problem(429, "streams", f"the token {name!r} has {streams[name]} requests open already")
        streams[name] = streams.get(name, 0) + 1
        try:
            yield
        finally:
            streams[name] -= 1
            if not streams[name]:
                del streams[name]


def caller_of(ctx: ServerRequestContext[Any, Any]) -> Caller:
    """Who made a request, as the gate has seen it."""
    assert ctx.request is not None
    caller = ctx.request.scope[CALLER]
    assert isinstance(caller, Caller)
    return caller


def _as(token: Token, scope: Scope) -> Scope:
    """A request with who makes it. A connection can be used only with the very token that opened it."""
    from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
    from mcp.server.auth.provider import AccessToken

    caller = Caller(name=token.name, auth="token", roles=token.roles, tenant=token.tenant)
    about = AccessToken(token="", client_id=token.name, scopes=list(token.roles), subject=token.digest)
    return {**scope, "user": AuthenticatedUser(about), CALLER: caller}


def _replayed(data: bytes, body: RequestBody) -> Receive:
    """A body that is there already, and then what the connection says."""
    told = False

    async def receive() -> Message:
        nonlocal told
        if not told:
            told = True
            return {"type": "http.request", "body": data, "more_body": False}
        return await body()

    return receive


def _cut(abort: Any) -> None:
    if abort is not None:
        abort()
