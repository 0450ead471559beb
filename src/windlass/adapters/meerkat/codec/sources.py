"""Who an event comes from, as a value. The text beside it on the wire is for display and decides nothing."""

from __future__ import annotations

from .closed_words import Uuid, Wire


class Source(Wire, frozen=True, kw_only=True, tag_field="type"):
    """Base of the five kinds of sources."""

    @property
    def display(self) -> str:
        """The source as text for people. An outside source may call itself what it likes."""
        raise NotImplementedError

    @property
    def sort_key(self) -> str:
        """The source as text that no other kind of source can have."""
        return self.display


class SessionSource(Source, frozen=True, kw_only=True, tag="session"):
    """A session."""

    session_id: Uuid

    @property
    def display(self) -> str:
        return f"session:{self.session_id}"


class RuntimeSource(Source, frozen=True, kw_only=True, tag="runtime"):
    """A runtime."""

    runtime_id: str

    @property
    def display(self) -> str:
        return f"runtime:{self.runtime_id}"


class InteractionSource(Source, frozen=True, kw_only=True, tag="interaction"):
    """One exchange with somebody."""

    interaction_id: Uuid

    @property
    def display(self) -> str:
        return f"interaction:{self.interaction_id}"


class CallbackSource(Source, frozen=True, kw_only=True, tag="callback"):
    """A call that is carried out elsewhere."""

    @property
    def display(self) -> str:
        return "callback"


class ExternalSource(Source, frozen=True, kw_only=True, tag="external"):
    """Something outside, by the name that it gives itself."""

    source_id: str

    @property
    def display(self) -> str:
        return self.source_id

    @property
    def sort_key(self) -> str:
        return f"external:{self.source_id}"


AnySource = SessionSource | RuntimeSource | InteractionSource | CallbackSource | ExternalSource


def session_of(source: AnySource) -> Uuid | None:
    """The session that an event comes from, if it comes from one."""
    return source.session_id if isinstance(source, SessionSource) else None
