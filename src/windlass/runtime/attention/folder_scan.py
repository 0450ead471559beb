"""What lies in a folder: the files that match, each with what tells its versions apart. Reads no content."""

from __future__ import annotations

import fnmatch
import hashlib
import os
import pathlib
from collections.abc import Iterator

import msgspec

FILES_MAX = 10_000
"""More files than this are not gone through at each look."""
DEPTH_MAX = 32
CLOCK_GRAIN_NS = 20_000_000
"""By how much the time that a file system gives a file may lie behind the clock: it is that of the last tick, of which
a slow kernel has a hundred a second. A file that came right after a moment may look as if it came before it."""


class TooMany(ValueError):
    """There are more files in a folder than are gone through."""


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """One version of a file."""

    path: str
    """Where it is below the folder, with `/`."""
    size: int
    modified_ns: int
    arrived_ns: int
    """When it last changed, was made or was moved here, whatever time its content carries."""
    inode: int

    def same_content(self, other: Seen | None) -> bool:
        """Whether nothing was written to it since."""
        return other is not None and self.stamp == other.stamp

    @property
    def stamp(self) -> tuple[str, int, int, int]:
        return (self.path, self.inode, self.size, self.modified_ns)

    def digest(self) -> str:
        """A name for this version, the same in every process."""
        text = "\0".join(map(str, self.stamp))
        return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()[:32]


def scan(folder: pathlib.Path, pattern: str, *, recursive: bool, files_max: int = FILES_MAX) -> dict[str, Seen]:
    """The regular files that match, by path. Links are not followed; names that begin with a dot only match a pattern
    that does. Raises `OSError` if the folder cannot be read, and `TooMany`."""
    files: dict[str, Seen] = {}
    looked = 0
    for path, entry in _entries(folder, "", recursive):
        looked += 1
        if looked > files_max:
            raise TooMany(f"{folder} has more than {files_max} files")
        if not _matches(entry.name, path, pattern):
            continue
        try:
            stat = entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            continue  # it went away meanwhile
        files[path] = Seen(
            path=path,
            size=stat.st_size,
            modified_ns=stat.st_mtime_ns,
            arrived_ns=max(stat.st_mtime_ns, stat.st_ctime_ns),
            inode=stat.st_ino,
        )
    return files


def _entries(
    folder: pathlib.Path, below: str, recursive: bool, depth: int = 0
) -> Iterator[tuple[str, os.DirEntry[str]]]:
    with os.scandir(folder / below) as entries:
        for entry in entries:
            path = f"{below}{entry.name}"
            if entry.is_file(follow_symlinks=False):
                yield path, entry
            elif recursive and depth < DEPTH_MAX and entry.is_dir(follow_symlinks=False):
                try:
                    yield from _entries(folder, f"{path}/", recursive, depth + 1)
                except FileNotFoundError:
                    continue  # it went away meanwhile


def _matches(name: str, path: str, pattern: str) -> bool:
    if name.startswith(".") and not pattern.rpartition("/")[2].startswith("."):
        return False
    return fnmatch.fnmatchcase(path if "/" in pattern else name, pattern)
