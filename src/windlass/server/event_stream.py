"""The events of a session as server-sent events: ids are cursors, so a client resumes exactly where it was cut off,
after a restart of the server too. Live events are marked as ephemeral and have no id.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from windlass.events.live import Live, StreamTruncated
from windlass.protocol.wire_events import live_bytes, record_bytes
from windlass.runtime.api.session import Session
from windlass.runtime.streams.subscribers import Told

RETRY_MS = 1_000
"""How long a browser waits before it connects again."""


class EventStream:
    """One client that follows one session."""

    def __init__(self, session: Session, after: int, *, live: bool, asked: bytes = b"") -> None:
        self._session = session
        self._after: str | int = after
        self.live = live
        self.asked = asked
        """What is open in the session, as JSON; empty if nothing is. It is told before all else, without an id."""

    def hello(self) -> bytes:
        """How long to wait before connecting again, and what is open."""
        hello = b"retry: %d\n\n" % RETRY_MS
        return hello + b"event: requests\ndata: %s\n\n" % self.asked if self.asked else hello

    async def frames(self) -> AsyncIterator[bytes]:
        """What is told of the session."""
        async for one in self.told():
            if self.live or not isinstance(one, Live):
                yield event_bytes(one)

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


def event_bytes(told: Told) -> bytes:
    """One record or live event as a server-sent event. JSON has no line breaks of its own."""
    if isinstance(told, Live):
        return b"event: live\ndata: %s\n\n" % live_bytes(told)
    return b"id: %s\nevent: record\ndata: %s\n\n" % (told.cursor.encode(), record_bytes(told))
