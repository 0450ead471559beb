"""Pages as readable text: headings, lists, tables and links, without what a reader of the page would not see.

It loads nothing and runs nothing. However a page is made, its text is bounded, and so is the time it takes."""

from __future__ import annotations

import re
import time
from urllib.parse import urljoin

from .html_tokens import tokens
from .visible_text import visible

TEXT_CHARS_MAX = 2_000_000
SOURCE_CHARS_MAX = 4_000_000
DEPTH_MAX = 256
"""Elements within elements; what is deeper is left out."""
TOKENS_AT_ONCE = 256
RENDER_S = 5.0
LINK_PIECES_MAX = 16
ATTRIBUTE_CHARS_MAX = 300


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


VOID = _names("area base br col embed hr img input link meta param source track wbr")
DROPPED = _names("script style template noscript svg math iframe object canvas audio video head select datalist")
BLOCKS = _names(
    "address article aside blockquote details dd div dl dt fieldset figcaption figure footer form header hgroup legend "
    "main nav p section summary ul ol menu table caption thead tbody tfoot center"
)
HEADINGS = {f"h{level}": "#" * level for level in range(1, 7)}
CLOSES = {
    "li": frozenset({"li"}),
    "dt": frozenset({"dt", "dd"}),
    "dd": frozenset({"dt", "dd"}),
    "tr": frozenset({"tr", "td", "th"}),
    "td": frozenset({"td", "th"}),
    "th": frozenset({"td", "th"}),
    "option": frozenset({"option"}),
    "a": frozenset({"a"}),
    "body": frozenset({"head"}),
}
"""Elements that end an open one of these kinds, since pages leave its end out."""
SCOPES = frozenset({"ul", "ol", "menu", "table", "dl"})
UNSEEN = re.compile(
    r"display\s*:\s*none|visibility\s*:\s*(?:hidden|collapse)|opacity\s*:\s*0(?:\.0+)?\s*(?:;|$)|"
    r"font-size\s*:\s*0(?:\.0+)?(?:[a-z%]+)?\s*(?:;|$)|(?:left|top|text-indent)\s*:\s*-\d{4,}",
    re.IGNORECASE,
)
LINKED = ("http://", "https://", "mailto:")


def html_text(source: str, base: str = "", *, limit: int = TEXT_CHARS_MAX) -> str:
    """The text of a page. `base` is its address, for links that are relative to it."""
    page = _Page(base, limit)
    page.cut = len(source) > SOURCE_CHARS_MAX
    ends = time.monotonic() + RENDER_S
    for number, token in enumerate(tokens(source[:SOURCE_CHARS_MAX])):
        if token.kind == "text":
            page.data(token.value)
        elif token.kind == "start":
            page.start(token.value, token.attributes)
        else:
            page.end(token.value)
        if page.size > limit or (number % TOKENS_AT_ONCE == 0 and time.monotonic() > ends):
            page.cut = True
            break
    return page.text()


class _Page:
    """Reads a page as it comes and writes its text."""

    def __init__(self, base: str, limit: int) -> None:
        self.size = 0
        self.cut = False
        self.hidden = 0
        self._base = base
        self._limit = limit
        self._out: list[str] = []
        self._title: list[str] = []
        self._open: list[str] = []
        self._unseen_at: int | None = None
        self._too_deep = 0
        self._in_title = False
        self._lists: list[int | None] = []
        self._links: list[tuple[str, int]] = []
        self._pre = 0
        self._quote = 0
        self._cells = 0
        self._space = False
        self._fresh = True

    # --- what comes in ---

    def start(self, tag: str, known: dict[str, str]) -> None:
        """An element begins."""
        self._end_implied(tag)
        if tag not in VOID and len(self._open) >= DEPTH_MAX:
            self._too_deep += 1
            self.cut = True
            return
        if tag not in VOID:
            self._open.append(tag)
            if self._unseen_at is None and (tag in DROPPED or _is_unseen(known)):
                self._unseen_at = len(self._open)
                self.hidden += tag not in DROPPED
        if tag == "title" and not self._title:
            self._in_title = True
        if self._unseen_at is None:
            self._begin(tag, known)

    def end(self, tag: str) -> None:
        """An element ends, and with it what was open inside it."""
        if tag == "title":
            self._in_title = False
        if self._too_deep:
            self._too_deep -= 1
            return
        if tag not in self._open:
            if tag == "p":
                self._break(2)
            return
        while True:
            last = self._open.pop()
            self._ended(last)
            if last == tag:
                return

    def data(self, data: str) -> None:
        """Text comes."""
        if self._in_title:
            self._title.append(data[:ATTRIBUTE_CHARS_MAX])
        elif self._unseen_at is None and not self._too_deep:
            self._write(data)

    # --- elements ---

    def _end_implied(self, tag: str) -> None:
        ends = CLOSES.get(tag)
        if ends is None and (tag in BLOCKS or tag in HEADINGS) and self._open and self._open[-1] in ("p", "head"):
            ends = frozenset({self._open[-1]})
        while ends and self._open:
            inner = next((at for at in range(len(self._open) - 1, -1, -1) if self._open[at] in ends | SCOPES), None)
            if inner is None or self._open[inner] not in ends:
                return
            while len(self._open) > inner:
                self._ended(self._open.pop())

    def _begin(self, tag: str, known: dict[str, str]) -> None:
        if tag in HEADINGS:
            self._break(2)
            self._raw(HEADINGS[tag] + " ")
        elif tag == "br":
            self._break(1)
        elif tag == "hr":
            self._break(2)
            self._raw("---")
            self._break(2)
        elif tag == "li":
            self._item()
        elif tag == "tr":
            self._break(1)
            self._cells = 0
        elif tag in ("td", "th"):
            if self._cells:
                self._raw(" | ")
            self._cells += 1
        elif tag == "img" and known.get("alt", "").strip():
            self._write(f" [image: {known['alt'][:ATTRIBUTE_CHARS_MAX]}] ")
        elif tag == "a":
            self._links.append((self._target(known.get("href", "")), len(self._out)))
        elif tag in BLOCKS or tag == "pre":
            self._block(tag, known)

    def _block(self, tag: str, known: dict[str, str]) -> None:
        self._break(1 if tag in ("dd", "dt", "thead", "tbody", "tfoot") or (tag in ("ul", "ol") and self._lists) else 2)
        if tag in ("ul", "menu"):
            self._lists.append(None)
        elif tag == "ol":
            start = known.get("start", "1")
            self._lists.append(int(start) if start.isascii() and start.isdigit() and len(start) < 10 else 1)
        elif tag == "dd":
            self._raw("  ")
        elif tag == "pre":
            self._raw("```\n")
            self._pre += 1
        elif tag == "blockquote":
            self._quote += 1

    def _item(self) -> None:
        self._break(1)
        depth = max(0, min(len(self._lists), 16) - 1)
        number = self._lists[-1] if self._lists else None
        if number is not None:
            self._lists[-1] = number + 1
        self._raw("  " * depth + (f"{number}. " if number is not None else "- "))

    def _ended(self, tag: str) -> None:
        if self._unseen_at is not None:
            if len(self._open) < self._unseen_at:
                self._unseen_at = None
            return
        if tag == "a" and self._links:
            self._link_ended(*self._links.pop())
        elif tag == "pre" and self._pre:
            self._pre -= 1
            self._break(1)
            self._raw("```")
            self._break(2)
        elif tag == "blockquote" and self._quote:
            self._break(2)
            self._quote -= 1
        elif tag in ("ul", "ol", "menu") and self._lists:
            self._lists.pop()
            self._break(1 if self._lists else 2)
        elif tag in HEADINGS or tag in BLOCKS or tag == "tr":
            self._break(1 if tag in ("tr", "dd", "dt") else 2)

    def _target(self, href: str) -> str:
        try:
            target = urljoin(self._base, href.strip()) if href and not href.startswith("#") else ""
        except ValueError:
            return ""
        return target if target.lower().startswith(LINKED) else ""

    def _link_ended(self, target: str, begun: int) -> None:
        shown = "".join(self._out[begun : begun + LINK_PIECES_MAX]).strip()
        if target and shown and shown != target:
            self._raw(f" <{target}>")

    # --- what goes out ---

    def _write(self, data: str) -> None:
        if self._pre:
            self._raw(data)
            return
        words = data.split()
        if not words:
            self._space = self._space or bool(data)
            return
        before = " " if (self._space or data[0].isspace()) and not self._fresh else ""
        self._raw(before + " ".join(words))
        self._space = data[-1].isspace()

    def _raw(self, text: str) -> None:
        if self.size > self._limit or not text:
            return
        if self._fresh and self._quote:
            text = "> " * min(self._quote, 8) + text
        self._out.append(text)
        self.size += len(text)
        self._fresh = text.endswith(("\n", "# ", "- ", ". ", " | "))
        self._space = False

    def _break(self, lines: int) -> None:
        """Ends the line, and leaves an empty one if two are asked for."""
        tail = "".join(self._out[-3:])
        if not tail.strip(" "):
            return
        missing = lines - (len(tail) - len(tail.rstrip("\n")))
        if missing > 0:
            self._out.append("\n" * missing)
            self.size += missing
        self._fresh = True
        self._space = False

    def text(self) -> str:
        """All of it, with its title on top and a word on what is not shown."""
        title = " ".join("".join(self._title).split())[:ATTRIBUTE_CHARS_MAX]
        body = "".join(self._out)[: self._limit].strip()
        lines = [f"Title: {title}\n"] if title else []
        lines.append(body)
        if self.cut:
            lines.append("\n[the page goes on; its text is cut here]")
        if self.hidden:
            lines.append(f"\n[{self.hidden} parts that a reader of the page does not see were left out]")
        return visible("\n".join(lines))


def _is_unseen(known: dict[str, str]) -> bool:
    if "hidden" in known or known.get("aria-hidden", "").lower() == "true":
        return True
    return bool(UNSEEN.search(known.get("style", "")))
