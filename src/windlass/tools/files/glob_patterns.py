"""Glob patterns over paths, matched name by name: `*`, `?`, `[abc]`, `{a,b}` within a name, `**` for any directories.

Matching takes time in proportion to the path and the pattern, whatever a model or a file of ignore rules makes up."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence

from windlass.tools.linear_patterns import name_expression, name_pattern

PATTERN_CHARS_MAX = 1_000
CHOICES_MAX = 64
"""Alternatives that the braces of one pattern may stand for."""
ANY_DEPTH = "**"
DEEPER = "(?:[^/]+/)*"
BRACES = re.compile(r"\{([^{}]*)\}")


class TooManyChoices(ValueError):
    """The braces of a pattern stand for too many patterns."""


class Pattern:
    """One pattern without braces, as a small machine over the names of a path."""

    def __init__(self, text: str) -> None:
        self.parts = [part for part in text.split("/") if part not in ("", ".")]
        if self.parts and self.parts[-1] == ANY_DEPTH:
            self.parts.append("*")  # what is inside, not the directory itself
        self._names = [None if part == ANY_DEPTH else name_pattern(part) for part in self.parts]

    def _reached(self, names: Sequence[str]) -> set[int]:
        """The places in the pattern that a path may lead to."""
        *_, last = self._skipped({0}), *self._places(names)
        return last

    def _places(self, names: Sequence[str]) -> Iterator[set[int]]:
        """The places in the pattern that each name of a path may lead to."""
        places = self._skipped({0})
        for name in names:
            onward = set()
            for place in places:
                if place == len(self._names):
                    continue
                matcher = self._names[place]
                if matcher is None:
                    onward.add(place)
                elif matcher.fits(name):
                    onward.add(place + 1)
            places = self._skipped(onward)
            yield places

    def _skipped(self, places: set[int]) -> set[int]:
        reachable_places = set(places)
        for place in sorted(places):
            while place < len(self._names) and self._names[place] is None:
                place += 1
                reachable_places.add(place)
        return reachable_places

    def matches(self, names: Sequence[str]) -> bool:
        """Whether a path, as its names, is one that the pattern means."""
        return len(self._names) in self._reached(names)

    def covers(self, names: Sequence[str]) -> bool:
        """Whether the pattern means a path or a folder that it lies in."""
        return any(len(self._names) in places for places in self._places(names))

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

    def covers(self, names: Sequence[str]) -> bool:
        """Whether it means a path or a folder that it lies in: one walk along the path, however deep it is."""
        return any(pattern.covers(names) for pattern in self._patterns)

    def leads_on(self, names: Sequence[str]) -> bool:
        return self._anywhere or any(pattern.leads_on(names) for pattern in self._patterns)


def covering_expression(texts: Iterable[str]) -> str:
    """Patterns as one regular expression: it fits a path, each of its names with a slash behind it, if one of them
    means that path or a folder that it lies in."""
    parts = [Pattern(choice).parts for text in texts for choice in choices(text)]
    anywhere = dict.fromkeys(_expression(_behind_any_depth(each)) for each in parts if each[0] == ANY_DEPTH)
    placed = dict.fromkeys(_expression(each) for each in parts if each[0] != ANY_DEPTH)
    either = [f"{DEEPER}(?:{'|'.join(anywhere)})"] if anywhere else []
    return f"(?:{'|'.join([*either, *placed])})(?s:.*)"


def _behind_any_depth(parts: list[str]) -> list[str]:
    return list(itertools.dropwhile(lambda part: part == ANY_DEPTH, parts))


def _expression(parts: Iterable[str]) -> str:
    return "".join(DEEPER if part == ANY_DEPTH else f"{name_expression(part)}/" for part in parts)


def choices(text: str) -> list[str]:
    """The patterns that braces stand for. Braces without a comma are ordinary characters."""
    done, open_ = [], [text]
    while open_:
        one = open_.pop()
        braces = next((m for m in BRACES.finditer(one) if "," in m[1]), None)
        if braces is None:
            done.append(one)
        else:
            open_ += [one[: braces.start()] + part + one[braces.end() :] for part in braces[1].split(",")]
        if len(done) + len(open_) > CHOICES_MAX:
            raise TooManyChoices(f"{text!r} stands for more than {CHOICES_MAX} patterns: use fewer braces")
    return sorted(set(done))
