"""A file of lines that this process has open: how far it was read, what is new in it, and writing behind its end.

Another process may have written since; nothing here trusts its memory over the disk.
"""

from __future__ import annotations

import os
import pathlib
from typing import Any, Generic, TypeVar

import msgspec

from windlass.events.errors import Damaged
from windlass.store.rules.lease_expiry import Sightings

from .disk import Disk
from .line_format import Kind
from .line_scan import Scan, scan

Parsed = TypeVar("Parsed")
Stamp = tuple[int, int]
"""(inode, size) of a file: equal stamps mean that nothing was appended and the file was not replaced."""


class Damage(msgspec.Struct, frozen=True):
    """Why a file may only be read: what to say, the first seq that is lost, the offset."""

    message: str
    seq: int
    offset: int

    def error(self) -> Damaged:
        return Damaged(self.message, seq=self.seq, offset=self.offset)


class Files:
    """What open sessions share: the disk, which files the next sync must cover, and what was seen of leases."""

    def __init__(self, disk: Disk) -> None:
        self.disk = disk
        self.unsynced: set[LineFile[Any]] = set()
        self.unsynced_directories: set[pathlib.Path] = set()
        self.wrote = False
        self.sightings = Sightings()

    def sync(self) -> None:
        """Makes everything written so far last."""
        while self.unsynced:
            self.unsynced.pop().sync()
        while self.unsynced_directories:
            path = self.unsynced_directories.pop()
            if path.exists():
                self.disk.sync_directory(path)


class LineFile(Generic[Parsed]):
    """One file, whole up to `end`. `torn` bytes behind it are a record that was never finished; the last line is `bare`
    if it has lost its line break; with `damage` it may only be read."""

    def __init__(self, path: pathlib.Path, kind: Kind[Parsed], files: Files) -> None:
        self.path = path
        self.end = 0
        self.torn = 0
        self.damage: Damage | None = None
        self.lasts = False
        """Whether all that is known of this file is on the disk. What others wrote may not be, until it is synced."""
        self._kind = kind
        self._files = files
        self._handle = files.disk.open_file(path)
        self._stamp: Stamp = (0, -1)
        self._bare = False

    def is_current(self) -> bool:
        """Whether the path still leads to the file that is open here. A damaged one that somebody has changed since is
        to be opened again, and read from its beginning."""
        inode, size = now = stamp(self.path)
        same = inode == os.fstat(self._handle).st_ino and size >= self.end
        return same and (self.damage is None or now == self._stamp)

    def news(self) -> Scan[Parsed] | None:
        """What others have written since, after which `end` stands behind it; None if nothing is new."""
        now = stamp(self.path)
        if self.damage is not None or (now == self._stamp and not self.torn):
            return None  # what looked torn is always looked at again: another process may have put as many bytes there
        start = self._behind_line_break()
        news = scan(self.path, start, self._kind)
        still_bare = self._bare and start == self.end and not news.lines
        self._stamp, self.torn, self._bare = now, news.torn, news.bare or still_bare
        self.end = news.end
        self.lasts = self.lasts and not news.lines
        return news

    def _behind_line_break(self) -> int:
        """Where to read on: a record that had lost its line break may have got it back from another process."""
        return self.end + 1 if self._bare and self.read(self.end, 1) == b"\n" else self.end

    def read(self, offset: int, size: int) -> bytes:
        return os.pread(self._handle, size, offset)

    def write(self, frames: bytes) -> int:
        """Writes whole lines behind the end and says where they begin."""
        offset = self.end + self._bare
        self._files.disk.write_at(self._handle, b"\n" + frames if self._bare else frames, self.end)
        self._changed()
        self.end, self._bare = offset + len(frames), False
        self._stamp = (self._stamp[0], self.end)
        return offset

    def cut(self) -> None:
        """Takes the torn bytes off the end."""
        self._files.disk.truncate(self._handle, self.end)
        self._changed()
        self.torn, self._stamp = 0, stamp(self.path)

    def _changed(self) -> None:
        self._files.unsynced.add(self)
        self._files.wrote = True
        self.lasts = False

    def sync(self) -> None:
        """Makes what was written here last, now."""
        self._files.unsynced.discard(self)
        self._files.disk.sync(self._handle)
        self.lasts = True

    def begin_anew(self) -> None:
        """Puts an empty file in the place of this one."""
        self._files.unsynced.discard(self)
        self._files.disk.put(self.path, b"", sync=True)
        os.close(self._handle)
        self._handle = self._files.disk.open_file(self.path)
        self.end, self._bare, self._stamp = 0, False, stamp(self.path)
        self._files.unsynced_directories.add(self.path.parent)

    def close(self) -> None:
        try:
            if self in self._files.unsynced:
                self.sync()
        finally:
            os.close(self._handle)


def stamp(path: pathlib.Path) -> Stamp:
    status = path.stat()
    return (status.st_ino, status.st_size)
