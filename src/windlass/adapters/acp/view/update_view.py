"""The view: records and live events of a session, one by one, as what an editor is told and asked."""

from __future__ import annotations

from windlass.events.base import Event
from windlass.events.live import Live, ToolProgressed, UsageReported
from windlass.events.runs import RunAsked, RunCancelled, RunCompleted, RunFailed, RunInterrupted, RunSlept
from windlass.protocol.view import Told, UnknownRecord

from . import call_forms, message_forms, session_forms
from .fold import Fold, Form, Said

FORMS: dict[type[Event], Form] = {
    **session_forms.FORMS,
    **message_forms.FORMS,
    **call_forms.FORMS,
    **dict.fromkeys((RunCompleted, RunFailed, RunCancelled, RunInterrupted, RunAsked, RunSlept), session_forms.ended),
}
"""What becomes of each kind of record; the others are nothing to an editor."""


class AcpView:
    """A fold from what is told about a session to what an editor is told."""

    def __init__(self, session_id: str, models: tuple[str, ...] = ()) -> None:
        self.fold = Fold(session_id, models)

    def feed(self, told: Told) -> list[Said]:
        """What follows from one record or live event."""
        if isinstance(told, ToolProgressed):
            return list(call_forms.progressed(self.fold, told))
        if isinstance(told, UsageReported):
            return list(session_forms.usage_reported(self.fold, told))
        if isinstance(told, Live):
            return list(message_forms.live_text(self.fold, told))
        if isinstance(told, UnknownRecord):
            return []
        form = FORMS.get(type(told.event))
        return list(form(self.fold, told, told.event)) if form is not None else []
