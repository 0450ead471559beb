"""How much the file tools do at most: in one file, in one tree, in one result, in one call."""

from __future__ import annotations

import time
from typing import Protocol

from windlass.events.values.blocks import Value

LINES_PER_PAGE = 1_000
LINE_CHARS = 1_000
OUTPUT_BYTES = 24 * 1024
"""Below the size from which a result is shown in part only, so that what was read is also seen."""
FILE_BYTES = 64 * 1024 * 1024
SEARCHED_BYTES = 16 * 1024 * 1024
ENTRIES_SEEN = 100_000
FOLDER_ENTRIES = 20_000
BYTES_SEEN = 256 * 1024 * 1024
DEPTH = 32
TIME_MS = 10_000
CHECK_EVERY = 64
"""How many small steps pass between two looks at the clock."""


class FileLimits(Value, frozen=True, kw_only=True):
    """The bounds of the file tools. What lies beyond one is never left out silently: the result says so."""

    lines: int = LINES_PER_PAGE
    """Lines, entries or matches in one result."""
    line_chars: int = LINE_CHARS
    output_bytes: int = OUTPUT_BYTES
    file_bytes: int = FILE_BYTES
    """How much of one file is paged through."""
    searched_bytes: int = SEARCHED_BYTES
    """How much of one file a search looks at."""
    bytes_seen: int = BYTES_SEEN
    """How much of all files is looked at by one search."""
    entries_seen: int = ENTRIES_SEEN
    folder_entries: int = FOLDER_ENTRIES
    depth: int = DEPTH
    time_ms: int = TIME_MS


class Cancellable(Protocol):
    """What says that nobody waits any more; a tool's context is one."""

    @property
    def cancelled(self) -> bool: ...


class Watch:
    """The time of one call. `over` is cheap enough to be asked at every step."""

    def __init__(self, limits: FileLimits, call: Cancellable | None = None) -> None:
        self._ends = time.monotonic() + limits.time_ms / 1000
        self._call = call
        self._steps = 0
        self.expired = False

    def over(self, *, now: bool = False) -> bool:
        """Whether to stop. `now` looks at the clock even if it was looked at a few steps ago."""
        self._steps += 1
        if not self.expired and (now or self._steps % CHECK_EVERY == 0):
            self.expired = time.monotonic() >= self._ends or (self._call is not None and self._call.cancelled)
        return self.expired
