"""`grep`: lines that match a regular expression, file by file.

The expression is judged in blocks of lines, in bounded time each, so that the limit of a call holds."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import closing

from windlass.events.stored.known_secrets import SECRETS
from windlass.events.values.blocks import Value
from windlass.tools.linear_patterns import LinearPattern, NotLinear

from .content import Blotted, binary_kind, chunks, text_of
from .glob_patterns import Glob
from .ignores import Ignores
from .limits import FileLimits, Watch
from .list_tool import NAME_IT, Output, parsed, told
from .root import Refusal, Root
from .shown_names import counted, shown
from .tree import Walk

BLOCK_CHARS = 32 * 1024
"""How much text is ruled out at once; between two blocks the clock is looked at."""
ANCHORS = ("\\A", "\\z", "(?")
"""What makes a line within a block differ from the same line alone."""


class Query(Value, frozen=True, kw_only=True):
    """What is looked for."""

    pattern: str
    path: str = "."
    glob: str | None = None
    ignore_case: bool = False
    context: int = 0
    files_only: bool = False
    offset: int = 0
    limit: int = 100


def _expression(query: Query) -> LinearPattern:
    """What is looked for, over lines: a block of them can be ruled out at once."""
    try:
        return LinearPattern(query.pattern, ignore_case=query.ignore_case, lines=True)
    except NotLinear as error:
        raise Refusal(
            f"the pattern cannot be used: {error}",
            code="bad_pattern",
            hint=f"to find this very text, escape it: {re.escape(query.pattern)}",
        ) from None


class Search:
    """One search: where it is, what it found, what it passed over."""

    def __init__(
        self, root: Root, query: Query, limits: FileLimits, watch: Watch, blotted: Blotted | None = None
    ) -> None:
        self._root = root
        self._blotted = blotted
        self._query = query
        self._limits = limits
        self._watch = watch
        self._expression = _expression(query)
        self._by_block = not any(mark in query.pattern for mark in ANCHORS)
        self._glob: Glob | None = parsed(query.glob, anywhere=True) if query.glob else None
        self._output = Output(query.offset, query.limit, limits)
        self._read = 0
        self.files = 0
        self.binary = 0
        self.cut = 0
        self.long = 0
        self.unreadable = 0

    def run(self, ignores: Ignores) -> str:
        """The result as text. Raises `Refusal` if there is nothing to search."""
        query = self._query
        walk = Walk(self._root, self._limits, self._watch, ignores)
        if self._root.is_folder(query.path):
            self._tree(walk)
        else:
            with self._root.file(query.path) as fd:
                self._file(fd, query.path)
        noun = "file" if query.files_only else "match"
        notes = [*self._output.onward(noun), *walk.notes(), *self._notes(walk)]
        if self._output.count:
            return told(self._output.lines, notes)
        return told([f"no line matches in {counted(self.files, 'file')}"], [*notes, *walk.left_out_note(NAME_IT)])

    def _tree(self, walk: Walk) -> None:
        path = self._query.path
        above = len([part for part in path.split("/") if part not in ("", ".")])
        enters = None if self._glob is None else lambda names: self._leads_on(names[above:])
        with closing(walk.entries(path, enters=enters)) as entries:
            for entry in entries:
                if entry.kind != "file" or not (self._glob is None or self._glob.matches(entry.names[above:])):
                    continue
                try:
                    fd = self._root.child_file(entry.folder, entry.names[-1])
                except OSError:
                    self.unreadable += 1
                    continue
                try:
                    self._file(fd, entry.path)
                finally:
                    os.close(fd)
                if self._output.full:
                    return
                if self._read >= self._limits.bytes_seen:
                    walk.stopped = f"stopped after {self._read:,} bytes"
                    return

    def _leads_on(self, names: Sequence[str]) -> bool:
        return self._glob is None or self._glob.leads_on(names)

    def _file(self, fd: int, path: str) -> None:
        self.files += 1
        data = bytearray()
        for piece in chunks(fd, self._limits.searched_bytes):
            if not data and binary_kind(piece) is not None:
                self.binary += 1
                return
            data += piece
            if self._watch.over(now=True):
                break
        self._read += len(data)
        if os.pread(fd, 1, len(data)):
            self.cut += 1
        text = bytes(data).replace(b"\r\n", b"\n").decode("utf-8", "replace")
        if text:
            self._lines(text.removesuffix("\n").split("\n"), path)

    def _lines(self, lines: list[str], path: str) -> None:
        """Adds the matching lines of one file with what stands around them."""
        around = self._query.context
        told_up_to, headed = 0, False
        for at in self._matching(lines):
            if self._query.files_only:
                self._output.add(shown(path))
                return
            if not self._output.wanted:
                self._output.add("")
                continue
            first = max(told_up_to, at - around)
            last = self._end(lines, at)
            block = [self._line(number, lines[number], number == at) for number in range(first, last)]
            gap = ["  --"] if around and headed and first > told_up_to else []
            self._output.add(*([] if headed else [shown(path)]), *gap, *block)
            told_up_to, headed = last, True

    def _matching(self, lines: list[str]) -> Iterator[int]:
        """The numbers of the lines that match, until nobody wants more."""
        found_in = self._expression.found_in
        for first, end in _blocks(lines):
            if self._watch.over(now=True) or self._output.full:
                return
            if self._by_block and end - first > 1 and not found_in("\n".join(lines[first:end])):
                continue
            for at in range(first, end):
                if self._watch.over() or self._output.full:
                    return
                self.long += len(lines[at]) > self._expression.chars_max
                if found_in(lines[at]):
                    yield at

    def _end(self, lines: list[str], at: int) -> int:
        """Where the lines after a match end: before the next match, which brings its own."""
        last = min(len(lines), at + self._query.context + 1)
        return next((number for number in range(at + 1, last) if self._expression.found_in(lines[number])), last)

    def _line(self, at: int, line: str, matching: bool) -> str:
        data = SECRETS.hidden(line.encode("utf-8", "replace"))
        most = self._limits.line_chars
        cut = self._blotted is not None and len(data) > most
        text = text_of(self._blotted(data) if self._blotted is not None and cut else data)
        part = text if len(text) <= most else f"{text[:most]} … [{len(text) - most:,} more characters]"
        return f"{at + 1:>6}{':' if matching else '-'} {part}"

    def _notes(self, walk: Walk) -> list[str]:
        notes = []
        if self._watch.expired and walk.stopped is None:
            notes.append(f"stopped after {self._limits.time_ms / 1000:g} s: name a directory further down")
        if self.cut:
            notes.append(
                f"{counted(self.cut, 'file')} searched in part only, up to {self._limits.searched_bytes:,} bytes"
            )
        if self.long:
            most = self._expression.chars_max
            notes.append(f"{counted(self.long, 'line')} searched in part only, up to {most:,} characters")
        if self.binary:
            notes.append(f"{counted(self.binary, 'file')} passed over, not text")
        if self.unreadable:
            notes.append(f"{counted(self.unreadable, 'file')} could not be read")
        return notes


def _blocks(lines: list[str]) -> Iterator[tuple[int, int]]:
    """Runs of lines that are together at most a block; a longer line is one by itself."""
    first, chars = 0, 0
    for at, line in enumerate(lines):
        if chars + len(line) >= BLOCK_CHARS and at > first:
            yield first, at
            first, chars = at, 0
        chars += len(line) + 1
    yield first, len(lines)
