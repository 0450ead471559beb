"""Puts steps on the wire: headers, bytes, waits and the ways in which a connection can end.

Every wait ends when the client leaves, when the server stops, or at a named limit; nothing hangs a test.
"""

from __future__ import annotations

import asyncio
import email.utils
import socket
import struct
import time
from collections.abc import Iterable, Mapping
from typing import Any

from aiohttp import web

from windlass.testing.model_server.faults.fault import HTTP_DATE
from windlass.testing.model_server.faults.sending_steps import End, Send, Step, Wait
from windlass.testing.model_server.wires.parsed import Recorded
from windlass.testing.model_server.wires.wire import encode

HOLD_LIMIT_S = 600.0
"""The longest wait, whatever a fault says."""

SENT_KEPT = 65_536
"""How many bytes of each reply are recorded."""


class Stopped(Exception):
    """The server stops; the reply under way is dropped."""


class Stopping:
    """Says when the server stops, to everything that waits."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def stop(self) -> None:
        self._event.set()

    async def hold(self, ms: float | None) -> None:
        """Waits; raises Stopped when the server stops first or the limit is reached."""
        limit = HOLD_LIMIT_S if ms is None else min(ms / 1000, HOLD_LIMIT_S)
        try:
            await asyncio.wait_for(self._event.wait(), limit)
        except TimeoutError:
            if ms is None or limit == HOLD_LIMIT_S:
                raise Stopped from None
            return
        raise Stopped


class Delivery:
    """The reply to one request."""

    def __init__(self, request: web.Request, recorded: Recorded, stopping: Stopping) -> None:
        self.request = request
        self.recorded = recorded
        self.stopping = stopping

    async def json(self, status: int, body: Any, headers: Mapping[str, str]) -> web.StreamResponse:
        """A whole JSON body."""
        return await self.body(status, encode(body), "application/json", headers)

    async def body(self, status: int, data: bytes, kind: str, headers: Mapping[str, str]) -> web.StreamResponse:
        self.recorded.status = status
        self.recorded.sent += data[:SENT_KEPT]
        self.recorded.finished = True
        return web.Response(status=status, body=data, headers=sendable(headers, kind))

    async def steps(
        self, steps: Iterable[Step], *, kind: str, headers: Mapping[str, str], length: int | None = None
    ) -> web.StreamResponse:
        """Does the steps. With `length` the body is announced whole, so that a cut is seen as one."""
        response = web.StreamResponse(headers=sendable(headers, kind))
        response.content_length = length
        self.recorded.status = 200
        for step in steps:
            if isinstance(step, End):
                return await self._end(response, step.how)
            if not response.prepared:
                await response.prepare(self.request)
            if isinstance(step, Wait):
                await self.stopping.hold(step.ms)
            elif isinstance(step, Send) and step.data:
                self.recorded.sent += step.data[: max(0, SENT_KEPT - len(self.recorded.sent))]
                await response.write(step.data)
        return await self._end(response, "clean")

    async def _end(self, response: web.StreamResponse, how: str) -> web.StreamResponse:
        transport = self.request.transport
        if how == "clean" or transport is None:
            if not response.prepared:
                await response.prepare(self.request)
            await response.write_eof()
            self.recorded.finished = True
            return response
        if how == "reset":
            sock: socket.socket | None = transport.get_extra_info("socket")
            if sock is not None:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            transport.abort()
        else:
            transport.close()
        return response


def sendable(headers: Mapping[str, str], kind: str) -> dict[str, str]:
    """Headers as they are sent: `@date+N` becomes an HTTP date."""
    out = {"Content-Type": kind}
    for name, value in headers.items():
        if value.startswith(HTTP_DATE):
            value = email.utils.formatdate(time.time() + int(value.removeprefix(HTTP_DATE) or 0), usegmt=True)
        out[name] = value
    return out
