"""What became of files over a part of a log: which changed, from what to what, and whether by tools alone."""

from __future__ import annotations

import msgspec

from windlass.events.base import Event
from windlass.events.sessions import RewindReceived, SessionImported
from windlass.events.workspace import FileChange, FilesChanged, FilesKept

SOMEBODY_ELSE = "somebody else has changed it since"
UNKNOWN = "the tool that changed it did not say what it held"


class Past(msgspec.Struct):
    """What became of one file: what it held before the first change, and what the last one left in it."""

    path: str
    before: str | None
    after: str | None
    lines_added: int = 0
    lines_removed: int = 0
    changes: int = 1
    why_not: str = ""
    """Why nobody can say what it held, or that only tools changed it."""


class FileHistory:
    """Takes events in order."""

    def __init__(self) -> None:
        self._pasts: dict[str, Past] = {}
        self.left_out: dict[str, str] = {}
        """Why the contents of some were not kept, by path."""

    def add(self, event: Event) -> None:
        """The next event of the log."""
        if isinstance(event, SessionImported):
            self._pasts.clear()  # what another machine, or somebody else, says of files is no word about these
        elif isinstance(event, FilesKept) and event.body is not None:
            self.left_out |= {file.path: file.left_out for file in event.body.files if file.left_out}
        elif isinstance(event, FilesChanged | RewindReceived):
            for change in event.changes:
                self._join(change)

    def newest_first(self) -> list[Past]:
        """The files, the one that changed last first."""
        return list(reversed(self._pasts.values()))

    def _join(self, change: FileChange) -> None:
        """Adds a change to what is known of its file."""
        known = "" if _is_known(change) else UNKNOWN
        past = self._pasts.pop(change.path, None)
        if past is None:
            past = Past(change.path, change.before, None, changes=0, why_not=known)
        elif not past.why_not:
            past.why_not = known or ("" if past.after == change.before else SOMEBODY_ELSE)
        past.after = change.after
        past.lines_added += change.lines_added
        past.lines_removed += change.lines_removed
        past.changes += 1
        self._pasts[change.path] = past


def _is_known(change: FileChange) -> bool:
    """Whether a change says what was there and what came of it."""
    if change.operation == "create":
        return change.after is not None
    return change.before is not None and (change.operation == "delete" or change.after is not None)
