"""One connection: uvicorn's, with a time by which the head of each request must be there, and a way to cut it off when
its client has stopped reading."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol


class Connection(H11Protocol):
    """A connection that costs no more than it may."""

    HEAD_S = 15.0
    _head: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begins to wait for a request."""
        super().connection_made(transport)
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

    def connection_lost(self, exc: Exception | None) -> None:
        """The client has left."""
        self.begun()
        super().connection_lost(exc)


def _with_abort(app: Any, connection: Connection) -> ASGIApp:
    """An application that can cut its connection off."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        connection.begun()
        scope.setdefault("state", {})["abort"] = connection.transport.abort
        await app(scope, receive, send)

    return answer


def connection_kind(head_s: float) -> type[Connection]:
    """Connections whose requests must be there in time."""
    return type("BoundedConnection", (Connection,), {"HEAD_S": head_s})
