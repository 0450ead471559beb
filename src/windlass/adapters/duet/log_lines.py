"""Logs as lines of JSON: events of Duet's turn protocol."""

from __future__ import annotations

import json
from collections.abc import Callable

from windlass.protocol.view import Told, View

from .view.event_view import DuetView


class JsonLines:
    """An event for each line, in ASCII, so that no terminal obeys what a model wrote."""

    def __init__(self, session: str) -> None:
        self._view = DuetView(session)

    def feed(self, told: Told) -> list[str]:
        """The lines of one record or live event."""
        return [json.dumps(event, ensure_ascii=True) for event in self._view.feed(told)]


LINES: dict[str, Callable[[str], View[str]]] = {"duet": JsonLines}
"""What `windlass logs --view` offers."""
