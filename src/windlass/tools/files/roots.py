"""Which directory a call of a file tool works beneath: the one that its tools were made for, or its session's own."""

from __future__ import annotations

import threading

from windlass.events.errors import UsageError
from windlass.tools.context import ToolError

from .root import Means, Root

OPEN_MAX = 32
"""Folders of sessions that are held open; one that was not used for long is opened anew."""


class Roots:
    """The roots of one set of tools. Without `by_session` it is one root for all; with it a session that works in a
    folder has that folder, and only the others have the one root."""

    def __init__(self, root: Root, *, by_session: bool = False, means: Means | None = None) -> None:
        self._root = root
        self._by_session = by_session
        self._means = means
        self._open: dict[str, Root] = {}
        self._lock = threading.Lock()

    def of(self, folder: str | None) -> Root:
        """The root for a session that works in a folder, or in none. Raises `ToolError` if that is not there."""
        if not self._by_session or folder is None or folder == self._root.path:
            return self._root
        with self._lock:
            root = self._open.pop(folder, None) or self._opened(folder)
            self._open[folder] = root
            while len(self._open) > OPEN_MAX:
                del self._open[next(iter(self._open))]  # closed when the last call that uses it has ended
            return root

    def path(self, folder: str | None) -> str:
        """The same by its name, with nothing opened."""
        return self._root.path if not self._by_session or folder is None else folder

    def _opened(self, folder: str) -> Root:
        try:
            return Root(folder, means=self._means)
        except UsageError as error:
            raise ToolError(f"the session's folder cannot be opened: {error}", code="no_folder") from error
