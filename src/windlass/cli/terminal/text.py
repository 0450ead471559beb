"""Text on its way to a terminal: what could steer it is made visible, long lines are wrapped, colours are a choice.

Everything that a model, a tool or a file wrote passes through `visible`, and every line that is printed goes through
`put`, which lets nothing pass but letters and our own colours. Nothing here reads.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import unicodedata
from typing import Any, Protocol, TextIO

from .visible_text import JOINER, NON_JOINER, VisiblePieces, harmless, tame, visible

WIDTH_MIN, WIDTH_MAX, WIDTH_UNKNOWN = 20, 200, 100
WIDTH_UNBOUND = 10_000
TAB = "    "
LABEL = re.compile(r"\S.{0,22}?\s{2,}(?=\S)")
"""The word or two that a row of a list begins with."""
BESIDE_MIN = 24
"""Where less room is left beside a label, what is said of it stands beneath."""


def put(line: str = "", out: TextIO | None = None, *, flush: bool = False) -> None:
    """Prints a line. The one way out for whatever is not the model's own words."""
    print(tame(line), file=out or sys.stdout, flush=flush)


def one_line(text: str, most: int) -> str:
    """The text in one line of at most `most` characters; says how much is missing."""
    head = visible(text[: most * 2 + 2]).strip()
    flat = re.sub(r"\s+", " ", head)
    if len(flat) <= most and len(text) <= most * 2 + 2:
        return flat
    more = f" … ({len(text):,} characters)"
    return flat[: max(1, most - len(more))].rstrip() + more if len(text) > most * 2 else flat[: most - 1].rstrip() + "…"


def cells(text: str) -> int:
    """How many columns a text takes, wide letters and combining marks considered."""
    return len(text) if text.isascii() else sum(map(cell, text))


def cell(letter: str) -> int:
    if unicodedata.combining(letter) or unicodedata.category(letter) in ("Mn", "Me") or letter in (JOINER, NON_JOINER):
        return 0
    return 2 if unicodedata.east_asian_width(letter) in ("W", "F") else 1


def is_mark(letter: str) -> bool:
    """Whether a letter only changes the one before it."""
    return harmless(ord(letter)) and letter not in "\n\t" and cell(letter) == 0


def fit(line: str, width: int) -> str:
    """A line that stays one row. Expects visible text."""
    line = " ".join(line[: width + 1].split("\n"))
    while cells(line) > width:
        line = line[: -2 if line.endswith("…") else -1] + "…"
    return line


def rows_at_edge(line: str, width: int) -> list[str]:
    """A line in rows as a terminal itself would break it. Expects visible text."""
    starts = [0]
    while (end := _reach(line, starts[-1], width)) < len(line):
        starts.append(end)
    return [line[start:end] for start, end in zip(starts, [*starts[1:], len(line)], strict=True)]


def fold_lines(text: str, width: int) -> list[str]:
    """Lines of at most `width` columns, broken at spaces if there are some. Expects visible text."""
    lines: list[str] = []
    for line in text.expandtabs(len(TAB)).split("\n"):
        lines.extend(_fold(line, max(1, width)))
    return lines


def _fold(line: str, width: int) -> list[str]:
    if len(line) <= width and cells(line) <= width:
        return [line]
    pieces: list[str] = []
    start = 0
    while start < len(line):
        end = _reach(line, start, width)
        space = line.rfind(" ", start + 1, end) if end < len(line) and line[end] != " " else -1
        if space > start:
            end = space
        pieces.append(line[start:end])
        start = end + 1 if end < len(line) and line[end] == " " else end
    return pieces


def _reach(line: str, start: int, width: int) -> int:
    """Where a piece that begins at `start` must end to fit."""
    used, end = 0, start
    while end < len(line):
        used += cell(line[end])
        if used > width:
            break
        end += 1
    return max(end, start + 1)


def padded(text: str, width: int) -> str:
    return text + " " * max(0, width - cells(text))


def is_terminal(out: TextIO) -> bool:
    try:
        return out.isatty()
    except (AttributeError, ValueError):
        return False


def width_of(out: TextIO) -> int:
    """How wide a screen is; a fixed width if there is none."""
    if not is_terminal(out):
        return WIDTH_UNKNOWN
    columns = shutil.get_terminal_size((WIDTH_UNKNOWN, 24)).columns
    return max(WIDTH_MIN, min(columns, WIDTH_MAX))


def screen_width() -> int:
    """How wide what is printed may be: what does not go to a screen is not cut."""
    return width_of(sys.stdout) if is_terminal(sys.stdout) else WIDTH_UNBOUND


def tell(text: str, out: TextIO | None = None, *, indent: str = "  ") -> None:
    """Prints visible text: on a terminal wrapped between words, what follows a line's first piece indented; elsewhere
    each line whole, for programs. At once: a program that waits for it may be at the other end of a pipe, and a verb
    that serves does not end."""
    out = out or sys.stdout
    lines = text.split("\n")
    if is_terminal(out):
        lines = [piece for line in lines for piece in hung(line, width_of(out), indent)]
    put("\n".join(lines), out, flush=True)


def tell_json(value: Any) -> None:
    """Prints a value as JSON for programs. Letters beyond ASCII are written by their numbers: JSON leaves some as they
    are that a terminal would obey."""
    import json

    import msgspec

    print(json.dumps(msgspec.to_builtins(value), indent=2))


def tell_bytes(line: bytes) -> None:
    """Writes a line as it is stored; on a terminal, what that would obey is spelt out."""
    if is_terminal(sys.stdout):
        print(visible(line.decode(errors="replace")), end="")
    else:
        sys.stdout.flush()
        sys.stdout.buffer.write(line)


def hung(line: str, width: int, indent: str) -> list[str]:
    """A line folded to a width, all but the first piece behind an indent."""
    first, *rest = fold_lines(line, width - cells(indent)) if cells(line) > width else [line]
    return [first, *(indent + piece for piece in rest)]


def rows_of(line: str, width: int) -> list[str]:
    """A line folded to a width: where it begins with a label, the further rows stand beneath what follows that."""
    label = LABEL.match(line)
    room = width - cells(label[0]) if label else 0
    if cells(line) <= width or label is None or room < BESIDE_MIN:
        return hung(line, width, "  ")
    first, *rest = fold_lines(line[label.end() :], room)
    return [label[0] + first, *(" " * cells(label[0]) + piece for piece in rest)]


class Paint:
    """Colours where they are wanted: on a terminal that is not dumb, unless NO_COLOR is set."""

    CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "blue": "34", "cyan": "36"}

    def __init__(self, out: TextIO | None = None, *, on: bool | None = None) -> None:
        self.out = out = out or sys.stdout
        wanted = is_terminal(out) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        self.on = wanted if on is None else on

    def __call__(self, text: str, colour: str) -> str:
        """The text in a colour. It must be visible text: a colour around an escape sequence would not tame it."""
        if not self.on or not text or not colour:
            return text
        return f"\x1b[{self.CODES[colour]}m{text}\x1b[0m"


class Column(Protocol):
    """Where streamed text goes, piece by piece."""

    @property
    def open_line(self) -> bool:
        """Whether the last line has not ended."""

    def write(self, text: str) -> None:
        """Shows more text."""

    def end_line(self) -> None:
        """Begins a fresh line if one is open."""


class Flow:
    """A column of streamed text: made visible, wrapped, each line behind a margin that no text can leave. Without a
    width it is for a file or a pipe, and the text is written as it is."""

    def __init__(self, out: TextIO, *, margin: str = "", width: int | None = None) -> None:
        self._out = out
        self._margin = margin
        self._width = width
        self._column = 0
        self._begun = False
        self._pieces = VisiblePieces()

    def write(self, text: str) -> None:
        """Prints more text. A carriage return or a joiner at the end waits for what follows it."""
        if self._width is None:
            self._plain(text)
        else:
            self._wrapped(self._pieces.feed(text).replace("\t", TAB))
        self._out.flush()

    def _plain(self, text: str) -> None:
        self._out.write(text)
        if text:
            self._begun = not text.endswith("\n")

    def _wrapped(self, shown: str) -> None:
        assert self._width is not None
        room = max(1, self._width - cells(self._margin) - 1)
        pieces: list[str] = []
        for letter in shown:
            size = cell(letter)
            if letter == "\n" or (self._begun and self._column + size > room):
                pieces.append("\n")
                self._column, self._begun = 0, False
            if letter == "\n":
                continue
            if not self._begun:
                pieces.append(self._margin)
                self._begun = True
            pieces.append(letter)
            self._column += size
        self._out.write("".join(pieces))

    @property
    def open_line(self) -> bool:
        """Whether the last line has not ended."""
        return self._begun

    def end_line(self) -> None:
        """Begins a fresh line if one is open."""
        if self._width is not None:
            self._wrapped(self._pieces.end())
        if self.open_line:
            self._out.write("\n")
            self._column, self._begun = 0, False
            self._out.flush()
