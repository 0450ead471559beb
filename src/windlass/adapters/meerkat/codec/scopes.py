"""Where in a tree of agents an event happened: a path of frames, and the one id that follows from it."""

from __future__ import annotations

from windlass.events.errors import CodecError

from .agent_events import AgentEvent
from .closed_words import Wire

PRIMARY = "primary"


class PrimaryFrame(Wire, frozen=True, kw_only=True, tag_field="scope", tag="primary"):
    """The session at the top."""

    session_id: str


class MemberFrame(Wire, frozen=True, kw_only=True, tag_field="scope", tag="mob_member"):
    """An agent that works for it. Which process runs the agent is not told: such fields are passed over when read."""

    flow_run_id: str
    agent_identity: str


Frame = PrimaryFrame | MemberFrame


def scope_of(path: tuple[Frame, ...]) -> str:
    """The id of a path."""
    parts = [PRIMARY if isinstance(frame, PrimaryFrame) else f"mob:{frame.agent_identity}" for frame in path]
    return "/".join(parts) or PRIMARY


class ScopedEvent(Wire, frozen=True, kw_only=True):
    """An event with its place. Raises `CodecError` if the id is not that of the path."""

    scope_id: str
    scope_path: tuple[Frame, ...]
    event: AgentEvent

    def __post_init__(self) -> None:
        if self.scope_id != scope_of(self.scope_path):
            raise CodecError(f"scope_id {self.scope_id!r} is not that of its path, {scope_of(self.scope_path)!r}")


def scoped(path: tuple[Frame, ...], event: AgentEvent) -> ScopedEvent:
    """An event at the end of a path."""
    return ScopedEvent(scope_id=scope_of(path), scope_path=path, event=event)


def at_top(session_id: str, event: AgentEvent) -> ScopedEvent:
    """An event of the session at the top."""
    return scoped((PrimaryFrame(session_id=session_id),), event)


def deeper(event: ScopedEvent, frame: Frame) -> ScopedEvent:
    """The same event one frame further down."""
    return scoped((*event.scope_path, frame), event.event)
