"""What was told of one session lately, kept once for all of its readers: each only remembers how far it has come. It is
kept until the slowest of them has read it, so readers that keep up cost nothing, and those that do not are bounded
twice: by how many things they may be behind, and by the bytes that a process keeps for all such readers together.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Generic, TypeVar

from windlass.events.live import CallDelta, Live, ReasoningDelta, TextDelta, ToolProgressed

from .record import Record

T = TypeVar("T")
KEPT_BYTES_MAX = 64 * 1024 * 1024
ITEM_BYTES = 200
"""What one thing takes beside its text, about."""


class Allowance:
    """How many bytes may be kept for slow readers, whatever session they read. If that is too little, the session with
    the most gives up the older half of what it keeps."""

    def __init__(self, bytes_max: int = KEPT_BYTES_MAX) -> None:
        self.bytes_max = bytes_max
        self.used = 0
        self._backlogs: set[Backlog[Record] | Backlog[Live]] = set()

    def join(self, *backlogs: Backlog[Record] | Backlog[Live]) -> None:
        """Something is kept for the readers of a session from now on."""
        self._backlogs.update(backlogs)

    def leave(self, *backlogs: Backlog[Record] | Backlog[Live]) -> None:
        """Nobody reads that session any more: what its last reader still holds goes with it."""
        for backlog in backlogs:
            self._backlogs.discard(backlog)
            self.used -= backlog.used
            backlog.used = 0

    def keep_to(self) -> None:
        """Has whoever keeps the most give up the older half, until there is room."""
        while self.used > self.bytes_max:
            most = max(self._backlogs, key=lambda backlog: backlog.used)
            if len(most) < 2:
                return
            most.forget(most.first + (len(most) + 1) // 2)


class Backlog(Generic[T]):
    """The last things told, each under the number of how many came before it, with its place among all."""

    __slots__ = ("_allowance", "count", "first", "items", "size", "slowest", "used")

    def __init__(self, size: int, allowance: Allowance) -> None:
        self._allowance = allowance
        self.size = size
        self.items: deque[tuple[int, T, int]] = deque()
        """Those that are kept: place, thing, bytes."""
        self.count = 0
        """How many there were."""
        self.first = 0
        """The number of the oldest that is kept; of the next to come if none is."""
        self.used = 0
        """How many bytes those that are kept take."""
        self.slowest: object = None
        """The reader that had come least far when somebody looked last."""

    def __len__(self) -> int:
        """How many are kept."""
        return len(self.items)

    def add(self, place: int, things: Sequence[T], sizes: Sequence[int]) -> None:
        """Keeps some more, the first of which has this place. The caller looks at the allowance afterwards."""
        self.items.extend(zip(range(place, place + len(things)), things, sizes, strict=True))
        self.count += len(things)
        size = sum(sizes)
        self.used += size
        self._allowance.used += size
        if len(self.items) > self.size:
            self.forget(self.count - self.size)

    def forget(self, before: int) -> None:
        """Keeps nothing any more that has a lower number."""
        if before >= self.count:
            gone = self.used
            self.items.clear()
            self.first = self.count
        else:
            gone = 0
            for _ in range(before - self.first):
                gone += self.items.popleft()[2]
                self.first += 1
        self.used -= gone
        self._allowance.used -= gone


class SharedBuffer:
    """The last records and the last deltas of a session. Neither drives out the other."""

    __slots__ = ("_allowance", "deltas", "place", "records")

    def __init__(self, size: int, allowance: Allowance) -> None:
        self._allowance = allowance
        self.place = 0
        self.records: Backlog[Record] = Backlog(size, allowance)
        self.deltas: Backlog[Live] = Backlog(size, allowance)
        allowance.join(self.records, self.deltas)

    def close(self) -> None:
        """It is shared no more."""
        self._allowance.leave(self.records, self.deltas)

    def tell(self, records: list[Record], data_bytes: int) -> None:
        """Keeps records, which take so many bytes together in the log."""
        each = ITEM_BYTES + data_bytes // len(records)
        self.records.add(self.place, records, [each] * len(records))
        self.place += len(records)
        self._allowance.keep_to()

    def stream(self, deltas: Sequence[Live]) -> None:
        """Keeps deltas."""
        chars = [len(delta.text) if type(delta) is TextDelta else _chars(delta) for delta in deltas]
        self.deltas.add(self.place, deltas, [ITEM_BYTES + size for size in chars])
        self.place += len(deltas)
        if self._allowance.used > self._allowance.bytes_max:
            self._allowance.keep_to()


def _chars(delta: Live) -> int:
    """How much text a delta has, as far as it can be had at no cost."""
    if isinstance(delta, ReasoningDelta):
        return len(delta.text)
    if isinstance(delta, CallDelta):
        return len(delta.fragment)
    if isinstance(delta, ToolProgressed):
        return len(delta.message) + sum(len(getattr(block, "text", "")) for block in delta.content)
    return 0
