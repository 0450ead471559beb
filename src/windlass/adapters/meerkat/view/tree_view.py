"""The view of a tree: what is told of a session and of those below it, in one stream, each event with its scope. An
envelope has the source and the place of its own session."""

from __future__ import annotations

from windlass.adapters.meerkat.codec.envelope import EventEnvelope, enveloped
from windlass.adapters.meerkat.codec.scopes import Frame, MemberFrame, PrimaryFrame, ScopedEvent, scoped
from windlass.runtime.streams.tree_merge import Scoped, ScopeFrame

from .event_view import MeerkatView
from .fold import session_uuid


class MeerkatTreeView:
    """A fold from what is told of a tree to scoped events, with a view for each session."""

    def __init__(self, session: str, *, mob_id: str | None = None) -> None:
        self._top = PrimaryFrame(session_id=str(session_uuid(session)))
        self._mob_id = mob_id
        self._views: dict[str, MeerkatView] = {}

    def feed(self, one: Scoped) -> list[EventEnvelope[ScopedEvent]]:
        """The events of one record or live event of a tree."""
        view = self._views.get(one.session)
        if view is None:
            view = self._views[one.session] = MeerkatView(one.session, mob_id=self._mob_id)
        path: tuple[Frame, ...] = (self._top, *map(member, one.frames))
        return [
            enveloped(
                scoped(path, envelope.payload),
                envelope.source,
                event_id=envelope.event_id,
                seq=envelope.seq,
                at_ms=envelope.timestamp_ms,
                mob_id=envelope.mob_id,
            )
            for envelope in view.feed(one.told)
        ]


def member(frame: ScopeFrame) -> MemberFrame:
    """A child session: its run there is the session, its identity the agent with the call that started it, since one
    agent may run several."""
    identity = f"{frame.agent}:{frame.call_id}" if frame.agent else frame.call_id
    return MemberFrame(flow_run_id=str(session_uuid(frame.session)), agent_identity=identity)
