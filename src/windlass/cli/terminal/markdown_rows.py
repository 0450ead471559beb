"""Markdown and code set in rows by rich: paragraphs, items of lists, tables, lines of code.

Foreign text is made visible before it is read as Markdown, and once more after it was set: nothing that Markdown makes
of letters may reach the terminal otherwise. No link is made clickable, no HTML and no entity is understood.
"""

from __future__ import annotations

from functools import cache

from markdown_it import MarkdownIt
from markdown_it.token import Token
from rich import markdown
from rich.console import Console, ConsoleOptions, RenderResult
from rich.padding import Padding
from rich.segment import Segment
from rich.syntax import Syntax
from rich.table import Table

from .text import fold_lines, rows_at_edge
from .typeset import Row, Typesetter

CODE_INDENT = "  "
CODE_THEME = "ansi_dark"
STYLES = {
    "markdown.code": "cyan",
    "markdown.h1": "bold underline",
    "markdown.h2": "bold",
    "markdown.h3": "bold",
    "markdown.h4": "bold",
    "markdown.table.border": "dim",
    "markdown.item.bullet": "yellow",
    "markdown.item.number": "yellow",
    "markdown.link_url": "underline",
}


@cache
def parser() -> MarkdownIt:
    """Markdown as models write it, without what would hide or change letters: HTML, entities, definitions of links."""
    made = MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"])
    return made.disable(["entity", "reference", "image"])


class Heading(markdown.Heading):
    """A heading that stands where the text does."""

    LEVEL_ALIGN = dict.fromkeys(markdown.Heading.LEVEL_ALIGN, "left")


class CodeBlock(markdown.CodeBlock):
    """Code within a list or a quotation."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Padding(_syntax(str(self.text).rstrip(), self.lexer_name), (0, 0, 0, len(CODE_INDENT)))


class TableElement(markdown.TableElement):
    """A table that breaks long words rather than cutting them."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for part in super().__rich_console__(console, options):
            if isinstance(part, Table):
                for column in part.columns:
                    column.overflow = "fold"
            yield part


class Answer(markdown.Markdown):
    """A piece of an answer for rich to set. Each line of a paragraph stays a line, as its author wrote it."""

    elements = {
        **markdown.Markdown.elements,
        "heading_open": Heading,
        "fence": CodeBlock,
        "code_block": CodeBlock,
        "table_open": TableElement,
    }

    def __init__(self, tokens: list[Token]) -> None:
        super().__init__("", hyperlinks=False)
        for token in tokens:
            for child in token.children or ():
                if child.type == "softbreak":
                    child.type = "hardbreak"
        self.parsed = tokens


def _syntax(code: str, lexer: str) -> Syntax:
    return Syntax(code, lexer or "text", theme=CODE_THEME, word_wrap=True)


class Setter:
    """Sets Markdown and code in rows of a width, in colours if they are wanted."""

    def __init__(self, *, colours: bool) -> None:
        self._typesetter = Typesetter(colours=colours, styles=STYLES)

    def starts(self, text: str) -> list[int]:
        """The lines of a text at which blocks begin. Each item of the first block counts as one if that is a list:
        what follows an item can be read as another list."""
        starts: set[int] = set()
        blocks = 0
        for token in parser().parse(text):
            if token.map is None or token.nesting < 0:
                continue
            blocks += token.level == 0
            if token.level == 0 or (blocks == 1 and token.level == 1 and token.type == "list_item_open"):
                starts.add(token.map[0])
        return sorted(starts)

    def plain(self, text: str, width: int) -> list[Row]:
        """Visible text as it is."""
        return [Row(row, row) for row in fold_lines(text.rstrip("\n"), width)]

    def prose(self, text: str, width: int) -> list[Row]:
        """Visible text as Markdown, without empty rows around it."""
        return _trimmed(self._typesetter.rows(Answer(parser().parse(text)), width))

    def code(self, line: str, lexer: str, width: int) -> list[Row]:
        """A line of code, broken at the edge only."""
        pieces = rows_at_edge(line, width - len(CODE_INDENT))
        ends = [sum(map(len, pieces[: count + 1])) for count in range(len(pieces) - 1)]
        console = self._typesetter.console
        return [
            row
            for piece in _syntax(line, lexer).highlight(line).divide(ends)
            for row in self._typesetter.broken([Segment(CODE_INDENT), *piece.render(console)], width)
        ]


def _trimmed(rows: list[Row]) -> list[Row]:
    while rows and not rows[-1].plain:
        rows.pop()
    while rows and not rows[0].plain:
        rows.pop(0)
    return rows
