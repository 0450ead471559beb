"""How often something may be done: as often as one likes for a while, then steadily. Whoever does it waits meanwhile,
so that nothing piles up. Pure: it is told the time."""

from __future__ import annotations


class Pace:
    """How often something was done, and how long to wait for the next time."""

    def __init__(self, at_once: int, per_s: float) -> None:
        self._at_once = float(at_once)
        self._per_s = per_s
        self._room = self._at_once
        self._since_s: float | None = None

    def wait_s(self, now_s: float, times: int = 1) -> float:
        """How long to wait before it is done once more, or so many times; they are counted."""
        passed_s = now_s - self._since_s if self._since_s is not None else 0.0
        self._room = min(self._at_once, self._room + passed_s * self._per_s) - times
        self._since_s = now_s
        return max(0.0, -self._room / self._per_s)
