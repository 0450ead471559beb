"""Figures of a server, for Prometheus. They count and name routes; nothing in them is of a session."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping

MEDIA = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """What has happened since the server began."""

    def __init__(self) -> None:
        self.began = time.time()
        self.requests: Counter[tuple[str, str, int]] = Counter()
        """By method, route and status."""
        self.seconds: Counter[tuple[str, str]] = Counter()
        """How long requests took together, by method and route."""
        self.refused: Counter[str] = Counter()
        """What the gate turned away, by reason."""
        self.events = 0
        """Events that streams have sent."""

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        """Counts a request."""
        self.requests[method, route, status] += 1
        self.seconds[method, route] += seconds  # type: ignore[assignment]

    def text(self, gauges: Mapping[str, tuple[str, float]]) -> str:
        """All figures in Prometheus' own form, with some that are of this moment: a name, its help and its value."""
        lines: list[str] = []
        lines += _family("windlass_requests_total", "counter", "Requests by route and status.", self._requests())
        lines += _family("windlass_request_seconds_sum", "counter", "Seconds that requests took.", self._seconds())
        refused = ((f'reason="{reason}"', count) for reason, count in sorted(self.refused.items()))
        lines += _family("windlass_refused_total", "counter", "Requests that the gate turned away.", refused)
        lines += _family("windlass_stream_events_total", "counter", "Events sent to streams.", [("", self.events)])
        lines += _family("windlass_start_seconds", "gauge", "When the server began.", [("", round(self.began, 3))])
        for name, (words, value) in gauges.items():
            lines += _family(name, "gauge", words, [("", value)])
        return "\n".join(lines) + "\n"

    def _requests(self) -> Iterable[tuple[str, float]]:
        for (method, route, status), count in sorted(self.requests.items()):
            yield f'method="{method}",route="{route}",status="{status}"', count

    def _seconds(self) -> Iterable[tuple[str, float]]:
        for (method, route), seconds in sorted(self.seconds.items()):
            yield f'method="{method}",route="{route}"', round(seconds, 6)


def _family(name: str, kind: str, words: str, samples: Iterable[tuple[str, float]]) -> list[str]:
    rows = [f"{name}{{{labels}}} {value}" if labels else f"{name} {value}" for labels, value in samples]
    return [f"# HELP {name} {words}", f"# TYPE {name} {kind}", *rows]
