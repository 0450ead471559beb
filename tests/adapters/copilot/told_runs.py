"""The committed logs of real runs, told as events of the Copilot SDK."""

from __future__ import annotations

import functools
from typing import Any

from tests.adapters.committed_runs import names, told
from windlass.adapters.copilot.view.event_view import CopilotView

__all__ = ["events_of", "kinds", "names", "told"]


@functools.cache
def events_of(name: str) -> tuple[dict[str, Any], ...]:
    """What a client would have been told of a run."""
    view = CopilotView(name)
    return tuple(event for one in told(name) for event in view.feed(one))


@functools.cache
def kinds() -> dict[str, set[str]]:
    """Which types the runs were told in, each with the runs that were."""
    found: dict[str, set[str]] = {}
    for name in names():
        for event in events_of(name):
            found.setdefault(event["type"], set()).add(name)
    return found
