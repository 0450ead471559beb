"""Where the letters of an input stand on a screen: rows, and the cursor among them. Pure; every row fits the width."""

from __future__ import annotations

import msgspec

from .text import cells, visible

CONTINUED = "  "
"""What stands before every row but the first."""


class Rows(msgspec.Struct):
    """Rows for the screen and where the cursor is."""

    lines: list[str]
    row: int
    column: int


def shown(letter: str) -> str:
    """One letter of an input as it is drawn: a tab as a space, what a terminal would obey spelt out."""
    return " " if letter == "\t" else visible(letter)


def laid_out(prompt: str, text: str, at: int, width: int, height: int) -> Rows:
    """The input behind its prompt. Long lines wrap; of an input taller than `height`, the rows about the cursor."""
    lines, row, column = [prompt], 0, cells(prompt)
    cursor = (0, column)
    for index, letter in enumerate(text):
        if index == at:
            cursor = (row, column)
        if letter == "\n":
            lines.append(CONTINUED)
            row, column = row + 1, cells(CONTINUED)
            continue
        drawn = shown(letter)
        size = cells(drawn)
        if column + size > width and column > cells(CONTINUED):
            lines.append(CONTINUED)
            row, column = row + 1, cells(CONTINUED)
            if index == at:
                cursor = (row, column)
        lines[row] += drawn
        column += size
    if at >= len(text):
        cursor = (row, column)
    return _window(Rows(lines, *cursor), max(1, height))


def _window(rows: Rows, height: int) -> Rows:
    if len(rows.lines) <= height:
        return rows
    first = min(max(0, rows.row - height + 1), len(rows.lines) - height)
    return Rows(rows.lines[first : first + height], rows.row - first, rows.column)


def fit(line: str, width: int) -> str:
    """A line that stays one row. Expects visible text."""
    line = " ".join(line[: width + 1].split("\n"))
    while cells(line) > width:
        line = line[: -2 if line.endswith("…") else -1] + "…"
    return line
