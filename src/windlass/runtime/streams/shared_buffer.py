"""What was told of one session lately, kept once for all of its readers: each only remembers how far it has come, so a
reader that does not read costs nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

from windlass.events.live import Live

from .record import Record

T = TypeVar("T")


class Ring(Generic[T]):
    """The last so many things, each under the number of how many came before it, with its place among all."""

    __slots__ = ("count", "items", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.count = 0
        """How many there were."""
        self.items: list[tuple[int, T]] = []
        """Those that are kept; number n is at n modulo the size."""

    def __len__(self) -> int:
        """How many are kept."""
        return len(self.items)

    def add(self, place: int, item: T) -> None:
        if len(self.items) < self.size:
            self.items.append((place, item))
        else:
            self.items[self.count % self.size] = (place, item)
        self.count += 1

    def extend(self, place: int, items: Sequence[T]) -> None:
        """The same for several that follow each other."""
        if len(self.items) + len(items) <= self.size:
            self.items.extend(enumerate(items, place))
            self.count += len(items)
            return
        for at, item in enumerate(items, place):
            self.add(at, item)


class SharedBuffer:
    """The last records and the last deltas of a session. Neither drives out the other."""

    __slots__ = ("deltas", "place", "records")

    def __init__(self, size: int) -> None:
        self.place = 0
        self.records: Ring[Record] = Ring(size)
        self.deltas: Ring[Live] = Ring(size)

    def tell(self, records: list[Record]) -> None:
        self.records.extend(self.place, records)
        self.place += len(records)

    def stream(self, deltas: list[Live]) -> None:
        self.deltas.extend(self.place, deltas)
        self.place += len(deltas)
