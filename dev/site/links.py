"""What is wrong with the pages before anything is built: links, anchors, the menu, the shape of a page."""

from __future__ import annotations

import itertools
import pathlib
from collections.abc import Iterator

from dev.site import nav, pages
from dev.site.nav import Site
from dev.site.pages import Link, Page

BESIDE = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "examples/README.md")
"""Pages outside docs/ whose links are held too."""


def complaints(root: pathlib.Path) -> list[str]:
    """Everything that would make a reader stumble; nothing if all is well."""
    site = nav.read(root)
    found = list(_menu(site))
    on_site = [page for page in site.pages if page.is_file()]
    beside = [root / name for name in BESIDE if (root / name).is_file()]
    for path in dict.fromkeys([*on_site, *sorted(site.docs.rglob("*.md")), *beside]):
        page = pages.read(path)
        found += [f"{site.name(path)}:{line}: {wrong}" for line, wrong in _page(site, page)]
    return found


def _menu(site: Site) -> Iterator[str]:
    listed = site.pages
    for page in sorted({page for page in listed if listed.count(page) > 1}):
        yield f"{nav.NAV}: {site.name(page)} is listed more than once"
    for page in listed:
        if not page.is_file():
            yield f"{nav.NAV}: {site.name(page)} is not there"
    for page in sorted(site.docs.rglob("*.md")):
        if page not in listed:
            yield f"{site.name(page)} is not in {nav.NAV}: list it there, or remove it"


def _page(site: Site, page: Page) -> Iterator[tuple[int, str]]:
    yield from _shape(page)
    for link in page.links:
        wrong = _link(site, page, link)
        if wrong:
            yield link.line, wrong


def _shape(page: Page) -> Iterator[tuple[int, str]]:
    tops = [heading for heading in page.headings if heading.level == 1]
    if len(tops) != 1 or page.headings[0].level != 1:
        yield 1, "a page begins with its title, and has only one"
    for before, after in itertools.pairwise(page.headings):
        if after.level > before.level + 1:
            yield after.line, f"{after.text!r} skips a level of headings"
    for token in page.tokens:
        inner = [child for child in token.children or () if child.type == "html_inline"]
        for piece in [token] if token.type == "html_block" else inner:
            if not piece.content.strip().startswith("<!--"):
                yield (token.map or [0])[0] + 1, "write Markdown instead of HTML: it reads the same everywhere"


def _link(site: Site, page: Page, link: Link) -> str | None:
    """What is wrong with a link, or None."""
    if link.is_elsewhere:
        return None
    target = nav.normal(page.path.parent / link.path) if link.path else page.path
    if not target.exists():
        return f"{link.target} leads to nothing"
    if not target.is_relative_to(site.root):
        return f"{link.target} leads out of the repository"
    if target.suffix == ".md":
        if page.path in site.pages and target not in site.pages:
            return f"{link.target} leads to a page that is not on the site"
        if link.anchor and link.anchor not in pages.read(target).anchors:
            return f"{link.target}: there is no heading '#{link.anchor}' on that page"
    elif page.path in site.pages and target.is_dir():
        return f"{link.target} is a folder, which the site cannot show: name a page"
    return None
