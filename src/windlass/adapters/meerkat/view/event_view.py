"""The view: records and live events of a session, one by one, as events of Meerkat in their envelopes.

Ids and places are derived from the log, so that every telling gives the same ones. A live event has the place of what
was told before it: whoever missed it has missed nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from windlass.adapters.meerkat.codec import agent_events as events
from windlass.adapters.meerkat.codec.agent_events import AgentEvent
from windlass.adapters.meerkat.codec.envelope import EventEnvelope, from_session
from windlass.events.base import Event
from windlass.events.live import Live, ReasoningDelta, StreamTruncated, TextDelta
from windlass.protocol.view import Told, UnknownRecord

from . import run_forms, session_forms, tool_forms
from .fold import Fold, Form, derived_id, session_uuid

FORMS: dict[type[Event], Form] = {**run_forms.FORMS, **tool_forms.FORMS, **session_forms.FORMS}
"""What becomes of each kind of record; the others are not told there."""


class MeerkatView:
    """A fold from what is told about a session to Meerkat's events."""

    def __init__(self, session: str, *, mob_id: str | None = None) -> None:
        self.fold = Fold(session, session_uuid(session))
        self._mob_id = mob_id
        self._seq = self._at_ms = self._live = 0

    def feed(self, told: Told) -> list[EventEnvelope[AgentEvent]]:
        """The events of one record or live event."""
        if isinstance(told, Live):
            return [self._ephemeral(event) for event in live_events(told)]
        self._at_ms = told.at_ms
        if isinstance(told, UnknownRecord):
            return []
        form = FORMS.get(type(told.event))
        return [self._placed(event) for event in form(self.fold, told, told.event)] if form is not None else []

    def _placed(self, event: AgentEvent) -> EventEnvelope[AgentEvent]:
        self._seq += 1
        return self._enveloped(event, self._seq)

    def _ephemeral(self, event: AgentEvent) -> EventEnvelope[AgentEvent]:
        self._live += 1
        return self._enveloped(event, "live", self._live)

    def _enveloped(self, event: AgentEvent, *named: object) -> EventEnvelope[AgentEvent]:
        name = derived_id("event", self.fold.session, *named, at_ms=self._at_ms)
        return from_session(
            self.fold.session_id, event, event_id=name, seq=self._seq, at_ms=self._at_ms, mob_id=self._mob_id
        )


def live_events(live: Live) -> Iterator[AgentEvent]:
    """What is being written; the whole of it is told by a record."""
    match live:
        case TextDelta():
            yield events.TextDelta(delta=live.text)
        case ReasoningDelta():
            yield events.ReasoningDelta(delta=live.text)
        case StreamTruncated():
            yield events.StreamTruncated(reason=live.reason)
        case _:
            return
