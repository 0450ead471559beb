"""A stream of server-sent events to one client: what is told, a sign of life between, and an end if nobody reads.

A reader that does not read costs one connection with a bounded buffer, and is let go after a while.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any, Protocol

from starlette.types import Receive, Send

from .access.token_file import Token
from .http_answer import GUARDED
from .http_call import left
from .server_state import ServerState

MEDIA = "text/event-stream"
BEAT = b": alive\n\n"


class Frames(Protocol):
    """What a client is told, as long as it lasts."""

    def hello(self) -> bytes:
        """The first bytes."""
        ...

    def frames(self) -> AsyncIterator[bytes]:
        """The events, each as its bytes. It listens before it waits for anything."""
        ...


class FrameStream:
    """One client that is told something."""

    def __init__(self, server: ServerState, token: Token, told: Frames) -> None:
        self._server = server
        self._token = token
        self._told = told
        self._greeted = asyncio.Event()

    async def run(self, receive: Receive, send: Send, more: dict[str, str]) -> bool:
        """Sends events until the client leaves or the server stops. Whether the client had stopped reading."""
        headers = {**GUARDED, "Content-Type": MEDIA, "X-Accel-Buffering": "no", **more}
        raw = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
        await send({"type": "http.response.start", "status": 200, "headers": raw})
        beating = asyncio.ensure_future(self._beat(send))
        work: list[asyncio.Future[Any]] = [
            asyncio.ensure_future(self._tell(send)),
            beating,
            asyncio.ensure_future(left(receive)),
            asyncio.ensure_future(self._server.stopped.wait()),
        ]
        try:
            await self._greet(send)
            done, _ = await asyncio.wait(work, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in work:
                task.cancel()
            await asyncio.gather(*work, return_exceptions=True)
        stalled = beating in done and beating.exception() is None and beating.result()
        if not stalled and work[2] not in done:
            await self._end(send)
        for task in done:
            task.result()
        return stalled

    async def _greet(self, send: Send) -> None:
        """The first bytes. What is told is listened to by then, so whoever has them misses nothing of what follows."""
        await asyncio.sleep(0)  # `_tell` begins, and listens before it waits for anything
        await send({"type": "http.response.body", "body": self._told.hello(), "more_body": True})
        self._greeted.set()

    async def _end(self, send: Send) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._server.limits.stall_s):
                await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _tell(self, send: Send) -> None:
        frames = self._told.frames()
        try:
            async for frame in frames:
                await self._greeted.wait()
                if self._is_revoked():
                    return
                self._server.metrics.events += 1
                await send({"type": "http.response.body", "body": frame, "more_body": True})
        finally:
            if isinstance(frames, AsyncGenerator):
                await frames.aclose()  # what ends with the stream ends now, and not when its memory is looked through

    def _is_revoked(self) -> bool:
        """Whether the token that the stream was opened with has been taken away or changed since."""
        return self._token not in self._server.tokens.tokens()

    async def _beat(self, send: Send) -> bool:
        """Shows that the stream is alive; ends if the client takes nothing any more, or may not. Whether it was the
        former."""
        limits = self._server.limits
        while True:
            await asyncio.sleep(limits.heartbeat_s)
            if self._is_revoked():
                return False
            try:
                async with asyncio.timeout(limits.stall_s):
                    await send({"type": "http.response.body", "body": BEAT, "more_body": True})
            except TimeoutError:
                return True
