"""The body of a request as it comes in. What an answer does not wait for is read for a moment all the same: a
connection that is closed with something unread is reset, and the client would never see why it was refused."""

from __future__ import annotations

import asyncio
import contextlib

from starlette.datastructures import Headers
from starlette.types import Message, Receive

LINGER_BYTES = 64 * 1024
LINGER_S = 5.0


def is_awaited(headers: Headers) -> bool:
    """Whether a client waits to hear that it may send its body."""
    return headers.get("expect", "").lower() == "100-continue"


class RequestBody:
    """What is received for one request."""

    def __init__(self, receive: Receive, *, awaited: bool = False) -> None:
        self._receive = receive
        self._ended = False
        self.awaited = awaited
        """Whether its client sends none of it before it hears that it may (`Expect: 100-continue`)."""

    async def __call__(self) -> Message:
        """The next message of the server."""
        self.awaited = False
        message = await self._receive()
        if message["type"] == "http.disconnect" or not message.get("more_body", False):
            self._ended = True
        return message

    async def discard(self) -> None:
        """Reads on for a moment, up to a bound, and forgets it. What its client has not begun to send need not come."""
        if self.awaited:
            return
        size = 0
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LINGER_S):
                while not self._ended and size < LINGER_BYTES:
                    size += len((await self()).get("body", b""))
