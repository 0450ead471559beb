"""The application: each request passes the gate, finds its route, has the role for it, and gets one answer."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Iterator

from starlette.datastructures import Headers
from starlette.types import Receive, Scope, Send

from .access.gate import Gate
from .http_answer import Answer
from .http_call import LAST, Call
from .problems import Problem, ProblemForm, answer_of
from .request_body import RequestBody, is_awaited
from .route import Route, Routes
from .server_state import ServerState
from .sse_connection import Frames, FrameStream

logger = logging.getLogger("windlass.server")
METHODS = ("GET", "POST", "DELETE", "OPTIONS", "HEAD", "PUT", "PATCH")
SLOW = 408
NOWHERE = "none"
"""The route of a request that found none, in figures."""


async def handled(route: Route, call: Call) -> Answer | Frames:
    """What a route answers to somebody who may ask it. Raises what `problem_of` knows."""
    if not route.signed:
        call.require(route.role)
        call.check_query(route.query)
    if call.server.draining and not route.while_draining:
        raise Problem(503, "draining", "the server is being stopped: ask another one, or this one once it is back")
    return await route.handler(call)


class App:
    """An ASGI application over one server's state."""

    def __init__(self, server: ServerState, gate: Gate, routes: Routes) -> None:
        self._server = server
        self._gate = gate
        self._routes = routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request; anything but HTTP is not spoken here."""
        if scope["type"] != "http":
            return
        began, method = time.monotonic(), str(scope["method"])
        body = RequestBody(receive, awaited=is_awaited(Headers(scope=scope)))
        place: list[str] = [NOWHERE]
        more: dict[str, str] = {}
        try:
            more |= self._gate.check_place(Headers(scope=scope))
            made, call = await self._answer(scope, body, method, place, asked_before=bool(more))
        except Exception as error:
            refused = made = answer_of(error, self._form(scope))
            call = None
            if refused.status != SLOW:
                await body.discard()
        status = made.status if isinstance(made, Answer) else 200
        known = method if method in METHODS else "OTHER"
        self._server.metrics.answered(known, place[0], status, time.monotonic() - began)
        if body.awaited:
            more |= LAST  # what comes next could be that body, or another request
        if isinstance(made, Answer):
            await made.send(send, more, bare=method == "HEAD")
        elif call is not None:
            await self._stream(made, call, send, more)

    async def _answer(
        self, scope: Scope, receive: Receive, method: str, place: list[str], *, asked_before: bool
    ) -> tuple[Answer | Frames, Call | None]:
        headers = Headers(scope=scope)
        if method == "OPTIONS" and asked_before and "access-control-request-method" in headers:
            return Answer(status=204, headers=self._gate.preflight()), None
        signed = self._signed(scope, method)
        token = self._gate.signer() if signed else self._gate.token(headers)
        route, names = self._found(scope, method)
        place[0] = route.path
        call = Call(scope, receive, token, names, self._server)
        return await handled(route, call), call

    def _signed(self, scope: Scope, method: str) -> bool:
        """Whether a request is for a route that is asked with a signature."""
        by_method, _ = self._routes.match(scope["raw_path"])
        return method in by_method and by_method[method].signed

    def _found(self, scope: Scope, method: str) -> tuple[Route, dict[str, str]]:
        by_method, names = self._routes.match(scope["raw_path"])
        if not by_method:
            raise Problem(404, "not_found", "there is nothing here: GET /v1/openapi.json lists what there is")
        if method not in by_method:
            there = ", ".join(sorted(by_method))
            raise Problem(405, "method", f"this takes {there}", headers={"Allow": there})
        return by_method[method], names

    def _form(self, scope: Scope) -> ProblemForm | None:
        """How whoever asks at this path is told what went wrong; also if no token was given."""
        by_method, _ = self._routes.match(scope["raw_path"])
        return next((route.problem for route in by_method.values() if route.problem is not None), None)

    async def _stream(self, stream: Frames, call: Call, send: Send, more: dict[str, str]) -> None:
        try:
            with self._counted(call.token.name):
                stalled = await FrameStream(self._server, call.token, stream).run(call.receive, send, more)
        except Problem as problem:
            await answer_of(problem).send(send, more)
            return
        except Exception:
            logger.exception("a stream of events broke off")
            stalled = True
        if stalled and "abort" in call.scope.get("state", {}):
            call.scope["state"]["abort"]()

    @contextlib.contextmanager
    def _counted(self, name: str) -> Iterator[None]:
        streams = self._server.streams
        if streams.get(name, 0) >= self._server.limits.streams_of_token:
            raise Problem(429, "streams", f"the token {name!r} has {streams[name]} streams open already")
        streams[name] = streams.get(name, 0) + 1
        try:
            yield
        finally:
            streams[name] -= 1
            if not streams[name]:
                del streams[name]
