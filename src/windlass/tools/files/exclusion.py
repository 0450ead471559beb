"""What no model may see: patterns of a session's policy, held against the names and the real places of files.

A pattern without a leading slash means files and folders of that name at any depth beneath the root; with one, a place
from the root of the file system. A folder that is covered covers all that is in it. Another name for the same file that
is no link (a hard link, a copy) is another file."""

from __future__ import annotations

import functools
import os
import pathlib
from collections.abc import Iterable, Sequence

from windlass.events.errors import UsageError
from windlass.tools.linear_patterns import LinearPattern, NotLinear

from .glob_patterns import PATTERN_CHARS_MAX, choices, covering_expression
from .root import Root

PATTERNS_MAX = 256
PATTERNS_CHARS_MAX = 16_000
"""How long all patterns may be together, with their braces written out."""
TOO_MUCH = "too many and too long to be held against every path: use fewer braces and question marks, or wider patterns"
PATH_CHARS_MAX = 4_096
"""The longest path that a system takes. A longer one counts as covered: nothing can be read by it."""
MEMORY_MAX = 16 * 1024 * 1024
"""What the expression of all patterns may take: more than those need that are allowed."""


class Exclusion:
    """The patterns of a policy, ready to be asked."""

    def __init__(self, patterns: tuple[str, ...]) -> None:
        self.anywhere = _Patterns((text, f"**/{text.strip('/')}") for text in patterns if not text.startswith("/"))
        self.placed = _Patterns((text, text.strip("/")) for text in patterns if text.startswith("/"))

    def covering(self, path: str, beneath: str | None = None) -> str | None:
        """The pattern that covers a path, if one does. Names of folders above `beneath` do not count, if the path lies
        there."""
        whole = os.path.normpath(path)
        inside = beneath is not None and pathlib.PurePath(whole).is_relative_to(beneath)
        named = os.path.relpath(whole, beneath) if inside else whole
        return self.anywhere.covering(_names(named)) or self.placed.covering(_names(whole))


class _Patterns:
    """Patterns that are held against the same names: all of them at once, however many they are."""

    def __init__(self, patterns: Iterable[tuple[str, str]]) -> None:
        self._patterns = dict(patterns)

    def covering(self, names: list[str]) -> str | None:
        """The first pattern that covers a path or a folder that it lies in."""
        if not self._patterns:
            return None
        path = "".join(f"{name}/" for name in names)
        if self.all is not None and len(path) <= min(PATH_CHARS_MAX, self.all.chars_max) and not self.all.fits(path):
            return None
        each = self._each.items() if self.all is not None else ()
        return next((text for text, one in each if one.fits(path)), next(iter(self._patterns)))

    @functools.cached_property
    def all(self) -> LinearPattern | None:
        """All of them as one expression; None if that were too large, and then they cover everything: only a log that
        is older than this bound has such patterns."""
        try:
            return _compiled(self._patterns.values())
        except NotLinear:
            return None

    @functools.cached_property
    def _each(self) -> dict[str, LinearPattern]:
        return {text: _compiled([pattern]) for text, pattern in self._patterns.items()}


def _compiled(patterns: Iterable[str]) -> LinearPattern:
    return LinearPattern(covering_expression(patterns), memory_max=MEMORY_MAX)


def _names(path: str) -> list[str]:
    return [name for name in path.split("/") if name not in ("", ".")]


@functools.lru_cache(maxsize=64)
def exclusion_of(patterns: tuple[str, ...]) -> Exclusion | None:
    """The patterns, ready to be asked; None if there are none."""
    return Exclusion(patterns) if patterns else None


def check_patterns(patterns: Sequence[str]) -> None:
    """Raises `UsageError` for what is no pattern, or for more than can be judged in a moment."""
    if len(patterns) > PATTERNS_MAX:
        raise UsageError(f"{len(patterns)} patterns in exclude=, at most {PATTERNS_MAX}: use wider ones")
    length = 0
    for text in patterns:
        if not isinstance(text, str) or not text.strip("/") or len(text) > PATTERN_CHARS_MAX or ".." in text.split("/"):
            told = "give globs such as '*.pem', 'secrets/' or '/etc/**'"
            raise UsageError(f"exclude={text!r} is no pattern of files: {told}")
        try:
            length += sum(map(len, choices(text)))
        except ValueError as error:
            raise UsageError(f"exclude={text!r}: {error}") from None
        if length > PATTERNS_CHARS_MAX:
            raise UsageError(f"the patterns in exclude= are {TOO_MUCH}")
    _check_work(tuple(patterns))


def _check_work(patterns: tuple[str, ...]) -> None:
    """Raises `UsageError` for patterns that a long path would be held against for too long."""
    exclusion = exclusion_of(patterns)
    for part in (exclusion.anywhere, exclusion.placed) if exclusion is not None else ():
        if part.all is None or part.all.chars_max < PATH_CHARS_MAX:
            raise UsageError(f"the patterns in exclude= are {TOO_MUCH}")


def screened(root: Root, patterns: tuple[str, ...]) -> Root:
    """The root as a session may use it whose policy excludes these patterns."""
    exclusion = exclusion_of(patterns)
    return root if exclusion is None else root.screened(exclusion)
