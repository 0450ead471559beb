"""The log of one session as a file of lines: where each append lies in it, and reading them back."""

from __future__ import annotations

import pathlib
from array import array
from bisect import bisect_right
from collections.abc import Iterator

from windlass.events.errors import Damaged, NotFound
from windlass.events.stored.record import Sealed
from windlass.store.base import Key

from .line_file import Damage, Files, LineFile
from .line_format import LOG, LogLine, parse_append

PAGE_LINES = 256
PAGE_BYTES = 1024 * 1024
"""How much of a log one job of the writer reads."""


class LogFile:
    """The file, and the offset of each append in it. `first_hash` is what its first line continues."""

    def __init__(self, key: Key, path: pathlib.Path, files: Files, first_hash: str) -> None:
        self.file: LineFile[LogLine] = LineFile(path, LOG, files)
        self.first_hash = first_hash
        self._key = key
        self._starts, self._offsets = array("Q"), array("Q")

    @property
    def is_empty(self) -> bool:
        return not self._starts

    def note(self, offset: int, first_seq: int) -> None:
        """An append is in the file from this offset on."""
        self._starts.append(first_seq)
        self._offsets.append(offset)

    def damaged(self, seq: int, offset: int, what: str) -> None:
        """From `seq` on, the file holds what is no log."""
        message = f"session {self._key.session!r} may only be read: {str(self.file.path)!r} at byte {offset} {what}"
        self.file.end = offset
        self.file.damage = Damage(f"{message} (event {seq} on)", seq, offset)

    def lines(self) -> Iterator[LogLine]:
        """All appends, in order."""
        return (self._line(number) for number in range(len(self._starts)))

    def page(self, after: int, until: int | None) -> tuple[list[Sealed], bool]:
        """Some lines, and whether there may be more behind them. Raises `Damaged` if there is nothing else left."""
        place = bisect_right(self._starts, after)
        chain = self._line(place - 1).hash if place else self.first_hash
        page: list[Sealed] = []
        size = 0
        for number in range(place, len(self._starts)):
            line = self._line(number)
            if until is not None and line.last_seq > until:
                return page, False
            page.append(line.sealed(chain))
            chain = line.hash
            size += len(line.data)
            if len(page) == PAGE_LINES or size >= PAGE_BYTES:
                return page, True
        damage = self.file.damage
        if damage is None or (until is not None and until < damage.seq):
            return page, False
        if not page:
            raise damage.error()
        return page, True

    def epoch_at(self, seq: int, digest: str) -> int | None:
        """The epoch of the append of this log that ends there with this hash, if there is one."""
        line = self._last_until(seq)
        return line.epoch if line is not None and (line.last_seq, line.hash) == (seq, digest) else None

    def line_with(self, seq: int) -> LogLine:
        """The own append that holds an event. Raises `NotFound`."""
        line = self._last_until(seq)
        if line is None or line.last_seq < seq:
            raise NotFound(f"session {self._key.session!r} has no event {seq} of its own")
        return line

    def _last_until(self, seq: int) -> LogLine | None:
        place = bisect_right(self._starts, seq) - 1
        return self._line(place) if place >= 0 else None

    def _line(self, number: int) -> LogLine:
        offset = self._offsets[number]
        end = self._offsets[number + 1] if number + 1 < len(self._offsets) else self.file.end
        line = parse_append(self.file.read(offset, end - offset).rstrip(b"\n"))
        if line is None:
            seq = self._starts[number]
            raise Damaged(f"append {seq} of session {self._key.session!r} has changed on disk", seq=seq, offset=offset)
        return line
