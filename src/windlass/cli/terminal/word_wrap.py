"""Streamed text in a column: wrapped at words while it grows, code at the edge only, behind a margin."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Protocol

from .text import TAB, cell, cells
from .visible_text import VisiblePieces

FENCE = re.compile(r" {0,3}(?:```|~~~)")
ITEM = re.compile(r" {0,8}(?:[-*•]|\d{1,3}[.)]) +")
FENCE_MAX = 16
"""Letters of a line that say whether it is a fence or an item."""
ROOM_MIN = 8


class Target(Protocol):
    """Where the text goes: complete rows, and those that are still being written, in place of the last such."""

    def put(self, done: str, growing: str) -> None: ...


class WordFlow:
    """A column of streamed text. Lines of code are broken at the edge only and keep their spaces; they are broken at
    all because a line that the terminal itself wraps would leave the margin, behind which nothing can be faked."""

    def __init__(self, target: Target, *, margin: str, width: Callable[[], int]) -> None:
        self._target = target
        self._margin = margin
        self._width = width
        self._row = ""
        self._begun = False
        self._head = ""
        self._code = False
        self._soft = False
        self._pieces = VisiblePieces()

    @property
    def open_line(self) -> bool:
        """Whether the last line has not ended."""
        return self._begun

    def write(self, text: str) -> None:
        """Prints more text. What may belong to the next piece waits for it."""
        self._put(self._pieces.feed(text))

    def _put(self, text: str) -> None:
        done: list[str] = []
        first, *more = text.expandtabs(len(TAB)).split("\n")
        self._grow(first, done)
        for piece in more:
            self._end(done)
            self._grow(piece, done)
        shown = self._margin + self._row if self._begun else ""
        self._target.put("".join(done), shown)

    def end_line(self) -> None:
        """Begins a fresh line if one is open. What comes then is a text of its own."""
        if waited := self._pieces.end():
            self._put(waited)
        if self._begun:
            done: list[str] = []
            self._end(done)
            self._target.put("".join(done), "")
        self._code, self._head, self._soft = False, "", False

    def _end(self, done: list[str]) -> None:
        """Ends the line that the text is in."""
        if not (self._soft and not self._row.strip()):
            done.append((self._margin + self._row).rstrip() + "\n")
        if FENCE.match(self._head):
            self._code = not self._code
        self._row, self._head, self._begun, self._soft = "", "", False, False

    def _grow(self, piece: str, done: list[str]) -> None:
        """More of a line; the rows that are full go to `done`."""
        if not piece:
            return
        self._begun = True
        self._head += piece[: FENCE_MAX - len(self._head)] if len(self._head) < FENCE_MAX else ""
        room = max(ROOM_MIN, self._width() - cells(self._margin) - 1)
        line = self._row + piece
        item = None if self._code else ITEM.match(self._head)
        indent = " " * min(item.end(), room // 2) if item else ""
        start, before = 0, ""
        while (end := _reach(line, start, room - len(before))) < len(line):
            stop, following = (end, end) if self._code else _break(line, start, end)
            done.append((self._margin + before + line[start:stop]).rstrip() + "\n")
            start, before, self._soft = following, indent, True
        self._row = before + line[start:]


def _reach(line: str, start: int, room: int) -> int:
    """Where a row that begins at `start` must end to fit; the end of the line where all of it does."""
    if line.isascii():
        return min(len(line), start + room)
    used, end = 0, start
    while end < len(line):
        used += cell(line[end])
        if used > room:
            break
        end += 1
    return max(end, min(len(line), start + 1))


def _break(line: str, start: int, end: int) -> tuple[int, int]:
    """Where to end a row before `end`, and where the next one begins: at a space, if one follows a word."""
    if line[end] == " ":
        return end, end + 1
    space = line.rfind(" ", start, end)
    return (space, space + 1) if space > start and line[start:space].strip() else (end, end)
