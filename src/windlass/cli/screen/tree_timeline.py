"""The records of a tree as a timeline: one view for each session, and a line for each change of who has the word."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from windlass.cli.terminal.text import Paint
from windlass.cli.terminal.visible_text import spelt
from windlass.runtime.streams.tree_merge import Scoped

from .timeline import Timeline, TimelinePage


class TreeTimeline:
    """Lays out what is told of a tree."""

    def __init__(self, page: TimelinePage, view: Callable[[], Timeline], paint: Paint) -> None:
        self._page = page
        self._view = view
        self._paint = paint
        self._views: dict[str, Timeline] = {}
        self._last = ""

    def lines(self, scoped: Scoped) -> Iterator[str]:
        """The lines of one record; before them which session it is of, if that is another one than before."""
        view = self._views.setdefault(scoped.session, self._view())
        for entry in view.feed(scoped.told):
            if scoped.session != self._last:
                self._last = scoped.session
                yield self._paint(named(scoped), "bold")
            yield from self._page.lines(entry)


def named(scoped: Scoped) -> str:
    """A session by the frames that lead to it."""
    steps = [f"{frame.call_id} ({frame.agent})" if frame.agent else frame.call_id for frame in scoped.frames]
    return "── " + spelt(" ▸ ".join(steps) if steps else scoped.session)
