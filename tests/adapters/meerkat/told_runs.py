"""The committed logs of real runs, told as events of Meerkat."""

from __future__ import annotations

import functools

from tests.adapters.committed_runs import names, told
from windlass.adapters.meerkat.codec.agent_events import AgentEvent, type_of
from windlass.adapters.meerkat.codec.envelope import EventEnvelope
from windlass.adapters.meerkat.view.event_view import MeerkatView

__all__ = ["envelopes", "kinds", "names", "told"]


@functools.cache
def envelopes(name: str) -> tuple[EventEnvelope[AgentEvent], ...]:
    """What somebody would have been told of a run."""
    view = MeerkatView(name)
    return tuple(envelope for one in told(name) for envelope in view.feed(one))


@functools.cache
def kinds() -> dict[str, str]:
    """Which events the runs were told in, each with the first run that was."""
    found: dict[str, str] = {}
    for name in names():
        for envelope in envelopes(name):
            found.setdefault(type_of(envelope.payload), name)
    return found
