"""Two histories compared by what was said in them, wherever in their logs it stands."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable

import msgspec

from windlass.events.values.items import HistoryItem
from windlass.store.base import Key, Store

from .item_text import item_text, speaker
from .log_point import read_point

CONTEXT_LINES = 2
PAIRS_MAX = 1_000_000
"""How many pairs of equal lines are looked at; beyond that a diff would take minutes."""


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """Two histories as lines, so that the difference can be shown."""

    before: list[str]
    after: list[str]

    @property
    def same(self) -> bool:
        """Whether the same was said in both."""
        return self.before == self.after

    def difference(self, before_name: str, after_name: str) -> list[str]:
        """The lines of a unified diff; none if they are the same."""
        names = (before_name, after_name)
        if _pairs(self.before, self.after) > PAIRS_MAX:
            return _apart(self.before, self.after, *names)
        return list(difflib.unified_diff(self.before, self.after, *names, lineterm="", n=CONTEXT_LINES))


def _pairs(before: list[str], after: list[str]) -> int:
    """How many pairs of equal lines there are, which is what a diff takes its time with."""
    there = Counter(after)
    return sum(count * there[line] for line, count in Counter(before).items())


def _apart(before: list[str], after: list[str], before_name: str, after_name: str) -> list[str]:
    """What differs of two long texts that repeat themselves: all between their common beginning and end."""
    first = next((at for at, (one, other) in enumerate(zip(before, after, strict=False)) if one != other), None)
    if first is None:
        first = min(len(before), len(after))
    last = 0
    while last < min(len(before), len(after)) - first and before[-1 - last] == after[-1 - last]:
        last += 1
    gone, come = before[first : len(before) - last], after[first : len(after) - last]
    if not gone and not come:
        return []
    head = f"@@ -{first + 1},{len(gone)} +{first + 1},{len(come)} @@"
    changed = [*(f"-{line}" for line in gone), *(f"+{line}" for line in come)]
    return [f"--- {before_name}", f"+++ {after_name}", head, *changed]


def compare(before: Iterable[HistoryItem], after: Iterable[HistoryItem]) -> Comparison:
    """Compares two histories."""
    return Comparison(before=history_lines(before), after=history_lines(after))


async def compare_sessions(store: Store, before: Key, after: Key) -> Comparison:
    """Compares what was said in two sessions, as each stands. Raises `NotFound` if one of them is not there."""
    return compare((await read_point(store, before)).items(), (await read_point(store, after)).items())


def history_lines(items: Iterable[HistoryItem]) -> list[str]:
    """A history as lines that can be compared: who says what, without places in a log."""
    lines: list[str] = []
    for item in items:
        lines.append(speaker(item))
        lines += [f"  {line}" for line in item_text(item).splitlines()]
    return lines
