"""Answers over HTTP, bounded while they are read: a body of JSON as a whole, a stream of events by each event."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from .server_process import LINE_BYTES_MAX

ENDS = (b"\n\n", b"\r\n\r\n", b"\r\r")
"""What an event of a stream ends with."""
TAIL_BYTES = 3
"""How much of one piece may belong to such an end whose rest comes with the next."""


class Measure:
    """Counts what comes, and says when it is too much."""

    def __init__(self, *, events: bool) -> None:
        self._events = events
        self._size = 0
        self._tail = b""

    def exceeds(self, piece: bytes) -> bool:
        """Whether a message is longer than any may be, with this piece of it."""
        if not self._events:
            self._size += len(piece)
            return self._size > LINE_BYTES_MAX
        seen = self._tail + piece
        first = min((at + len(end) for end in ENDS if (at := seen.find(end)) >= 0), default=-1)
        if first >= 0 and self._size + first - len(self._tail) <= LINE_BYTES_MAX:
            last = max(seen.rfind(end) + len(end) for end in ENDS if end in seen)
            self._size = len(seen) - last
        else:
            self._size += len(piece)
        self._tail = seen[-TAIL_BYTES:]
        return self._size > LINE_BYTES_MAX


def bounded_transport() -> Any:
    """A transport whose answers end with an error once they are too long. Nothing longer is ever held."""
    import httpx2

    class Bounded(httpx2.AsyncByteStream):
        def __init__(self, inner: Any, measure: Measure) -> None:
            self._inner = inner
            self._measure = measure

        async def __aiter__(self) -> AsyncIterator[bytes]:
            async for piece in self._inner:
                if self._measure.exceeds(piece):
                    raise httpx2.ReadError(f"it sent a message of more than {LINE_BYTES_MAX} bytes")
                yield piece

        async def aclose(self) -> None:
            await self._inner.aclose()

    class Transport(httpx2.AsyncHTTPTransport):
        async def handle_async_request(self, request: Any) -> Any:
            response = await super().handle_async_request(request)
            kind = response.headers.get("content-type", "").lower()
            response.stream = Bounded(response.stream, Measure(events=kind.startswith("text/event-stream")))
            return response

    return Transport(trust_env=False)
