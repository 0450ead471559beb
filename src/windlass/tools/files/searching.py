"""`grep`: lines that match a regular expression, file by file.

The expression is judged by an engine whose time is bounded by the text, never by one that backtracks."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import closing
from typing import Any

from windlass.events.blocks import Value

from .bounds import FileLimits, Watch
from .content import binary_kind, chunks, text_of
from .ignores import Ignores
from .listing import NAME_IT, Output, parsed, told
from .names import counted, shown
from .patterns import Glob
from .root import Refusal, Root
from .tree import Walk

PROGRAM_BYTES_MAX = 4 * 1024 * 1024
"""How large a compiled expression may become."""


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


class Expression:
    """A regular expression over lines."""

    def __init__(self, pattern: str, *, ignore_case: bool) -> None:
        import jsonschema_rs

        options = jsonschema_rs.RegexOptions(size_limit=PROGRAM_BYTES_MAX, dfa_size_limit=PROGRAM_BYTES_MAX)
        # Lines within a text are judged as by themselves, so that a whole file can be ruled out at once.
        flags = "(?mi)" if ignore_case else "(?m)"
        try:
            self._compiled: Any = jsonschema_rs.validator_for({"pattern": flags + pattern}, pattern_options=options)
        except ValueError:
            raise Refusal(
                f"the pattern cannot be used: {_reason(pattern)}",
                code="bad_pattern",
                hint=f"to find this very text, escape it: {_literal(pattern)}",
            ) from None
        self._whole = not any(mark in pattern for mark in ("\\A", "\\z", "(?-"))

    def matches(self, line: str) -> bool:
        return bool(self._compiled.is_valid(line))

    def may_match(self, text: str) -> bool:
        """False only where no line of a text matches."""
        return not self._whole or bool(self._compiled.is_valid(text))


def _reason(pattern: str) -> str:
    import re

    try:
        re.compile(pattern)
    except re.error as error:
        return str(error)
    except (OverflowError, RecursionError):
        return "it is too large"
    return "look-around, back-references and very large repetitions are not supported"


def _literal(pattern: str) -> str:
    import re

    return re.escape(pattern)


class Search:
    """One search: where it is, what it found, what it passed over."""

    def __init__(self, root: Root, query: Query, limits: FileLimits, watch: Watch) -> None:
        self._root = root
        self._query = query
        self._limits = limits
        self._watch = watch
        self._expression = Expression(query.pattern, ignore_case=query.ignore_case)
        self._glob: Glob | None = parsed(query.glob, anywhere=True) if query.glob else None
        self._output = Output(query.offset, query.limit, limits)
        self._read = 0
        self.files = 0
        self.binary = 0
        self.cut = 0
        self.unreadable = 0

    def run(self, ignores: Ignores) -> str:
        """The result as text. Raises `Refusal` where there is nothing to search."""
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
        with closing(walk.entries(path, enters=enters)) as found:
            for entry in found:
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
        if text and self._expression.may_match(text):
            self._lines(text.removesuffix("\n").split("\n"), path)

    def _lines(self, lines: list[str], path: str) -> None:
        """Adds the matching lines of one file with what stands around them."""
        matches = self._expression.matches
        around = self._query.context
        told_up_to, headed = 0, False
        for at, line in enumerate(lines):
            if self._watch.over() or self._output.full:
                return
            if not matches(line):
                continue
            if self._query.files_only:
                self._output.add(shown(path))
                return
            if not self._output.wanted:
                self._output.add("")
                continue
            first = max(told_up_to, at - around)
            last = _end(lines, at, around, matches)
            block = [self._line(number, lines[number], number == at) for number in range(first, last)]
            gap = ["  --"] if around and headed and first > told_up_to else []
            self._output.add(*([] if headed else [shown(path)]), *gap, *block)
            told_up_to, headed = last, True

    def _line(self, at: int, line: str, matching: bool) -> str:
        text = text_of(line.encode("utf-8", "replace"))
        most = self._limits.line_chars
        part = text if len(text) <= most else f"{text[:most]} … [{len(text) - most:,} more characters]"
        return f"{at + 1:>6}{':' if matching else '-'} {part}"

    def _notes(self, walk: Walk) -> list[str]:
        found = []
        if self._watch.expired and walk.stopped is None:
            found.append(f"stopped after {self._limits.time_ms / 1000:g} s: name a directory further down")
        if self.cut:
            found.append(
                f"{counted(self.cut, 'file')} searched in part only, up to {self._limits.searched_bytes:,} bytes"
            )
        if self.binary:
            found.append(f"{counted(self.binary, 'file')} passed over, not text")
        if self.unreadable:
            found.append(f"{counted(self.unreadable, 'file')} could not be read")
        return found


def _end(lines: list[str], at: int, around: int, matches: Any) -> int:
    """Where the lines after a match end: before the next match, which brings its own."""
    last = min(len(lines), at + around + 1)
    for number in range(at + 1, last):
        if matches(lines[number]):
            return number
    return last
