"""What one server takes at the most: sizes, rates, connections, times. Nothing is without a bound."""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The bounds of a server."""

    body_bytes: int = 2 * 1024 * 1024
    """Of a request with JSON."""
    blob_bytes: int = 16 * 1024 * 1024
    """Of a blob that is sent."""
    body_s: float = 30.0
    """How long a body may take to arrive."""
    head_s: float = 15.0
    """How long the head of a request may take, counted from when the connection is opened."""
    rate: float = 200.0
    """Requests each second that one token may make, in the long run."""
    burst: int = 400
    """How many at once."""
    failures: float = 5.0
    """Requests each second that may come without a token that is known."""
    failure_burst: int = 50
    connections: int = 1_000
    streams_of_token: int = 200
    """Event streams that one token may have open."""
    heartbeat_s: float = 15.0
    stall_s: float = 30.0
    """How long a client may take nothing of what is sent to it, an answer or events, before it is let go."""
    wait_s: float = 60.0
    """How long a request may wait for a result."""
    page: int = 1_000
    """Records or sessions in one answer."""
    page_bytes: int = 8 * 1024 * 1024
    """Behind which a page of records ends, however few they are."""
    replay_s: float = 600.0


class Bucket:
    """So many at once, and so many each second in the long run."""

    def __init__(self, rate: float, burst: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._burst = burst
        self._clock = clock
        self._left = float(burst)
        self._at = clock()

    def take(self) -> float:
        """Takes one; gives the seconds to wait if there is none, else 0."""
        now = self._clock()
        self._left = min(float(self._burst), self._left + (now - self._at) * self._rate)
        self._at = now
        if self._left >= 1:
            self._left -= 1
            return 0.0
        return (1 - self._left) / self._rate
