"""The server at the other end of a pipe. Its methods are the routes by name, with the same checks and the same answers;
events come as notifications with their cursors. Whoever started the process may do everything."""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

import msgspec

from windlass.events.live import Live
from windlass.protocol.json_rpc.input_lines import input_lines
from windlass.protocol.wire_events import live_bytes, record_bytes
from windlass.server.access.token_file import Token
from windlass.server.app import handled
from windlass.server.event_stream import EventStream
from windlass.server.http_answer import NO_CONTENT, Answer
from windlass.server.http_call import Call
from windlass.server.resources.route_list import ROUTES
from windlass.server.route import Route
from windlass.server.server_state import ServerState
from windlass.server.slash_desk import SlashNotice

from .rpc import (
    NO_METHOD,
    NO_REQUEST,
    WRONG_PARAMS,
    NotAsked,
    Request,
    error_line,
    failure_line,
    notice_line,
    read_request,
    result_line,
)

AT_ONCE = 64
"""How many requests are answered at a time; further lines are not read meanwhile."""
UNFOLLOW = "unfollow"
METHODS = {route.name: route for route in ROUTES}
HEADERS = {"Idempotency-Key": b"idempotency-key"}


class LineServer:
    """Answers the lines of one client."""

    def __init__(
        self, server: ServerState, tenant: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._server = server
        self._token = Token(name="stdio", roles=("admin",), tenant=tenant, digest="")
        self._reader = reader
        self._writer = writer
        self._writing = asyncio.Lock()
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._answering: set[asyncio.Task[None]] = set()
        self._streams: dict[int, asyncio.Task[None]] = {}
        self._count = 0

    async def run(self) -> None:
        """Answers until the client closes its end, then brings to an end what was asked before."""
        beating = asyncio.create_task(self._beat())
        try:
            async for line in input_lines(self._reader, self._server.limits.body_bytes):
                if line is None:
                    most = self._server.limits.body_bytes
                    await self._say(error_line(None, NO_REQUEST, f"a line of more than {most} bytes is not read"))
                elif line.strip():
                    await self._turns.acquire()
                    task = asyncio.create_task(self._answer(line))
                    self._answering.add(task)
                    task.add_done_callback(self._answered)
            self._server.slash_desk.close()
            await asyncio.gather(*self._answering)
        except ConnectionError:
            return  # nobody reads any more
        finally:
            tasks = [beating, *self._answering, *self._streams.values()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _answered(self, task: asyncio.Task[None]) -> None:
        self._answering.discard(task)
        self._turns.release()

    async def _answer(self, line: bytes) -> None:
        try:
            request = read_request(line)
        except NotAsked as error:
            await self._say(error_line(error.name, error.code, str(error)))
            return
        try:
            said = await self._said(request)
        except NotAsked as error:
            said = error_line(request.id, error.code, str(error))
        except Exception as error:
            said = failure_line(request.id, error)
        if request.id is not None:
            await self._say(said)

    async def _said(self, request: Request) -> bytes:
        if request.method == UNFOLLOW:
            return result_line(request.id, self._unfollow(request.params))
        route = METHODS.get(request.method)
        if route is None:
            raise NotAsked(NO_METHOD, f"no method {request.method[:80]!r}: there are {', '.join(METHODS)}, {UNFOLLOW}")
        made = await handled(route, _call(route, request.params, self._token, self._server))
        if not isinstance(made, Answer):
            assert isinstance(made, EventStream), "no other stream is among the routes of lines"
            self._count += 1
            self._streams[self._count] = asyncio.create_task(self._tell(self._count, made))
            return result_line(request.id, b'{"subscription":%d}' % self._count)
        return result_line(request.id, _plain(made))

    def _unfollow(self, params: Mapping[str, Any]) -> bytes:
        task = self._streams.pop(params.get("subscription", 0), None)
        if task is None:
            raise NotAsked(WRONG_PARAMS, "params.subscription: there is no such subscription")
        task.cancel()
        return b"null"

    async def _tell(self, number: int, stream: EventStream) -> None:
        """Tells what happens to a session, each record with its cursor; at the end, that it is one."""
        if stream.asked:
            await self._event(number, b"requests", stream.asked)
        async with contextlib.aclosing(stream.told()) as events:
            async for told in events:
                if isinstance(told, SlashNotice):
                    await self._event(number, b"slash", msgspec.json.encode(told))
                elif not isinstance(told, Live):
                    await self._event(number, b"record", record_bytes(told))
                elif stream.live:
                    await self._event(number, b"live", live_bytes(told))
        await self._say(notice_line("ended", b'{"subscription":%d}' % number))

    async def _event(self, number: int, kind: bytes, data: bytes) -> None:
        await self._say(notice_line("event", b'{"subscription":%d,"kind":"%s","data":%s}' % (number, kind, data)))

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(self._server.limits.heartbeat_s)
            await self._say(notice_line("heartbeat", b"{}"))

    async def _say(self, line: bytes) -> None:
        async with self._writing:
            self._writer.write(line)
            await self._writer.drain()


def _call(route: Route, params: Mapping[str, Any], token: Token, server: ServerState) -> Call:
    """A request of a client as one of HTTP would be. Raises `NotAsked` for what the method does not take."""
    left = dict(params)
    names = {part[1:-1]: left.pop(part[1:-1], "") for part in route.path.split("/") if part.startswith("{")}
    for name, value in names.items():
        if not isinstance(value, str):
            raise NotAsked(WRONG_PARAMS, f"params.{name}: write a text")
    headers = [(b"content-type", b"application/json")]
    for parameter in route.parameters:
        if parameter.place == "header" and parameter.name in HEADERS and (given := left.pop("key", None)) is not None:
            headers.append((HEADERS[parameter.name], _text("key", given).encode("latin-1", "replace")))
    body = msgspec.json.encode(left.pop("body")) if "body" in left else b""
    query = urlencode({name: _text(name, value) for name, value in left.items()})
    scope = {"type": "http", "headers": headers, "query_string": query.encode()}

    unread = [body]

    async def receive() -> dict[str, Any]:
        if not unread:
            await asyncio.Event().wait()  # the client of a pipe is there until the pipe ends
        return {"type": "http.request", "body": unread.pop(), "more_body": False}

    return Call(scope, receive, token, names, server)


def _text(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str | int):
        raise NotAsked(WRONG_PARAMS, f"params.{name}: write a text, a whole number, true or false")
    return str(value)


def _plain(answer: Answer) -> bytes:
    """An answer as JSON: as it is, or its bytes in base64."""
    if answer.status == NO_CONTENT:
        return b"null"
    if "json" in answer.media:
        return answer.body
    return msgspec.json.encode({"media": answer.media, "base64": base64.b64encode(answer.body).decode()})
