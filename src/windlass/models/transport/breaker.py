"""A circuit breaker, shared by all models that use the same endpoint with the same key.

Closed, it lets everything through. After too many failures in a row it opens for a while; then one request may try
(half open), and its outcome closes or opens it again. Time comes from a clock that is given.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

FAILURES_MAX = 8
OPEN_MS = 5_000
OPEN_MAX_MS = 120_000
BREAKERS_MAX = 1_024

TRIPPING: frozenset[str] = frozenset(
    {
        "overloaded",
        "server_error",
        "connect_failed",
        "connection_reset",
        "connect_timeout",
        "headers_timeout",
        "first_output_timeout",
        "idle_timeout",
    }
)
"""Failures that say that the endpoint is ill. A rate limit or a bad request says that it is well."""


def monotonic_ms() -> int:
    return int(time.monotonic() * 1000)


class Breaker:
    """Counts failures in a row. Each opening lasts twice as long as the one before, up to a bound."""

    def __init__(
        self,
        clock_ms: Callable[[], int] = monotonic_ms,
        *,
        failures_max: int = FAILURES_MAX,
        open_ms: int = OPEN_MS,
        open_max_ms: int = OPEN_MAX_MS,
    ) -> None:
        self._clock_ms = clock_ms
        self._failures_max = failures_max
        self._open_ms = open_ms
        self._open_max_ms = open_max_ms
        self._failures = 0
        self._openings = 0
        self._closed_at_ms: int | None = None
        self._probing_until_ms = 0

    @property
    def state(self) -> str:
        """`closed`, `open` or `half_open`, for people."""
        if self._closed_at_ms is None:
            return "closed"
        return "open" if self._clock_ms() < self._closed_at_ms else "half_open"

    def blocked_ms(self) -> int:
        """0 if a request may go now, else how long to wait. Half open, the first to ask is the probe; the others wait
        until it has ended, or for one opening at most should it never tell."""
        if self._closed_at_ms is None:
            return 0
        now = self._clock_ms()
        if now < self._closed_at_ms:
            return self._closed_at_ms - now
        if now < self._probing_until_ms:
            return min(self._open_ms, self._probing_until_ms - now)
        self._probing_until_ms = now + self._open_max_ms
        return 0

    def succeeded(self) -> None:
        self._failures = self._openings = 0
        self._closed_at_ms = None
        self._probing_until_ms = 0

    def failed(self, kind: str) -> None:
        """A failure of any kind; only those of an ill endpoint count, all others close the circuit."""
        if kind not in TRIPPING:
            self.succeeded()
            return
        self._failures += 1
        self._probing_until_ms = 0
        if self._failures >= self._failures_max or self._openings:
            lasts_ms = min(self._open_ms << min(self._openings, 16), self._open_max_ms)
            self._closed_at_ms = self._clock_ms() + lasts_ms
            self._openings += 1

    def released(self) -> None:
        """A request ended without an outcome (it was cancelled): if it was the probe, another one may try."""
        self._probing_until_ms = 0


_breakers: OrderedDict[tuple[str, str], Breaker] = OrderedDict()


def breaker_for(base_url: str, key_digest: str) -> Breaker:
    """The one breaker of this process for an endpoint and a key."""
    breaker = _breakers.get((base_url, key_digest))
    if breaker is None:
        breaker = _breakers[(base_url, key_digest)] = Breaker()
        while len(_breakers) > BREAKERS_MAX:
            _breakers.popitem(last=False)
    else:
        _breakers.move_to_end((base_url, key_digest))
    return breaker
