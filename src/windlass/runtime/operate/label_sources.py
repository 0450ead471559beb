"""Where the labels of a session come from, with the words that the log still has for it. Only reads."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable

from windlass.events.base import Event
from windlass.events.tools.calls import CallReceived
from windlass.events.tools.labels import Provenance
from windlass.events.turns import ModelReplied, Prepared
from windlass.events.values.blocks import Value
from windlass.kernel.state import State

from .log_point import Point


class Source(Value, frozen=True, kw_only=True):
    """A label, and what the call was about that brought it, if a call did and the log still says so."""

    found: Provenance
    subject: str = ""


def sources(point: Point) -> list[Source]:
    """The labels of a session in the order in which they came."""
    return [_source(provenance, point.events.get(seq_of(provenance) or 0)) for provenance in _carried(point.state)]


async def sources_of(
    state: State, labels: Iterable[str], event_at: Callable[[int], Awaitable[Event]]
) -> tuple[Source, ...]:
    """The same for some labels of a session that is open; `event_at` reads one record."""
    wanted, told = set(labels), []
    for provenance in _carried(state):
        if provenance.label in wanted:
            seq = seq_of(provenance)
            told.append(_source(provenance, await event_at(seq) if seq is not None else None))
    return tuple(told)


def seq_of(provenance: Provenance) -> int | None:
    """The record that says what the call was about that brought a label; None if no call did."""
    seq, dot, ordinal = provenance.source.removeprefix("c").partition(".")
    return int(seq) if provenance.tool and dot and seq.isdecimal() and ordinal.isdecimal() else None


def _carried(state: State) -> list[Provenance]:
    return sorted((*state.labels.held.values(), *state.labels.met.values()), key=lambda one: one.seq)


def _source(provenance: Provenance, event: Event | None) -> Source:
    prepared = _prepared(event, int(provenance.source.partition(".")[2])) if seq_of(provenance) is not None else None
    return Source(found=provenance, subject=(prepared.subject or "") if prepared is not None else "")


def _prepared(event: Event | None, ordinal: int) -> Prepared | None:
    """What the host found out about a call, out of the event that has it."""
    if isinstance(event, ModelReplied) and event.body is not None and ordinal < len(event.body.calls):
        return event.body.calls[ordinal].prepared
    if isinstance(event, CallReceived) and event.body is not None:
        return event.body.prepared
    return None
