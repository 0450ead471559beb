"""The files whose change has a fresh server started, looked at again and again."""

from __future__ import annotations

import asyncio
import os
import pathlib
from collections.abc import Iterable

POLL_S = 0.25
SETTLE_MAX = 20
"""How often a change may be followed by another at the next look before it counts: an editor is at work on a file."""
CLOCK_NS = 50_000_000
"""How far behind the clock the time of a file may be."""

Look = tuple[int, ...] | None
"""What a file looks like from outside; None if it is not there."""


class WatchedFiles:
    """Files, and what they looked like when they were last read. Files that are not there may be watched as well."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._before: dict[str, Look] = {path: look_of(path) for path in paths}

    def renew(self) -> None:
        """To be called before the files are read: what they look like now is what is read, or else older than that."""
        self._before = {path: look_of(path) for path in self._before}

    def add(self, paths: Iterable[str], since_ns: int) -> None:
        """Watches more files, which were read since a time: one that has changed after that time may have been read
        before it changed, and counts as changed."""
        for path in paths:
            if path not in self._before:
                look = look_of(path)
                late = look is not None and look[0] >= since_ns - CLOCK_NS
                self._before[path] = () if late else look

    def keep(self, paths: Iterable[str]) -> None:
        """Forgets all others."""
        kept = set(paths)
        self._before = {path: look for path, look in self._before.items() if path in kept}

    def changes(self) -> list[str]:
        """The files that have changed, by name."""
        return sorted(path for path, before in self._before.items() if look_of(path) != before)

    async def changed(self) -> list[str]:
        """Waits for a change, and until the files are left alone after it. Gives the files that have changed."""
        while not self.changes():
            await asyncio.sleep(POLL_S)
        looks: list[Look] = []
        for _ in range(SETTLE_MAX):
            paths = self.changes()
            if paths and looks == (now := [look_of(path) for path in paths]):
                return paths
            looks = now if paths else []
            await asyncio.sleep(POLL_S)
        return self.changes() or await self.changed()


def file_of(place: str) -> pathlib.Path:
    """The file of `FILE.py` or `FILE.py:NAME`."""
    return pathlib.Path(place.rpartition(":")[0] or place).resolve()


def look_of(path: str) -> Look:
    """When a file was written, its size, and which it is; None if there is none."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    return (status.st_mtime_ns, status.st_size, status.st_ino)


def candidates(folders: Iterable[pathlib.Path], module: str) -> list[str]:
    """Where a module that is missing could be written."""
    pieces = module.split(".")
    return [
        str(path)
        for folder in folders
        for path in (folder.joinpath(*pieces[:-1], f"{pieces[-1]}.py"), folder.joinpath(*pieces, "__init__.py"))
    ]
