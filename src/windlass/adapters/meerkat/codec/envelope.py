"""The envelope of an event: who sent it, when, and in which place; and the one order of all envelopes."""

from __future__ import annotations

from typing import Generic, TypeVar

from .closed_words import U64, U64_MAX, Uuid, Wire
from .sources import AnySource, ExternalSource, SessionSource, session_of

Payload = TypeVar("Payload")


class EventEnvelope(Wire, Generic[Payload], frozen=True, kw_only=True):
    """One event on its way. `source_id` is for display: what it says is kept and never read."""

    event_id: Uuid
    source: AnySource
    source_id: str
    seq: U64
    mob_id: str | None = None
    timestamp_ms: U64
    payload: Payload

    @property
    def session_id(self) -> Uuid | None:
        """The session that it comes from, by its typed source alone."""
        return session_of(self.source)


def enveloped(
    payload: Payload, source: AnySource, *, event_id: Uuid, seq: int, at_ms: int, mob_id: str | None = None
) -> EventEnvelope[Payload]:
    """An envelope around an event. A clock that shows a time before 1970 gives the largest number."""
    return EventEnvelope(
        event_id=event_id,
        source=source,
        source_id=source.display,
        seq=seq,
        mob_id=mob_id,
        timestamp_ms=at_ms if at_ms >= 0 else U64_MAX,
        payload=payload,
    )


def from_outside(
    name: str, payload: Payload, *, event_id: Uuid, seq: int, at_ms: int, mob_id: str | None = None
) -> EventEnvelope[Payload]:
    """An envelope of a source that is known by a text alone. It is an outside one, whatever the text looks like."""
    source = ExternalSource(source_id=name)
    return enveloped(payload, source, event_id=event_id, seq=seq, at_ms=at_ms, mob_id=mob_id)


def from_session(
    session_id: Uuid, payload: Payload, *, event_id: Uuid, seq: int, at_ms: int, mob_id: str | None = None
) -> EventEnvelope[Payload]:
    """An envelope of a session."""
    source = SessionSource(session_id=session_id)
    return enveloped(payload, source, event_id=event_id, seq=seq, at_ms=at_ms, mob_id=mob_id)


def order(envelope: EventEnvelope[Payload]) -> tuple[int, str, int, bytes]:
    """What envelopes are sorted by: time, source, place, id. No two that differ in these are equal."""
    return envelope.timestamp_ms, envelope.source.sort_key, envelope.seq, envelope.event_id.bytes


def compared(one: EventEnvelope[Payload], other: EventEnvelope[Payload]) -> int:
    """-1, 0 or 1: whether one comes before the other, is the same, or comes after it."""
    return (order(one) > order(other)) - (order(one) < order(other))
