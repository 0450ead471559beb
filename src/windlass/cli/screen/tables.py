"""Tables and differences as they are printed: set by rich on a terminal with colours, plain lines elsewhere.

The plain lines are those of `figures`, so that what a program reads never depends on a library. Expects visible text.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence

from windlass.cli.terminal.text import WIDTH_UNBOUND, Paint

from . import number_words

Colours = Callable[[int, int], str]
"""The colour of a cell, by row and column; empty for none."""


def table(rows: Sequence[Sequence[str]], *, right: Container[int] = (), colours: Colours | None = None) -> list[str]:
    """Rows, the first of them headings, as aligned columns, those named in `right` to the right."""
    if not (rows and Paint().on):
        return number_words.table(rows, right=right)
    from rich.table import Table
    from rich.text import Text

    from windlass.cli.terminal.typeset import Typesetter

    laid_out = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for number, heading in enumerate(rows[0]):
        laid_out.add_column(Text(heading), justify="right" if number in right else "left", no_wrap=True)
    for row, texts in enumerate(rows[1:], start=1):
        laid_out.add_row(*(Text(text, colours(row, n) if colours else "") for n, text in enumerate(texts)))
    return [row.painted for row in Typesetter(colours=True).rows(laid_out, WIDTH_UNBOUND)]


def fitted(rows: Sequence[Sequence[str]], width: int, *, right: Container[int] = ()) -> list[str]:
    """The same; on a screen too narrow for it, each row by itself."""
    return table(rows, right=right) if number_words.fits(rows, width) else number_words.fitted(rows, width, right=right)


def difference(lines: Sequence[str]) -> list[str]:
    """The lines of a unified diff. Expects visible text."""
    if not (lines and Paint().on):
        return list(lines)
    from rich.syntax import Syntax

    from windlass.cli.terminal.typeset import Typesetter

    setter = Typesetter(colours=True)
    text = Syntax("", "diff", theme="ansi_dark").highlight("\n".join(lines))
    return [
        row.painted
        for line in text.split("\n")[: len(lines)]
        for row in setter.broken(line.render(setter.console), WIDTH_UNBOUND)
    ]
