"""Logs as lines in Meerkat's events: as JSON in envelopes, or in words."""

from __future__ import annotations

import json
from collections.abc import Callable

from windlass.protocol.view import Told, TreeView, View
from windlass.runtime.streams.tree_merge import Scoped

from .codec.verbose import verbose
from .codec.wire import builtins
from .view.event_view import MeerkatView
from .view.tree_view import MeerkatTreeView


class JsonLines:
    """An envelope for each line, in ASCII, so that no terminal obeys what a model wrote."""

    def __init__(self, session: str) -> None:
        self._view = MeerkatView(session)

    def feed(self, told: Told) -> list[str]:
        """The lines of one record or live event."""
        return [json.dumps(builtins(envelope), ensure_ascii=True) for envelope in self._view.feed(told)]


class TreeJsonLines:
    """The same for a session and those below it, each event with its scope."""

    def __init__(self, session: str) -> None:
        self._view = MeerkatTreeView(session)

    def feed(self, one: Scoped) -> list[str]:
        """The lines of one record or live event of a tree."""
        return [json.dumps(builtins(envelope), ensure_ascii=True) for envelope in self._view.feed(one)]


class VerboseLines:
    """The events that have a line for people. What would steer a terminal is spelt out."""

    def __init__(self, session: str) -> None:
        self._view = MeerkatView(session)

    def feed(self, told: Told) -> list[str]:
        """The lines of one record or live event."""
        said = [verbose(envelope.payload) for envelope in self._view.feed(told)]
        return ["\n".join(map(printable, line.split("\n"))) for line in said if line is not None]


def printable(text: str) -> str:
    """A line without characters that a terminal would obey."""
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)


LINES: dict[str, Callable[[str], View[str]]] = {"meerkat": JsonLines, "meerkat-verbose": VerboseLines}
"""What `windlass logs --view` offers."""
TREE_LINES: dict[str, Callable[[str], TreeView]] = {"meerkat": TreeJsonLines}
"""What it offers with `--tree`."""
