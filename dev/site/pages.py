"""Reads Markdown pages: their headings with anchors, their links, their tokens. Writes nothing.

The dialect is CommonMark with tables, and anchors are made as code forges make them, so that a page reads the same
there and on the site.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import pathlib
import re
from collections.abc import Iterator

from markdown_it import MarkdownIt
from markdown_it.token import Token

NOT_IN_ANCHORS = re.compile(r"[^\w\- ]")


@dataclasses.dataclass(frozen=True)
class Heading:
    """One heading: how deep, its words, where links find it."""

    level: int
    text: str
    anchor: str
    line: int


@dataclasses.dataclass(frozen=True)
class Link:
    """One link or picture as it is written."""

    target: str
    line: int

    @property
    def is_elsewhere(self) -> bool:
        return re.match(r"[a-z][a-z0-9+.-]*:", self.target) is not None

    @property
    def path(self) -> str:
        return self.target.partition("#")[0]

    @property
    def anchor(self) -> str:
        return self.target.partition("#")[2]


@dataclasses.dataclass(frozen=True)
class Page:
    """A page as it was read."""

    path: pathlib.Path
    tokens: list[Token]
    headings: tuple[Heading, ...]
    links: tuple[Link, ...]

    @property
    def title(self) -> str:
        return next((heading.text for heading in self.headings if heading.level == 1), self.path.stem)

    @property
    def anchors(self) -> frozenset[str]:
        return frozenset(heading.anchor for heading in self.headings)


def parser() -> MarkdownIt:
    """The one dialect of all pages."""
    return MarkdownIt("commonmark").enable("table")


@functools.cache
def read(path: pathlib.Path) -> Page:
    """A page. Read once in a process: pages do not change while they are checked or built."""
    return parse(path, path.read_text(encoding="utf-8"))


def parse(path: pathlib.Path, text: str) -> Page:
    """A page from its text."""
    tokens = parser().parse(text)
    headings = tuple(_headings(tokens))
    return Page(path=path, tokens=tokens, headings=headings, links=tuple(_links(tokens)))


def _headings(tokens: list[Token]) -> Iterator[Heading]:
    seen: dict[str, int] = {}
    for opening, inline in itertools.pairwise(tokens):
        if opening.type != "heading_open":
            continue
        text = plain(inline)
        anchor = anchor_of(text)
        count = seen.get(anchor, 0)
        seen[anchor] = count + 1
        unique = f"{anchor}-{count}" if count else anchor
        opening.attrSet("id", unique)
        yield Heading(int(opening.tag[1]), text, unique, (opening.map or [0])[0] + 1)


def anchor_of(text: str) -> str:
    """The anchor that a forge gives to a heading: small letters, no signs, a dash for each space."""
    return NOT_IN_ANCHORS.sub("", text.strip().lower()).replace(" ", "-")


def plain(inline: Token) -> str:
    """The words of an inline token, without marks."""
    words = {"text", "code_inline"}
    pieces = [
        child.content if child.type in words else " " * (child.type == "softbreak") for child in _children(inline)
    ]
    return "".join(pieces)


def _children(inline: Token) -> list[Token]:
    return inline.children or []


def _links(tokens: list[Token]) -> Iterator[Link]:
    for token in tokens:
        line = (token.map or [0])[0] + 1
        for child in token.children or ():
            target = child.attrGet("href") if child.type == "link_open" else child.attrGet("src")
            if target is not None and child.type in ("link_open", "image"):
                yield Link(str(target), line)
