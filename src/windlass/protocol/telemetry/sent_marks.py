"""Up to when everything was exported, kept in small files: one for each process, locked as long as it lives.

Whoever begins takes over the marks that nobody holds any more, so that what a process had not sent when it was killed
is sent by the next one, whichever that is.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pathlib
import tempfile

from windlass.events.errors import UsageError
from windlass.runtime.jobs.job_place import place_for_store

SUFFIX = ".mark"
DIGITS = 20


def marks_folder(given: str | os.PathLike[str] | None, place: str | None, tenant: str) -> pathlib.Path | None:
    """Where the marks for a tenant of a store are kept; None if the store does not outlive its process."""
    if given is not None:
        return pathlib.Path(given) / tenant
    if place is None or place == ":memory:":
        return None
    return pathlib.Path(place_for_store(place, "otel")) / tenant


class SentMarks:
    """The mark of this process, and those that it found."""

    def __init__(self, folder: pathlib.Path) -> None:
        self._folder = folder
        self._own = -1

    def begin(self, now_ms: int) -> int:
        """Takes over what others left, and gives up to when everything was exported; now, if nothing was left. Raises
        `UsageError` if the folder cannot be used."""
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            left = self._left()
            since_ms = min((mark for _, _, mark in left), default=now_ms)
            self._make(since_ms)
        except OSError as error:
            why = error.strerror or type(error).__name__
            told = f"the folder for marks of telemetry {str(self._folder)!r} cannot be used ({why})"
            raise UsageError(f"{told}: name another one with Telemetry(marks=...)") from None
        for path, held, _ in left:
            with contextlib.suppress(OSError):
                path.unlink()
            os.close(held)
        return since_ms

    def note(self, at_ms: int) -> None:
        """Everything up to then was exported."""
        with contextlib.suppress(OSError):  # an older mark has spans sent twice, and loses none
            os.pwrite(self._own, b"%0*d" % (DIGITS, at_ms), 0)

    def close(self) -> None:
        """Lets the mark go, for whoever comes next."""
        if self._own >= 0:
            os.close(self._own)
            self._own = -1

    def _left(self) -> list[tuple[pathlib.Path, int, int]]:
        """The marks that nobody holds, held now: where each is, and what it says."""
        marks: list[tuple[pathlib.Path, int, int]] = []
        for path in sorted(self._folder.glob(f"*{SUFFIX}")):
            with contextlib.suppress(OSError):
                held = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
                try:
                    fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    marks.append((path, held, int(os.pread(held, DIGITS, 0))))
                except (OSError, ValueError):  # somebody's, or no mark of ours
                    os.close(held)
        return marks

    def _make(self, since_ms: int) -> None:
        """A mark of this process. It gets its name when it is locked and says something."""
        self._own, made = tempfile.mkstemp(dir=self._folder)
        fcntl.flock(self._own, fcntl.LOCK_EX)
        self.note(since_ms)
        os.rename(made, made + SUFFIX)
