"""Which files a session has read, as they were then: a whole file is only replaced by somebody who knows what it holds.

Kept in memory: whoever goes on in another process reads a file again before it is replaced."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict

FILES_MAX = 10_000


class SeenFiles:
    """The last state of each file that each session saw."""

    def __init__(self) -> None:
        self._seen: OrderedDict[tuple[str, int, int], tuple[int, int]] = OrderedDict()
        self._lock = threading.Lock()

    def add(self, session: str, about: os.stat_result) -> None:
        """A session has seen a file as it is now."""
        with self._lock:
            self._seen[(session, about.st_dev, about.st_ino)] = (about.st_size, about.st_mtime_ns)
            self._seen.move_to_end((session, about.st_dev, about.st_ino))
            while len(self._seen) > FILES_MAX:
                self._seen.popitem(last=False)

    def has(self, session: str, about: os.stat_result) -> bool:
        """Whether a session saw the file as it is."""
        with self._lock:
            return self._seen.get((session, about.st_dev, about.st_ino)) == (about.st_size, about.st_mtime_ns)
