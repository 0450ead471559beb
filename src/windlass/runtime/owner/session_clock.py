"""A session's own clock: the time of this process, but it never goes back, also not behind what the log says.

If the log is ahead of the clock (an earlier process ran under a clock that was ahead, or this one's was set back
before it began), the session's time goes on from the log's end: what is left to wait is a duration, not a date.
"""

from __future__ import annotations

from windlass.runtime.host.steady_clock import SteadyClock
from windlass.store.base import IndexRow


class SessionClock:
    """So neither a clock that was set back nor one that once was ahead makes a timer wait longer."""

    def __init__(self, steady: SteadyClock) -> None:
        self._steady = steady
        self._ms = 0
        self._at_ms = 0
        self._read_ms = 0
        """What this process's time was when it was read last."""

    def now_ms(self) -> int:
        self._read_ms, monotonic_ms = self._steady.both_ms()
        passed_ms = self._ms + monotonic_ms - self._at_ms
        self._ms = passed_ms if passed_ms > self._read_ms else self._read_ms
        self._at_ms = monotonic_ms
        return self._ms

    def not_before(self, ms: int) -> None:
        """Time has come this far already: a log says so."""
        self._ms, self._at_ms = max(self._ms, ms), self._steady.monotonic_ms()

    def read_beside(self, ms: int) -> int | None:
        """What this process's time was when the session's was read last, if the log is ahead of it: a later process
        needs both to know what has passed since. None otherwise."""
        return self._read_ms if self._read_ms < ms else None


def time_of(row: IndexRow, now_ms: int) -> int:
    """The time of a session that nobody drives, as far as its row and this process's time say. If the log is ahead,
    what has passed since is measured from one reading of the clock to the next, if there were two."""
    if now_ms >= row.updated_ms:
        return now_ms
    passed_ms = now_ms - row.clock_ms if row.clock_ms is not None else 0
    return row.updated_ms + max(0, passed_ms)


def is_unread(row: IndexRow, now_ms: int) -> bool:
    """Whether nobody can say what has passed since a log that is ahead of the clock was written: no reading of the
    clock stands beside it, or one that is ahead as well."""
    return now_ms < row.updated_ms and (row.clock_ms is None or now_ms < row.clock_ms)
