"""When a server that failed is tried again: each time later than the time before, and after too many failures in a row
not for a while. Pure: it is told the time."""

from __future__ import annotations

FIRST_MS = 200
MOST_MS = 15_000
BREAKS_AFTER = 5
"""So many failures in a row: it is left alone for a while."""
OPEN_MS = 60_000


class Restarts:
    """What is known of the failures of one server. A call that was answered ends them."""

    def __init__(self) -> None:
        self.failures = 0
        self._next_ms = 0.0

    def failed(self, now_ms: float) -> None:
        """It could not be connected, or was lost."""
        self.failures += 1
        pause = OPEN_MS if self.failures >= BREAKS_AFTER else min(MOST_MS, FIRST_MS * 2 ** (self.failures - 1))
        self._next_ms = now_ms + pause

    def worked(self) -> None:
        """It answered a call."""
        self.failures = 0
        self._next_ms = 0.0

    def wait_ms(self, now_ms: float) -> float:
        """How long until it may be tried again."""
        return max(0.0, self._next_ms - now_ms)

    def open(self, now_ms: float) -> bool:
        """Whether it is left alone: nobody waits for it then."""
        return self.failures >= BREAKS_AFTER and now_ms < self._next_ms
