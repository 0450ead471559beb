"""Streamed answers as Markdown: what is complete is set, what is still being written is shown as it grows."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

from .text import TAB, cells
from .visible_text import VisiblePieces
from .word_wrap import Target

if TYPE_CHECKING:
    from .markdown_rows import Setter
    from .typeset import Row

UNIT_MAX = 20_000
"""Letters of one paragraph, item or table; what is longer is shown as plain text."""
GROWING_MAX = 2_000
"""Letters of what is not complete that are set anew with each piece."""
ROOM_MIN = 12
FENCE = re.compile(r" {0,3}(`{3,}|~{3,})[ \t]*([^\s`]*)[^`]*$")


class MarkdownFlow:
    """A column of streamed Markdown behind a margin. Paragraphs, items of lists, tables and lines of code are set when
    they are complete; until then they stand by the input as they grow."""

    def __init__(self, target: Target, *, margin: str, width: Callable[[], int], colours: bool) -> None:
        self._target = target
        self._margin = margin
        self._width = width
        self._colours = colours
        self._source = ""
        self._fence = ""
        self._lexer = ""
        self._pieces = VisiblePieces()
        self._begun = self._gap = False

    @cached_property
    def _setter(self) -> Setter:
        """Loaded when there is something to set, and not when a chat begins."""
        from .markdown_rows import Setter

        return Setter(colours=self._colours)

    @property
    def open_line(self) -> bool:
        """Whether something is not complete."""
        return bool(self._source or self._fence)

    def write(self, text: str) -> None:
        """Shows more text. What may belong to the next piece waits for it."""
        shown = self._pieces.feed(text).replace("\t", TAB)  # columns would depend on where pieces are cut
        self._source += shown
        done: list[str] = []
        if "\n" in shown or len(self._source) > UNIT_MAX:
            self._settle(done)
        self._target.put("".join(done), self._growing())

    def end_line(self) -> None:
        """Sets what there is. What comes then is a text of its own."""
        self._source += self._pieces.end()
        if self.open_line:
            done: list[str] = []
            if self._source and not self._source.endswith("\n"):
                self._source += "\n"
            self._settle(done)
            self._emit(self._prose(self._source), done)
            self._target.put("".join(done), "")
        self._source = self._fence = self._lexer = ""
        self._begun = self._gap = False

    # --- what is complete ---

    def _settle(self, done: list[str]) -> None:
        while self._code(done) if self._fence else self._block(done):
            pass
        self._shorten(done)

    def _code(self, done: list[str]) -> bool:
        """The next line of code, if it is complete."""
        line, feed, rest = self._source.partition("\n")
        if not feed:
            return False
        self._source = rest
        if line.strip().startswith(self._fence) and not line.strip().strip(self._fence[0]):
            self._fence = self._lexer = ""
        else:
            self._emit(self._setter.code(line, self._lexer, self._room), done)
        return True

    def _block(self, done: list[str]) -> bool:
        """The next paragraph, item or table, if what follows it has begun."""
        complete, rest = _lines(self._source)
        starts = self._setter.starts("".join(complete))
        if not starts:
            self._gap = self._gap or (bool(complete) and self._begun)
            self._source = rest
            return False
        if starts[0] > 0:
            self._gap = self._gap or self._begun
            self._source = "".join(complete[starts[0] :]) + rest
            return True
        if opening := FENCE.match(complete[0].rstrip("\n")):
            self._fence, self._lexer = opening[1], opening[2]
            self._source = "".join(complete[1:]) + rest
            return True
        if len(starts) > 1:
            self._emit(self._prose("".join(complete[: starts[1]])), done)
            self._gap = not complete[starts[1] - 1].strip()
            self._source = "".join(complete[starts[1] :]) + rest
            return True
        return False

    def _shorten(self, done: list[str]) -> None:
        """Lets go of what is too long to be set, up to a space."""
        if len(self._source) > UNIT_MAX:
            end = self._source.rfind(" ") + 1 or len(self._source)
            self._emit(self._setter.plain(self._source[:end], self._room), done)
            self._source = self._source[end:]

    # --- rows ---

    @property
    def _room(self) -> int:
        return max(ROOM_MIN, self._width() - cells(self._margin) - 1)

    def _prose(self, text: str) -> list[Row]:
        if len(text) > UNIT_MAX:
            return self._setter.plain(text, self._room)
        return self._setter.prose(text, self._room)

    def _emit(self, rows: list[Row], done: list[str]) -> None:
        if rows and self._gap:
            done.append("\n")
        for row in rows:
            done.append((self._margin + row.painted).rstrip() + "\n" if row.plain else "\n")
        if rows:
            self._begun, self._gap = True, False

    def _growing(self) -> str:
        """What is not complete, as it will be set; the end of it if it is long."""
        if not self._source:
            return ""
        if len(self._source) > GROWING_MAX:
            rows = self._setter.plain(self._source[-GROWING_MAX:], self._room)
        elif self._fence:
            rows = self._setter.code(self._source, "", self._room)
        else:
            rows = self._prose(self._source)
        shown = [(self._margin + row.plain).rstrip() for row in rows]
        return "\n".join(["", *shown] if self._gap and shown else shown)


def _lines(source: str) -> tuple[list[str], str]:
    """The complete lines of a text, and the rest."""
    *complete, rest = source.split("\n")
    return [line + "\n" for line in complete], rest
