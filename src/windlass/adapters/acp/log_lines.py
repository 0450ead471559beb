"""Logs as lines of JSON: the updates that an editor is told. What is kept beside the log as bytes is not in them."""

from __future__ import annotations

import json
from collections.abc import Callable

from windlass.protocol.view import Told, View

from .view.fold import Update
from .view.update_view import AcpView


class JsonLines:
    """An update for each line, in ASCII, so that no terminal obeys what a model wrote."""

    def __init__(self, session: str) -> None:
        self._view = AcpView(session)

    def feed(self, told: Told) -> list[str]:
        """The lines of one record or live event."""
        updates = [said.body for said in self._view.feed(told) if isinstance(said, Update)]
        return [json.dumps(body, ensure_ascii=True) for body in updates]


LINES: dict[str, Callable[[str], View[str]]] = {"acp": JsonLines}
"""What `windlass logs --view` offers."""
