"""A record as readers get it: one committed event with its place in the log."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import final

import msgspec

from windlass.events.base import Event, Fact
from windlass.events.sessions import SessionStarted
from windlass.events.stored.codec import Appended, Unknown

from . import cursors


@final
class Record(msgspec.Struct, frozen=True, kw_only=True):
    """One committed event with its place in the log."""

    seq: int
    at_ms: int
    event: Event
    first: int
    """The seq of the fact that caused it; its own if it is the fact."""
    hash: str = ""
    """The chain hash of the append that holds it."""

    @property
    def cursor(self) -> str:
        """The place behind this record, for `session.events(after=...)`."""
        return cursors.made(self.seq, self.hash)


def records_of(append: Appended, *, after: int = 0) -> Iterator[Record]:
    """The records of one append behind a seq. An event of a newer version that may be ignored is left out."""
    seqs = causes(append.first_seq, append.events)
    for seq, event in enumerate(append.events, start=append.first_seq):
        if seq > after and isinstance(event, Event):
            cause = seqs[seq - append.first_seq]
            yield Record(seq=seq, at_ms=append.at_ms, event=event, first=cause, hash=append.hash)


def causes(first_seq: int, events: Sequence[Event | Unknown]) -> list[int]:
    """The seq of the fact that caused each event of an append: the first one of all, unless the append begins a
    session and holds several."""
    if not isinstance(events[0], SessionStarted):
        return [first_seq] * len(events)
    seqs: list[int] = []
    for seq, event in enumerate(events, start=first_seq):
        seqs.append(seq if isinstance(event, Fact) else seqs[-1])
    return seqs
