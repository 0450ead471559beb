"""Answers over HTTP, bounded while they are read, in size, in time and in what they hold: a body of JSON as a whole, a
stream of events by each event. Nothing is given on before it is whole, and nothing longer is ever held."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec

from .pace import Pace
from .server_process import LINE_BYTES_MAX, TooLong
from .value_count import TooMany, check_values

END = re.compile(rb"\n\n|\r\n\r\n|\r\r")
"""What an event of a stream ends with."""
END_BYTES_MAX = 4
MESSAGE_S = 120.0
"""How long a message may take from its first byte to its last."""
TAKEN_S = 30.0
"""How long a server may take to accept what wants no answer."""
SESSION = "mcp-session-id"
EVENTS_AT_ONCE, EVENTS_PER_S = 5_000, 500.0
"""How many events of a server are read, whatever they say: so many at once, then so many in a second."""
OPENED_AT_ONCE, OPENED_PER_S = 20, 1.0
"""How often a server has us open a stream again: so often at once, then so often in a second."""


class Messages:
    """Cuts what comes into whole messages. Raises `TooLong` or `TooMany` for one beyond all bounds."""

    def __init__(self, *, events: bool) -> None:
        self._events = events
        self._held = bytearray()
        self.count = 0
        """How many were whole with the last piece."""

    @property
    def begun(self) -> bool:
        """Whether there is a part of a message whose rest must come."""
        return bool(self._held) or not self._events

    def whole(self, piece: bytes) -> bytes:
        """The messages that are whole with this piece of them; what is left is held."""
        looked_at = max(0, len(self._held) - END_BYTES_MAX + 1)
        self._held += piece
        first = self.count = 0
        if self._events:
            for end in END.finditer(self._held, looked_at):
                self._check(first, end.end())
                first = end.end()
                self.count += 1
        self._check_size(len(self._held) - first)
        complete_messages = bytes(self._held[:first])
        del self._held[:first]
        return complete_messages

    def rest(self) -> bytes:
        """What is left at the end."""
        self._check(0, len(self._held))
        return bytes(self._held)

    def _check(self, start: int, end: int) -> None:
        self._check_size(end - start)
        message = bytes(self._held[start:end])
        if self._events and len(message) > END_BYTES_MAX:
            message = b"".join(line for line in message.splitlines() if line.startswith(b"data"))
        check_values(message)

    def _check_size(self, size: int) -> None:
        if size > LINE_BYTES_MAX:
            raise TooLong(f"it sent a message of more than {LINE_BYTES_MAX} bytes")


def wants_answer(method: str, body: bytes) -> bool:
    """Whether a request of ours waits for what a server makes of it; else it is only to be accepted."""
    if method != "POST":
        return method == "GET"
    try:
        told = msgspec.json.decode(body, type=_Head)
    except msgspec.DecodeError:
        return True
    return told.method is not None and told.id is not None


class _Head(msgspec.Struct):
    method: str | None = None
    id: str | int | None = None


def bounded_transport(ended: Callable[[str], None], *, posts_answered: bool = True) -> Any:
    """A transport whose answers end with an error once they are too long, or take too long; `ended` is told why. What
    is posted is answered at its place (`posts_answered`), or accepted there and answered elsewhere."""
    import httpx2

    class Bounded(httpx2.AsyncByteStream):
        def __init__(self, inner: Any, messages: Messages, limit_s: float, pace: Pace) -> None:
            self._inner = inner
            self._messages = messages
            self._limit_s = limit_s
            self._pace = pace

        async def __aiter__(self) -> AsyncIterator[bytes]:
            try:
                async for piece in _timely(self._inner, self._messages, self._limit_s):
                    now_s = asyncio.get_running_loop().time()
                    await asyncio.sleep(self._pace.wait_s(now_s, self._messages.count))
                    yield piece
            except (TooLong, TooMany, TimeoutError) as error:
                why = str(error) or f"it took more than {self._limit_s:g} s for one message"
                ended(why)
                raise httpx2.ReadError(why) from None

        async def aclose(self) -> None:
            await self._inner.aclose()

    class Transport(httpx2.AsyncHTTPTransport):
        opened = Pace(OPENED_AT_ONCE, OPENED_PER_S)
        events = Pace(EVENTS_AT_ONCE, EVENTS_PER_S)

        async def handle_async_request(self, request: Any) -> Any:
            loop = asyncio.get_running_loop()
            if request.method == "GET":
                await asyncio.sleep(self.opened.wait_s(loop.time()))
            wants = wants_answer(request.method, await request.aread())
            waits = wants and (posts_answered or request.method == "GET")
            try:
                async with asyncio.timeout(None if waits else TAKEN_S):
                    response = await super().handle_async_request(request)
            except TimeoutError:
                why = f"it did not accept a message within {TAKEN_S:g} s"
                ended(why)
                raise httpx2.ReadTimeout(why) from None
            if response.status_code == 404 and SESSION in request.headers:
                response.headers.pop("content-type", None)  # whatever it says beside that: the session is over
            kind = response.headers.get("content-type", "").lower()
            messages = Messages(events=kind.startswith("text/event-stream"))
            response.stream = Bounded(response.stream, messages, MESSAGE_S if waits else TAKEN_S, self.events)
            return response

    return Transport(trust_env=False)


async def _timely(inner: Any, messages: Messages, limit_s: float) -> AsyncIterator[bytes]:
    """Whole messages. Raises `TimeoutError` for one that takes too long, however much of it comes meanwhile."""
    clock = asyncio.get_running_loop().time
    pieces = aiter(inner)
    until: float | None = None
    while True:
        until = (until or clock() + limit_s) if messages.begun else None
        try:
            async with asyncio.timeout_at(until):
                piece = await anext(pieces)
        except StopAsyncIteration:
            break
        if complete_messages := messages.whole(piece):
            until = None
            yield complete_messages
    if left := messages.rest():
        yield left
