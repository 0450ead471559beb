"""One connection: uvicorn's, with a time by which the head of each request must be there, a time in which its client
has to take what is sent to it, and a way to cut it off.

What a client does not take is kept for it, so nothing may wait here without an end: neither an answer nor a stream, nor
what is left when both are over.
"""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

PIECE_BYTES = 64 * 1024
"""How much of an answer is handed on at once: the time in which a client must take something is meant for so much."""


class Connection(H11Protocol):
    """A connection that costs no more than it may."""

    HEAD_S = 15.0
    STALL_S = 30.0
    _head: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begins to wait for a request."""
        super().connection_made(transport)
        transport.set_write_buffer_limits(0)  # what is written next waits until the network has taken all before it
        self._await_head()
        self.app = _with_abort(self.app, self)

    def data_received(self, data: bytes) -> None:
        """The first bytes behind an answer begin another request, whose head must be there in time as well."""
        if self._head is None and (self.cycle is None or self.cycle.response_complete):
            self._await_head()
        super().data_received(data)

    def _await_head(self) -> None:
        self._head = self.loop.call_later(self.HEAD_S, self.transport.abort)

    def begun(self) -> None:
        """A request is there."""
        if self._head is not None:
            self._head.cancel()
            self._head = None

    async def told(self, send: Send, message: Message) -> None:
        """Sends something; cuts the connection off if its client takes too long to make room for it."""
        if not self.flow.write_paused:
            await send(message)
            return
        try:
            async with asyncio.timeout(self.STALL_S):
                await send(message)
        except TimeoutError:
            self.transport.abort()

    async def told_whole(self, send: Send, message: Message) -> None:
        """Sends the body of an answer, piece by piece, and waits until the last of them is taken."""
        body = memoryview(message["body"])
        for at in range(0, len(body), PIECE_BYTES):
            piece = bytes(body[at : at + PIECE_BYTES])
            await self.told(send, {**message, "body": piece, "more_body": True})
        await self.told(send, {**message, "body": b""})

    def answered(self) -> None:
        """An answer is over: what is left of it is not kept for ever."""
        if self.transport.get_write_buffer_size():
            self.loop.call_later(self.STALL_S, self._cut_unless_taken)

    def _cut_unless_taken(self) -> None:
        if self.transport.get_write_buffer_size() and (self.cycle is None or self.cycle.response_complete):
            self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """The client has left."""
        self.begun()
        super().connection_lost(exc)


def _with_abort(app: Any, connection: Connection) -> ASGIApp:
    """An application that can cut its connection off, and whose answers are not waited for without an end."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        async def told(message: Message) -> None:
            whole = not message.get("more_body", False)
            if whole and len(message.get("body", b"")) > PIECE_BYTES:
                await connection.told_whole(send, message)
            else:
                await connection.told(send, message)

        connection.begun()
        scope.setdefault("state", {})["abort"] = connection.transport.abort
        await app(scope, receive, told)
        connection.answered()

    return answer


def connection_kind(head_s: float, stall_s: float) -> type[Connection]:
    """Connections whose requests must be there in time, and whose answers must be taken in time."""
    return type("BoundedConnection", (Connection,), {"HEAD_S": head_s, "STALL_S": stall_s})
