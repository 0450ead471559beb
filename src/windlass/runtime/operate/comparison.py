"""Two histories compared by what was said in them, wherever in their logs it stands."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

import msgspec

from windlass.events.values.items import HistoryItem
from windlass.store.base import Key, Store

from .item_text import item_text, speaker
from .log_point import read_point

CONTEXT_LINES = 2


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
        return list(difflib.unified_diff(self.before, self.after, *names, lineterm="", n=CONTEXT_LINES))


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
