"""Text on its way to a terminal: what could steer it is made visible, long lines are wrapped, colours are a choice.

Everything that a model, a tool or a file wrote passes through `visible` before it is printed. Nothing here reads.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import unicodedata
from typing import Any, TextIO

WIDTH_MIN, WIDTH_MAX, WIDTH_UNKNOWN = 20, 200, 100
WIDTH_UNBOUND = 10_000
TAB = "    "
STEERING = ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")
"""Controls, formats (bidi, zero-width, tags), lone surrogates, private use, and line separators of other systems."""
BLANK_LETTERS = {0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0}
"""Letters and marks by category that show nothing."""
SELECTORS = (range(0xFE00, 0xFE0F), range(0xE0100, 0xE01F0))
LABEL = re.compile(r"\S.{0,22}?\s{2,}(?=\S)")
"""The word or two that a row of a list begins with."""
BESIDE_MIN = 24
"""Where less room is left beside a label, what is said of it stands beneath."""
PLAIN = re.compile(r"[\n\t\x20-\x7e]*\Z")


class _Shown(dict[int, str | int]):
    """What each character is shown as, learned as characters come."""

    def __missing__(self, code: int) -> str | int:
        self[code] = found = code if harmless(code) else escaped(code)
        return found


def harmless(code: int) -> bool:
    """Whether a character only shows itself."""
    if code in (0x0A, 0x09):
        return True
    if code in BLANK_LETTERS or any(code in span for span in SELECTORS):
        return False
    return unicodedata.category(chr(code)) not in STEERING


def escaped(code: int) -> str:
    """A character by its number, in the notation of Python and JSON."""
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


_shown = _Shown()


def visible(text: str) -> str:
    """The text with everything that could move a cursor, reorder or hide letters, or reach the terminal itself spelt
    out. Line feeds and tabs stay; the line ends of other systems become line feeds."""
    if PLAIN.match(text):
        return text
    return text.replace("\r\n", "\n").translate(_shown)


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
    if unicodedata.combining(letter) or unicodedata.category(letter) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(letter) in ("W", "F") else 1


def fold_lines(text: str, width: int) -> list[str]:
    """Lines of at most `width` columns, broken at spaces where there are some. Expects visible text."""
    found: list[str] = []
    for line in text.expandtabs(len(TAB)).split("\n"):
        found.extend(_fold(line, max(1, width)))
    return found


def _fold(line: str, width: int) -> list[str]:
    if len(line) <= width and cells(line) <= width:
        return [line]
    found: list[str] = []
    start = 0
    while start < len(line):
        end = _reach(line, start, width)
        space = line.rfind(" ", start + 1, end) if end < len(line) and line[end] != " " else -1
        if space > start:
            end = space
        found.append(line[start:end])
        start = end + 1 if end < len(line) and line[end] == " " else end
    return found


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
    """How wide a screen is; a fixed width where there is none."""
    if not is_terminal(out):
        return WIDTH_UNKNOWN
    found = shutil.get_terminal_size((WIDTH_UNKNOWN, 24)).columns
    return max(WIDTH_MIN, min(found, WIDTH_MAX))


def screen_width() -> int:
    """How wide what is printed may be: what does not go to a screen is not cut."""
    return width_of(sys.stdout) if is_terminal(sys.stdout) else WIDTH_UNBOUND


def tell(text: str, out: TextIO | None = None, *, indent: str = "  ") -> None:
    """Prints visible text: on a terminal wrapped between words, what follows a line's first piece indented; elsewhere
    each line whole, for programs."""
    out = out or sys.stdout
    lines = text.split("\n")
    if is_terminal(out):
        lines = [piece for line in lines for piece in hung(line, width_of(out), indent)]
    print("\n".join(lines), file=out)


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
        out = out or sys.stdout
        wanted = is_terminal(out) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        self.on = wanted if on is None else on

    def __call__(self, text: str, colour: str) -> str:
        """The text in a colour. It must be visible text: a colour around an escape sequence would not tame it."""
        if not self.on or not text or not colour:
            return text
        return f"\x1b[{self.CODES[colour]}m{text}\x1b[0m"


class Flow:
    """A column of streamed text: made visible, wrapped, each line behind a margin that no text can leave."""

    def __init__(self, out: TextIO, *, margin: str = "", width: int | None = None) -> None:
        self._out = out
        self._margin = margin
        self._width = width
        self._column = 0
        self._begun = False
        self._held = ""

    def write(self, text: str) -> None:
        """Prints more text. A carriage return at the end waits for what follows it."""
        text, self._held = self._held + text, ""
        if text.endswith("\r"):
            text, self._held = text[:-1], "\r"
        shown = visible(text)
        if self._width is None:
            self._plain(shown)
        else:
            self._wrapped(shown.expandtabs(len(TAB)))
        self._out.flush()

    def _plain(self, shown: str) -> None:
        self._out.write(shown)
        if shown:
            self._begun = not shown.endswith("\n")

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
        """Begins a fresh line where one is open."""
        if self._held:
            self.write("")
            self._held = ""
        if self.open_line:
            self._out.write("\n")
            self._column, self._begun = 0, False
            self._out.flush()
