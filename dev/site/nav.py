"""The menu of the site, read from `docs/nav.toml`, and where each page is written."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import tomllib

NAV = pathlib.PurePath("docs/nav.toml")


@dataclasses.dataclass(frozen=True)
class Section:
    """One heading of the menu with its pages, as absolute paths."""

    title: str
    pages: tuple[pathlib.Path, ...]


@dataclasses.dataclass(frozen=True)
class Site:
    """The repository that the site is made from, and its menu."""

    root: pathlib.Path
    sections: tuple[Section, ...]

    @property
    def docs(self) -> pathlib.Path:
        return self.root / "docs"

    @property
    def pages(self) -> list[pathlib.Path]:
        return [page for section in self.sections for page in section.pages]

    def place(self, path: pathlib.Path) -> str:
        """Where a page or file of the repository is on the site: `docs/` is its root, and what lies beside keeps its
        own place."""
        inside = path.relative_to(self.docs if path.is_relative_to(self.docs) else self.root)
        if inside.suffix != ".md":
            return inside.as_posix()
        name = "index" if inside.stem in ("README", "index") else inside.stem.lower()
        return inside.with_name(f"{name}.html").as_posix()

    def name(self, path: pathlib.Path) -> str:
        """A path as a message shows it."""
        return path.relative_to(self.root).as_posix()


def read(root: pathlib.Path) -> Site:
    """The menu of a repository."""
    told = tomllib.loads((root / NAV).read_text(encoding="utf-8"))
    sections = [
        Section(section["title"], tuple(path for page in section["pages"] for path in _named(root / "docs", page)))
        for section in told["section"]
    ]
    return Site(root, tuple(sections))


def _named(docs: pathlib.Path, page: str) -> list[pathlib.Path]:
    return sorted(docs.glob(page)) if "*" in page else [normal(docs / page)]


def normal(path: pathlib.Path) -> pathlib.Path:
    """A path without `..`, links left as they are."""
    return pathlib.Path(os.path.normpath(path))
