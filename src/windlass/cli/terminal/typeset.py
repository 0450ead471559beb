"""What rich lays out, in rows for a terminal. Every letter goes through `visible` on its way out, links are never
clickable, and console markup is never read."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping

import msgspec
from rich.console import Console, RenderableType
from rich.segment import Segment
from rich.theme import Theme

from .text import TAB, cells, rows_at_edge
from .visible_text import visible


class Row(msgspec.Struct, frozen=True):
    """A row as it is shown, without and with its colours."""

    plain: str
    painted: str


class Typesetter:
    """Sets things in rows of a width, in colours if they are wanted."""

    def __init__(self, *, colours: bool, styles: Mapping[str, str] | None = None) -> None:
        self._colours = colours
        self.console = Console(
            file=io.StringIO(),
            theme=Theme(styles),
            force_terminal=True,
            color_system="standard",
            markup=False,
            emoji=False,
            highlight=False,
        )

    def rows(self, thing: RenderableType, width: int) -> list[Row]:
        """The rows of anything that rich can lay out."""
        options = self.console.options.update(width=width, height=None)
        lines = self.console.render_lines(thing, options, pad=False)
        return [row for line in lines for row in self.broken(line, width)]

    def broken(self, line: Iterable[Segment], width: int) -> list[Row]:
        """A line as it may be shown: what is not harmless, or too wide for the row, loses its colours."""
        segments = [Segment(segment.text.rstrip("\n"), segment.style) for segment in line]
        text = "".join(segment.text for segment in segments)
        shown = visible(text).expandtabs(len(TAB)).replace("\n", " ")
        if shown != text or cells(shown) > width:
            return [Row(row, row) for row in rows_at_edge(shown.rstrip(), width)]
        while segments and not segments[-1].text.rstrip():
            segments.pop()
        plain = shown.rstrip()
        return [Row(plain, "".join(map(_painted, segments)).rstrip() if self._colours else plain)]


def _painted(segment: Segment) -> str:
    style = segment.style
    return style.update_link(None).render(segment.text) if style is not None else segment.text
