"""Builds the site: one HTML file for each page of the menu, one stylesheet, one script, a search index.

What it writes needs no server and no network: links are relative, fonts are the reader's own.
"""

from __future__ import annotations

import html
import itertools
import json
import os
import pathlib
import shutil
import string
from collections.abc import Iterator, Sequence
from typing import Any

from dev.site import nav, pages
from dev.site.nav import Site
from dev.site.pages import Page
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token

HERE = pathlib.Path(__file__).parent
ASSETS = ("style.css", "site.js")
NAME = "Windlass"
TOC_LEVELS = (2, 3)
TOC_ENTRIES_MAX = 60
SEARCH_CHARS_MAX = 240
"""How much of each section can be searched beside its heading."""
HIGHLIGHTED = {"python": "python", "sh": "bash", "json": "json", "toml": "toml"}


def build(root: pathlib.Path, out: pathlib.Path) -> list[str]:
    """Writes the site into `out`, which is emptied first; the files that it wrote. Raises if a page is broken;
    `links.complaints` says why."""
    site = nav.read(root)
    if out.exists():
        shutil.rmtree(out)
    out.mkdir(parents=True)
    template = string.Template((HERE / "page.html").read_text(encoding="utf-8"))
    written: list[str] = []
    index: list[list[str]] = []
    for number, path in enumerate(site.pages):
        page = pages.read(path)
        text = template.substitute(_fill(site, page, number))
        written.append(_write(out, site.place(path), text))
        index += _searchable(site, page)
    for path in sorted(_files(site)):
        written.append(_write(out, site.place(path), path.read_text(encoding="utf-8")))
    for name in ASSETS:
        written.append(_write(out, name, (HERE / name).read_text(encoding="utf-8")))
    entries = json.dumps(index, ensure_ascii=False, separators=(",", ":"))
    written.append(_write(out, "search.js", f"window.PAGES = {entries};\n"))
    return written


def _write(out: pathlib.Path, place: str, text: str) -> str:
    target = out / place
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, encoding="utf-8")
    return place


def _files(site: Site) -> set[pathlib.Path]:
    """Files of the repository that pages link to, such as examples."""
    found = set()
    for path in site.pages:
        for link in pages.read(path).links:
            target = nav.normal(path.parent / link.path)
            if link.path and not link.is_elsewhere and target.suffix != ".md":
                found.add(target)
    return found


# --- one page ---


def _fill(site: Site, page: Page, number: int) -> dict[str, str]:
    here = site.place(page.path)
    top = os.path.relpath(".", os.path.dirname(here) or ".")
    return {
        "title": html.escape(page.title if number == 0 else f"{page.title} · {NAME}"),
        "top": top,
        "menu": "".join(_menu(site, page)),
        "content": Renderer(site, page).render(page.tokens, pages.parser().options, {}),
        "toc": _toc(page),
        "around": "".join(_around(site, here, number)),
    }


def _menu(site: Site, page: Page) -> Iterator[str]:
    here = site.place(page.path)
    for section in site.sections:
        opened = " open" if page.path in section.pages or section.title in ("Start", "Tasks") else ""
        yield f"<details{opened}><summary>{html.escape(section.title)}</summary><ul>"
        for path in section.pages:
            mark = ' aria-current="page"' if path == page.path else ""
            title = html.escape(pages.read(path).title)
            yield f'<li><a href="{_relative(here, site.place(path))}"{mark}>{title}</a></li>'
        yield "</ul></details>"


def _toc(page: Page) -> str:
    """The headings of a page, as deep as they can be taken in at once."""
    shown = [heading for heading in page.headings if heading.level in TOC_LEVELS]
    if len(shown) > TOC_ENTRIES_MAX:
        shown = [heading for heading in shown if heading.level == TOC_LEVELS[0]]
    if len(shown) < 2:
        return ""
    entries = "".join(
        f'<li class="level-{heading.level}"><a href="#{heading.anchor}">{html.escape(heading.text)}</a></li>'
        for heading in shown
    )
    return f'<nav class="toc" aria-label="On this page"><p>On this page</p><ul>{entries}</ul></nav>'


def _around(site: Site, here: str, number: int) -> Iterator[str]:
    for offset, word in ((-1, "before"), (1, "next")):
        other = number + offset
        if 0 <= other < len(site.pages):
            path = site.pages[other]
            title = html.escape(pages.read(path).title)
            yield f'<a class="{word}" href="{_relative(here, site.place(path))}">{title}</a>'


def _relative(here: str, there: str) -> str:
    return os.path.relpath(there, os.path.dirname(here) or ".")


class Renderer(RendererHTML):
    """Markdown to HTML: links lead to where pages are on the site, code is coloured, wide tables scroll."""

    def __init__(self, site: Site, page: Page) -> None:
        super().__init__()
        self._site = site
        self._page = page

    def link_open(self, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
        token = tokens[index]
        link = pages.Link(str(token.attrGet("href")), 0)
        if link.path and not link.is_elsewhere:
            target = nav.normal(self._page.path.parent / link.path)
            where = _relative(self._site.place(self._page.path), self._site.place(target))
            token.attrSet("href", f"{where}#{link.anchor}" if link.anchor else where)
        return self.renderToken(tokens, index, options, env)

    def heading_close(self, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
        anchor = tokens[index - 2].attrGet("id")
        link = f'<a class="anchor" href="#{anchor}" aria-label="Link to this section">#</a>'
        return f" {link}{self.renderToken(tokens, index, options, env)}"

    def table_open(self, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
        return '<div class="wide" tabindex="0">' + self.renderToken(tokens, index, options, env)

    def table_close(self, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
        return self.renderToken(tokens, index, options, env) + "</div>"

    def html_block(self, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
        return ""  # comments for whoever edits the page

    def html_inline(self, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
        return ""

    def fence(self, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
        token = tokens[index]
        language = token.info.strip()
        code = _coloured(token.content, language) if language in HIGHLIGHTED else html.escape(token.content)
        name = html.escape(language or "text")
        return f'<pre tabindex="0"><code class="language-{name}">{code}</code></pre>\n'


def _coloured(source: str, language: str) -> str:
    from pygments import highlight
    from pygments.formatters import HtmlFormatter
    from pygments.lexers import get_lexer_by_name

    found: str = highlight(source, get_lexer_by_name(HIGHLIGHTED[language]), HtmlFormatter(nowrap=True))
    return found


# --- search ---


def _searchable(site: Site, page: Page) -> Iterator[list[str]]:
    """The sections of a page: where, of which page, under which heading, and how they begin."""
    place = site.place(page.path)
    headings = {heading.anchor: heading for heading in page.headings}
    sections: list[list[str]] = []
    for before, token in itertools.pairwise([*page.tokens[:1], *page.tokens]):
        if token.type == "heading_open":
            found = headings[str(token.attrGet("id"))]
            where = place if found.level == 1 else f"{place}#{found.anchor}"
            sections.append([where, page.title, found.text, ""])
        elif token.type == "inline" and before.type != "heading_open" and len(sections[-1][3]) < SEARCH_CHARS_MAX:
            sections[-1][3] += f"{pages.plain(token)} "
    for section in sections:
        yield [*section[:3], section[3][:SEARCH_CHARS_MAX].strip()]
