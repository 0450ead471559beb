"""The events of a session as server-sent events: ids are cursors, so a client resumes exactly where it was cut off,
after a restart of the server too. Live events are marked as ephemeral and have no id.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

import msgspec

from windlass.events.live import Live, StreamTruncated
from windlass.protocol.wire_events import live_bytes, record_bytes
from windlass.runtime.api.session import Session
from windlass.runtime.streams.subscribers import Told

from .slash_desk import SlashClient, SlashDesk, SlashNotice

RETRY_MS = 1_000
"""How long a browser waits before it connects again."""


class EventStream:
    """One client that follows one session."""

    def __init__(
        self,
        session: Session,
        after: int,
        *,
        live: bool,
        asked: bytes = b"",
        slash: tuple[SlashDesk, SlashClient] | None = None,
    ) -> None:
        self._session = session
        self._slash = slash
        self._after: str | int = after
        self.live = live
        self.asked = asked
        """What is open in the session, as JSON; empty if nothing is. It is told before all else, without an id."""

    def hello(self) -> bytes:
        """How long to wait before connecting again, and what is open."""
        hello = b"retry: %d\n\n" % RETRY_MS
        return hello + b"event: requests\ndata: %s\n\n" % self.asked if self.asked else hello

    async def frames(self) -> AsyncGenerator[bytes]:
        """What is told of the session."""
        async with aclosing(self.told()) as told:
            async for one in told:
                if isinstance(one, SlashNotice):
                    yield b"event: slash\ndata: %s\n\n" % msgspec.json.encode(one)
                elif self.live or not isinstance(one, Live):
                    yield event_bytes(one)

    async def told(self) -> AsyncGenerator[Told | SlashNotice]:
        """What is told of the session. The slash commands of its client are there as long as this goes on."""
        if self._slash is None:
            async with aclosing(self._log()) as log:
                async for one in log:
                    yield one
            return
        desk, client = self._slash
        desk.join(self._session.key, client)
        try:
            async with aclosing(_merged(self._log(), client)) as merged:
                async for each in merged:
                    yield each
        finally:
            desk.leave(self._session.key, client)

    async def _log(self) -> AsyncGenerator[Told]:
        """What happens to the session. A reader that was too slow for what is at hand goes on with the log."""
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


async def _merged(log: AsyncGenerator[Told], client: SlashClient) -> AsyncGenerator[Told | SlashNotice]:
    """What happens and what the client is asked, as it comes, until either ends."""
    happened, noticed = asyncio.ensure_future(anext(log, None)), asyncio.ensure_future(client.next())
    try:
        while True:
            await asyncio.wait((happened, noticed), return_when=asyncio.FIRST_COMPLETED)
            if noticed.done():
                if (notice := noticed.result()) is None:
                    return
                noticed = asyncio.ensure_future(client.next())
                yield notice
            if happened.done():
                if (told := happened.result()) is None:
                    return
                happened = asyncio.ensure_future(anext(log, None))
                yield told
    finally:
        happened.cancel()
        noticed.cancel()
        await asyncio.gather(happened, noticed, return_exceptions=True)
        await log.aclose()


def event_bytes(told: Told) -> bytes:
    """One record or live event as a server-sent event. JSON has no line breaks of its own."""
    if isinstance(told, Live):
        return b"event: live\ndata: %s\n\n" % live_bytes(told)
    return b"id: %s\nevent: record\ndata: %s\n\n" % (told.cursor.encode(), record_bytes(told))
