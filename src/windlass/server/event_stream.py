"""The events of a session as server-sent events: ids are cursors, so a client resumes exactly where it was cut off,
after a restart of the server too. Live events are marked as ephemeral and have no id.

A reader that does not read costs one connection with a bounded buffer, and is let go after a while.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from starlette.types import Receive, Send

from windlass.events.live import Live, StreamTruncated
from windlass.protocol.wire_events import live_bytes, record_bytes
from windlass.runtime.api.session import Session
from windlass.runtime.streams.subscribers import Told

from .access.token_file import Token
from .answer import GUARDED
from .server_state import ServerState

MEDIA = "text/event-stream"
BEAT = b": alive\n\n"
RETRY_MS = 1_000
"""How long a browser waits before it connects again."""


class EventStream:
    """One client that follows one session."""

    def __init__(
        self, server: ServerState, session: Session, token: Token, after: int, *, live: bool, asked: bytes = b""
    ) -> None:
        self._server = server
        self._token = token
        self._session = session
        self._after: str | int = after
        self.live = live
        self.asked = asked
        """What is open in the session, as JSON; empty if nothing is. It is told before all else, without an id."""
        self._greeted = asyncio.Event()

    async def run(self, receive: Receive, send: Send, more: dict[str, str]) -> bool:
        """Sends events until the client leaves or the server stops. Whether the client had stopped reading."""
        headers = {**GUARDED, "Content-Type": MEDIA, "X-Accel-Buffering": "no", **more}
        raw = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
        await send({"type": "http.response.start", "status": 200, "headers": raw})
        work = [
            asyncio.ensure_future(self._tell(send)),
            asyncio.ensure_future(self._beat(send)),
            asyncio.ensure_future(_left(receive)),
            asyncio.ensure_future(self._server.stopped.wait()),
        ]
        try:
            await self._greet(send)
            done, _ = await asyncio.wait(work, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in work:
                task.cancel()
            await asyncio.gather(*work, return_exceptions=True)
        stalled = work[1] in done
        if not stalled and work[2] not in done:
            await self._end(send)
        for task in done:
            task.result()
        return stalled

    async def _greet(self, send: Send) -> None:
        """The first bytes. The session is listened to by then, so whoever has them misses nothing of what follows."""
        await asyncio.sleep(0)  # `_tell` begins, and listens before it waits for anything
        hello = b"retry: %d\n\n" % RETRY_MS
        if self.asked:
            hello += b"event: requests\ndata: %s\n\n" % self.asked
        await send({"type": "http.response.body", "body": hello, "more_body": True})
        self._greeted.set()

    async def _end(self, send: Send) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._server.limits.stall_s):
                await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _tell(self, send: Send) -> None:
        async for one in self.told():
            if isinstance(one, Live) and not self.live:
                continue
            await self._greeted.wait()
            if self._is_revoked():
                return
            self._server.metrics.events += 1
            await send({"type": "http.response.body", "body": event_bytes(one), "more_body": True})

    async def told(self) -> AsyncIterator[Told]:
        """What is told of the session. A reader that was too slow for what is at hand goes on with the log."""
        while True:
            behind: str | None = None
            async for one in self._session.tail(after=self._after):
                if isinstance(one, StreamTruncated) and one.cursor is not None:
                    behind = one.cursor
                else:
                    yield one
            if behind is None:
                return
            self._after = behind

    def _is_revoked(self) -> bool:
        """Whether the token that the stream was opened with has been taken away or changed since."""
        return self._token not in self._server.tokens.tokens()

    async def _beat(self, send: Send) -> None:
        """Shows that the stream is alive; ends if the client takes nothing any more, or may not."""
        limits = self._server.limits
        while True:
            await asyncio.sleep(limits.heartbeat_s)
            if self._is_revoked():
                return
            try:
                async with asyncio.timeout(limits.stall_s):
                    await send({"type": "http.response.body", "body": BEAT, "more_body": True})
            except TimeoutError:
                return


def event_bytes(told: Told) -> bytes:
    """One record or live event as a server-sent event. JSON has no line breaks of its own."""
    if isinstance(told, Live):
        return b"event: live\ndata: %s\n\n" % live_bytes(told)
    return b"id: %s\nevent: record\ndata: %s\n\n" % (told.cursor.encode(), record_bytes(told))


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        continue
