"""`read`: one page of a text file, with line numbers and where the next page begins."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

from .content import Blotted, Line, binary_kind, chunks
from .limits import FileLimits, Watch
from .root import Refusal, Root
from .shown_names import counted, shown, size

BOM = b"\xef\xbb\xbf"


class Page:
    """Takes the bytes of a file and keeps the wanted lines."""

    def __init__(self, first: int, count: int, column: int, limits: FileLimits, blotted: Blotted | None) -> None:
        self._blotted = blotted
        self.first = first
        self.lines: list[str] = []
        self.number = 1
        """The line that comes next."""
        self.full = False
        self.line = Line()
        self._last = first + count - 1
        self._column = column
        self._limits = limits
        self._room = limits.output_bytes

    def feed(self, piece: bytes) -> None:
        """The next bytes."""
        at = 0
        while at < len(piece):
            if not self.full and self.number < self.first:
                at = self._skip(piece, at)
                continue
            if self.full:
                self._count(piece, at)
                return
            end = piece.find(b"\n", at)
            self.line.add(piece[at:] if end < 0 else piece[at:end])
            if end < 0:
                return
            self.end_line()
            at = end + 1

    def _skip(self, piece: bytes, at: int) -> int:
        """Goes on to the first line that is wanted, by counting."""
        self.line.size += 1  # something was there, even if it is not kept
        while self.number < self.first:
            end = piece.find(b"\n", at)
            if end < 0:
                return len(piece)
            at = end + 1
            self.number += 1
            self.line = Line()
        return at

    def _count(self, piece: bytes, at: int) -> None:
        lines = piece.count(b"\n", at)
        self.number += lines
        rest = len(piece) - (piece.rfind(b"\n") + 1 if lines else at)
        self.line = self.line if not lines else Line()
        self.line.size += rest

    def end_line(self) -> None:
        """Keeps the line that has ended, if it fits."""
        if self.number >= self.first and not self.full:
            text = f"{self.number:>6}\t{self.line.shown(self._limits.line_chars, self._column, self._blotted)}"
            self._room -= len(text.encode()) + 1
            if self._room >= 0 or not self.lines:
                self.lines.append(text)
            self.full = self._room < 0 or self.number >= self._last
        self.number += 1
        self.line = Line()


def read(
    root: Root,
    path: str,
    *,
    offset: int,
    limit: int,
    column: int,
    limits: FileLimits,
    watch: Watch,
    seen: Callable[[int], None] | None = None,
    blotted: Blotted | None = None,
) -> str:
    """A page of a file as text; `seen` is told which file that is. Raises `Refusal` if there is nothing to read."""
    with root.file(path) as fd:
        if seen is not None:
            seen(fd)
        pieces = chunks(fd, limits.file_bytes)
        head = next(pieces, b"")
        kind = binary_kind(head)
        total = os.fstat(fd).st_size
        if kind is not None:
            return f"{shown(path)} is not text: {kind}, {size(total)}"
        if not head:
            return f"{shown(path)} is empty"
        page = Page(offset, min(limit, limits.lines), column, limits, blotted)
        page.feed(head.removeprefix(BOM))
        whole = _rest(page, pieces, watch) and os.pread(fd, 1, limits.file_bytes) == b""
    return _told(page, path, whole=whole, limits=limits)


def _rest(page: Page, pieces: Iterator[bytes], watch: Watch) -> bool:
    """Feeds what follows; says whether the end was reached."""
    for piece in pieces:
        if watch.over(now=True):
            return False
        page.feed(piece)
    return True


def _told(page: Page, path: str, *, whole: bool, limits: FileLimits) -> str:
    ended = page.line.size == 0
    if not ended and not page.full:
        page.end_line()
        ended = True
    lines = page.number - 1 + (0 if ended else 1)
    if not page.lines:
        if whole:
            raise Refusal(f"{shown(path)} has only {counted(lines, 'line')}", code="no_such_line")
        hint = "use grep to find the place"
        raise Refusal(
            f"line {page.first:,} lies beyond the part of {shown(path)} that is read", code="too_large", hint=hint
        )
    last = page.first + len(page.lines) - 1
    of = f"of {lines:,}" if whole else f"of a file with more than {lines:,} lines"
    if page.first == 1 and last == lines and whole:
        head = f"{shown(path)}, {counted(lines, 'line')}"
    else:
        head = f"{shown(path)}, lines {page.first:,} to {last:,} {of}"
    onward = f"; go on with offset={last + 1}" if last < lines or not whole else ""
    return "\n".join([f"[{head}{onward}]", *page.lines])
