"""A record as readers get it: one committed event with its place in the log."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from windlass.events.base import Event
from windlass.events.stored.codec import Appended

from . import cursors


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
    for seq, event in enumerate(append.events, start=append.first_seq):
        if seq > after and isinstance(event, Event):
            yield Record(seq=seq, at_ms=append.at_ms, event=event, first=append.first_seq, hash=append.hash)
