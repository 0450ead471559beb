"""Glob patterns over paths, matched name by name: `*`, `?`, `[abc]`, `{a,b}` within a name, `**` for any directories.

Matching takes time in proportion to the path and the pattern, whatever a model or a file of ignore rules makes up."""

from __future__ import annotations

import fnmatch
import functools
import re
from collections.abc import Sequence

PATTERN_CHARS_MAX = 1_000
CHOICES_MAX = 64
"""Alternatives that the braces of one pattern may stand for."""
ANY_DEPTH = "**"
BRACES = re.compile(r"\{([^{}]*)\}")


class TooManyChoices(ValueError):
    """The braces of a pattern stand for too many patterns."""


@functools.lru_cache(maxsize=512)
def _name_matcher(text: str) -> re.Pattern[str]:
    # The standard translation uses atomic groups, so that many stars cannot make it backtrack.
    return re.compile(fnmatch.translate(text))


class Pattern:
    """One pattern without braces, as a small machine over the names of a path."""

    def __init__(self, text: str) -> None:
        self.parts = [part for part in text.split("/") if part not in ("", ".")]
        if self.parts and self.parts[-1] == ANY_DEPTH:
            self.parts.append("*")  # what is inside, not the directory itself
        self._names = [None if part == ANY_DEPTH else _name_matcher(part) for part in self.parts]

    def _reached(self, names: Sequence[str]) -> frozenset[int]:
        """The places in the pattern that a path may lead to."""
        places = self._skipped({0})
        for name in names:
            onward = set()
            for place in places:
                if place == len(self._names):
                    continue
                matcher = self._names[place]
                if matcher is None:
                    onward.add(place)
                elif matcher.match(name):
                    onward.add(place + 1)
            places = self._skipped(onward)
        return frozenset(places)

    def _skipped(self, places: set[int]) -> set[int]:
        found = set(places)
        for place in sorted(places):
            while place < len(self._names) and self._names[place] is None:
                place += 1
                found.add(place)
        return found

    def matches(self, names: Sequence[str]) -> bool:
        """Whether a path, as its names, is one that the pattern means."""
        return len(self._names) in self._reached(names)

    def leads_on(self, names: Sequence[str]) -> bool:
        """Whether something below a directory could match."""
        return any(place < len(self._names) for place in self._reached(names))


class Glob:
    """A pattern as people write it. Without a slash it may be tried on the last name alone, with `anywhere`."""

    def __init__(self, text: str, *, anywhere: bool = False) -> None:
        self.folders = text.endswith("/")
        self._anywhere = anywhere and "/" not in text.rstrip("/")
        self._patterns = [Pattern(choice) for choice in choices(text)]

    def matches(self, names: Sequence[str]) -> bool:
        tried = names[-1:] if self._anywhere else names
        return any(pattern.matches(tried) for pattern in self._patterns)

    def leads_on(self, names: Sequence[str]) -> bool:
        return self._anywhere or any(pattern.leads_on(names) for pattern in self._patterns)


def choices(text: str) -> list[str]:
    """The patterns that braces stand for. Braces without a comma are ordinary characters."""
    done, open_ = [], [text]
    while open_:
        one = open_.pop()
        found = next((m for m in BRACES.finditer(one) if "," in m[1]), None)
        if found is None:
            done.append(one)
        else:
            open_ += [one[: found.start()] + part + one[found.end() :] for part in found[1].split(",")]
        if len(done) + len(open_) > CHOICES_MAX:
            raise TooManyChoices(f"{text!r} stands for more than {CHOICES_MAX} patterns: use fewer braces")
    return sorted(set(done))
