"""The view: records and live events of a session, one by one, as events of the Copilot SDK in their envelopes.

The events that are kept are one chain: each names the one before it. An ephemeral event names the last that was kept.
"""

from __future__ import annotations

from windlass.events.base import Event
from windlass.events.live import Live
from windlass.events.values.blocks import JsonObject
from windlass.protocol.view import Told, UnknownRecord

from . import request_forms, session_forms, tool_forms, turn_forms
from .event_ids import event_id, iso_time
from .event_types import EPHEMERAL
from .fold import Fold, Form, Opened, Said
from .live_forms import live_forms

FORMS: dict[type[Event], Form] = {
    **session_forms.FORMS,
    **turn_forms.FORMS,
    **tool_forms.FORMS,
    **request_forms.FORMS,
}
"""What becomes of each kind of record; the others are nothing to a client."""


class CopilotView:
    """A fold from what is told about a session to a client's events."""

    def __init__(self, session_id: str) -> None:
        self.fold = Fold(session_id)
        self._at_ms = 0
        self._live = 0

    def feed(self, told: Told) -> list[JsonObject]:
        """The events of one record or live event."""
        if isinstance(told, Live):
            return [self.ephemeral(said, told.after_seq, told.index) for said in live_forms(self.fold, told)]
        self._at_ms = told.at_ms
        if isinstance(told, UnknownRecord):
            return []
        form = FORMS.get(type(told.event))
        if form is None:
            return []
        return [self._placed(told.seq, at, said) for at, said in enumerate(form(self.fold, told, told.event))]

    def ephemeral(self, said: Said, *named: object) -> JsonObject:
        """An event that stands in no log."""
        self._live += 1
        name = event_id(self.fold.session_id, "live", said.kind, self._live, *named)
        return self._enveloped(said, name, ephemeral=True)

    def ephemeral_of(self, kind: str, data: JsonObject) -> JsonObject:
        """The same, of a type and its data."""
        return self.ephemeral(Said(kind, data), data.get("requestId", ""))

    def opened(self) -> list[tuple[Opened, JsonObject]]:
        """What is open, the oldest first, as it was asked: for whoever comes late."""
        return [(one, self.ephemeral(one.said, one.seq)) for one in self.fold.open.values()]

    def _placed(self, seq: int, at: int, said: Said) -> JsonObject:
        name = event_id(self.fold.session_id, seq, at)
        if said.kind in EPHEMERAL:
            return self._enveloped(said, name, ephemeral=True)
        event = self._enveloped(said, name)
        self.fold.kept.append((seq, name))
        return event

    def _enveloped(self, said: Said, name: str, *, ephemeral: bool = False) -> JsonObject:
        event: JsonObject = {
            "id": name,
            "timestamp": iso_time(self._at_ms),
            "parentId": self.fold.kept[-1][1] if self.fold.kept else None,
            "type": said.kind,
            "data": said.data,
        }
        return {**event, "ephemeral": True} if ephemeral else event
