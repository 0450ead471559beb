"""What was written before, in all sessions: one private file in the user's state directory, bounded, an entry a line.

A line that begins with a space is not kept. Never raises: a history that cannot be kept is no reason to stop.
"""

from __future__ import annotations

import json
import os
import pathlib
import stat
from collections.abc import Mapping

from windlass.events.user_folders import is_homeless, state_folder

HISTORY_VARIABLE = "WINDLASS_HISTORY"
"""A path, or `off`."""
ENTRIES_MAX = 1_000
ENTRY_MAX = 10_000
"""Letters of one entry; longer ones are remembered for this chat only."""
FILE_BYTES_MAX = 4_000_000
PRIVATE = 0o600


def history_path(environ: Mapping[str, str] | None = None) -> pathlib.Path | None:
    """Where the history is kept; None if it is turned off, or if there is no home folder to keep it in."""
    env = os.environ if environ is None else environ
    wanted = env.get(HISTORY_VARIABLE, "")
    if wanted.lower() in ("off", "0", "no"):
        return None
    if wanted:
        return pathlib.Path(wanted).expanduser()
    base = state_folder(env)
    return None if is_homeless(base) else pathlib.Path(base) / "windlass" / "history"


def worth_keeping(text: str) -> bool:
    """Whether an entry is remembered at all."""
    return bool(text.strip()) and not text.startswith(" ")


class HistoryFile:
    """The entries, oldest first."""

    def __init__(self, path: pathlib.Path | None) -> None:
        self._path = path
        self.entries: list[str] = []
        self._load()

    def add(self, text: str) -> None:
        """Remembers an entry, unless it is empty, begins with a space or repeats the last one."""
        if not worth_keeping(text) or (self.entries and self.entries[-1] == text):
            return
        self.entries.append(text)
        del self.entries[:-ENTRIES_MAX]
        if self._path is not None and len(text) <= ENTRY_MAX:
            self._append(self._path, text)

    def _load(self) -> None:
        if self._path is None:
            return
        try:
            with os.fdopen(_opened(self._path, os.O_RDONLY), "rb") as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - FILE_BYTES_MAX))
                lines = file.read(FILE_BYTES_MAX).decode(errors="replace").splitlines()
        except OSError:
            return
        self.entries = [entry for line in lines if (entry := _entry(line))][-ENTRIES_MAX:]
        if len(lines) > 2 * ENTRIES_MAX:
            self._rewrite(self._path)

    def _append(self, path: pathlib.Path, text: str) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with os.fdopen(_opened(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT), "wb") as file:
                os.fchmod(file.fileno(), PRIVATE)
                file.write(json.dumps(text).encode() + b"\n")
        except OSError:
            return

    def _rewrite(self, path: pathlib.Path) -> None:
        """Lets the file shrink to what is remembered, in one step."""
        fresh = path.with_name(f"{path.name}.{os.getpid()}")
        try:
            with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE), "wb") as file:
                file.write("".join(json.dumps(entry) + "\n" for entry in self.entries).encode())
            os.replace(fresh, path)
        except OSError:
            return


def _opened(path: pathlib.Path, flags: int) -> int:
    """A regular file, opened; anything else is refused with an `OSError`, and never waited for: a pipe has no end until
    somebody opens its other one."""
    descriptor = os.open(path, flags | os.O_NONBLOCK, PRIVATE)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(f"{str(path)!r} is no regular file")
    return descriptor


def _entry(line: str) -> str:
    try:
        entry = json.loads(line)
    except ValueError:
        return ""
    return entry[:ENTRY_MAX] if isinstance(entry, str) else ""
