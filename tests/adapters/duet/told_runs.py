"""The committed logs of real runs, told as events of Duet's protocol."""

from __future__ import annotations

import functools
from typing import Any

from tests.adapters.committed_runs import names, told
from windlass.adapters.duet.view.event_view import DuetView

__all__ = ["events_of", "kinds", "names", "told"]


@functools.cache
def events_of(name: str) -> tuple[dict[str, Any], ...]:
    """What a caller would have been told of a run."""
    view = DuetView(name)
    return tuple(event for one in told(name) for event in view.feed(one))


def kind_of(event: dict[str, Any]) -> str:
    """What an event is, as the table of the docs calls it."""
    if event["type"] == "step":
        step = event["step"]
        return f"step.{step['type']}" + (f".{step['status']}" if "status" in step else "")
    return f"{event['type']}.{event['status']}" if event["type"] == "complete" else str(event["type"])


@functools.cache
def kinds() -> dict[str, str]:
    """Which events the runs were told in, each with the first run that was."""
    found: dict[str, str] = {}
    for name in names():
        for event in events_of(name):
            found.setdefault(kind_of(event), name)
    return found
