"""What a screen test says: which verb, in which of its three situations, called how, and the whole screen that follows.

Every verb has a normal, an empty (there is nothing to show or to act on) and an error screen; `test_screens_all.py`
fails where one is missing.
"""

from __future__ import annotations

import pathlib
import re
import shutil
from collections.abc import Callable, Iterable
from typing import Literal, TypeVar

import msgspec

from .terminal import Terminal

Kind = Literal["normal", "empty", "error"]
Place = Literal["made", "empty", "bare"]
"""A folder with a store full of sessions, with an empty store, with none; agents are in all of them."""
T = TypeVar("T", bound=Callable[..., object])

COLUMNS = 80
CHANGING = (
    (r"\d\d:\d\d:\d\d", "12:00:00"),
    (r"\d{4}-\d\d-\d\d", "2026-01-01"),
    (r"AGE +COST", "AGE    COST"),
    (r"\b\d+ (?:ms|s|min) +\$", "0 s    $"),
    (r"\b\d+(?:\.\d)? (?:ms|s|min)\b", "0 s"),
    (r"\b[0-9a-f]{24}\b", "DIGEST"),
    (r"process \d+", "process 7"),
    (r"\b[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}\b", "01234567-89ab-7cde-8000-000000000000"),
    (r"(records?  )[\w-]{16}(?![\w-])", r"\1HASH"),
    (r"[\d,]+ bytes", "N bytes"),
    (r"behind the mark \w{3}", "behind the mark abc"),
    (r"usage: (windlass \w+)[^']*\n", r"usage: \1 …\n"),
    (r"3\.\d+\.\d+ at \S+", "3.11.0 at PYTHON"),
)
"""What differs from run to run, and what stands for it."""


DAY = "       2026-01-01 UTC\n"


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One command and its whole screen, 80 columns wide."""

    verb: str
    kind: Kind
    words: str
    shown: str
    code: int = 0
    place: Place = "made"
    before: tuple[str, ...] = ()
    """Commands given before it, whose screens do not matter."""
    environ: dict[str, str] = {}

    @property
    def name(self) -> str:
        return f"{self.kind}: windlass {self.words}"


def settled(text: str) -> str:
    """A screen without what differs from run to run: also the second day in a log that was written at midnight."""
    for pattern, stands in CHANGING:
        text = re.sub(pattern, stands, text)
    first, *rest = text.split(DAY)
    return DAY.join([first, "".join(rest)]) if rest else text


def look(terminal: Terminal, case: Case, folder: pathlib.Path) -> tuple[int, str]:
    """Gives the commands of a case in a folder; the exit code and the screen of the last one."""
    import shlex

    terminal.folder = folder
    for words in case.before:
        terminal.shown(*shlex.split(words))
    environ = {"WINDLASS_CACHE": str(folder / "cache"), **case.environ}
    terminal.start(*shlex.split(case.words), environ=environ)
    return terminal.end(), settled(terminal.history())


def copied(folder: pathlib.Path, to: pathlib.Path) -> pathlib.Path:
    """A folder's copy, to be changed."""
    return pathlib.Path(shutil.copytree(folder, to))


PROVEN: set[tuple[str, str]] = set()
"""The screens that a test of its own proves, as (verb, kind)."""


def proves(verb: str, *kinds: Kind) -> Callable[[T], T]:
    """Says that a test proves screens of a verb which are no `Case`."""

    def mark(test: T) -> T:
        PROVEN.update((verb, kind) for kind in kinds)
        return test

    return mark


def proven(cases: Iterable[Case]) -> set[tuple[str, str]]:
    return {(case.verb, case.kind) for case in cases}
