"""The tokens of a page: texts, beginnings and ends of elements. One pass, in time that grows as the page does.

The parser of the standard library takes time that grows with the square of an unclosed page, which anybody may send."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from typing import NamedTuple

TEXT = re.compile(r"(?:[^<]++|<(?![A-Za-z/!?]))++")
NAME = re.compile(r"[A-Za-z][^\s/>]*+")
GAP = re.compile(r"[\s/]*+")
ATTRIBUTE = re.compile(r"""([^\s/>][^\s/>=]*+)(?:\s*+=\s*+(?:"([^"]*+)"|'([^']*+)'|([^\s>"'][^\s>]*+)|(?=>)))?""")
OPEN_QUOTE = re.compile(r"\s*+=\s*+[\"']")
RAW = {
    name: re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE)
    for name in ("script", "style", "title", "textarea", "xmp", "iframe", "noembed", "noframes", "noscript")
}
"""Elements whose content is no elements: it ends with their own end only."""
NAME_CHARS_MAX = 64
ATTRIBUTES_MAX = 64
VALUE_CHARS_MAX = 2_000
TEXT_PIECE_CHARS = 64 * 1024


class Token(NamedTuple):
    """A text, or the beginning or end of an element."""

    kind: str
    """text, start or end"""
    value: str
    """The text, or the element's name in lower case."""
    attributes: dict[str, str] = {}  # nobody writes to it


def tokens(source: str) -> Iterator[Token]:
    """What a page consists of. Comments and declarations are none of it, nor is what was begun and never ended."""
    at = 0
    while at < len(source):
        if text := TEXT.match(source, at):
            yield from _texts(text[0])
            at = text.end()
            continue
        end, token = _markup(source, at)
        if end < 0:
            return
        at = end
        if token is not None:
            yield token
            if token.kind == "start" and token.value in RAW:
                end = _raw_end(source, at, token.value)
                yield from _texts(source[at:end])
                at = end


def _texts(text: str) -> Iterator[Token]:
    for start in range(0, len(text), TEXT_PIECE_CHARS):
        yield Token("text", unescaped(text[start : start + TEXT_PIECE_CHARS]))


def unescaped(text: str) -> str:
    """A text with its characters in the place of their names."""
    if "&" not in text:
        return text
    try:
        return unescape(text)
    except ValueError:  # a number with more digits than Python reads
        return text


def _raw_end(source: str, at: int, name: str) -> int:
    end_tag = RAW[name].search(source, at)
    return end_tag.start() if end_tag else len(source)


def _markup(source: str, at: int) -> tuple[int, Token | None]:
    """What begins at a `<`: where it ends, and its token if it has one. It ends at -1 if it does not end."""
    if source.startswith("<!--", at):
        end = source.find("-->", at + 2)
        return (-1 if end < 0 else end + 3), None
    name = NAME.match(source, at + 1) if source[at + 1 : at + 2] != "/" else NAME.match(source, at + 2)
    if name is None or source[at + 1] in "!?":
        end = source.find(">", at + 1)
        return (-1 if end < 0 else end + 1), None
    tag = name[0][:NAME_CHARS_MAX].lower()
    end, attributes = _attributes(source, name.end())
    kind = "end" if source[at + 1] == "/" else "start"
    return end, Token(kind, tag, attributes)


def _attributes(source: str, at: int) -> tuple[int, dict[str, str]]:
    attributes: dict[str, str] = {}
    while True:
        gap = GAP.match(source, at)
        at = gap.end() if gap else at
        if at >= len(source):
            return -1, attributes
        if source[at] == ">":
            return at + 1, attributes
        part = ATTRIBUTE.match(source, at)
        if part is None or (part.lastindex == 1 and OPEN_QUOTE.match(source, part.end())):
            return -1, attributes  # a quote that nobody closes takes the rest of the page with it
        name = part[1][:NAME_CHARS_MAX].lower()
        if len(attributes) < ATTRIBUTES_MAX and name not in attributes:
            value = part[2] or part[3] or part[4] or ""
            attributes[name] = unescaped(value[:VALUE_CHARS_MAX])
        at = part.end()
