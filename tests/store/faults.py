"""Disks that fail: for our own files a `Disk`, for SQLite a virtual file system. Each fault is switched by its test. And
what was written once and is not what it was."""

from __future__ import annotations

import contextlib
import errno
import os
import pathlib
import random
from collections.abc import Callable, Iterator

import apsw

from windlass.store.jsonl.disk import Disk


class FaultyDisk(Disk):
    """Runs out of room, or fails to sync, while told so; `short` makes every write come back half done."""

    def __init__(self) -> None:
        super().__init__()
        self.write_errno = 0
        self.sync_errno = 0
        self.truncate_errno = 0
        self.short = False

    def pwrite(self, handle: int, data: memoryview, offset: int) -> int:
        if self.write_errno:
            # A disk that fills up takes some of the bytes first.
            os.pwrite(handle, data[: len(data) // 2], offset)
            raise OSError(self.write_errno, os.strerror(self.write_errno))
        if self.short and len(data) > 1:
            data = data[: len(data) // 2]
        return super().pwrite(handle, data, offset)

    def fdatasync(self, handle: int) -> None:
        if self.sync_errno:
            raise OSError(self.sync_errno, os.strerror(self.sync_errno))
        super().fdatasync(handle)

    def truncate(self, handle: int, size: int) -> None:
        if self.truncate_errno:
            raise OSError(self.truncate_errno, os.strerror(self.truncate_errno))
        super().truncate(handle, size)


class PointDisk(Disk):
    """Calls `point` before each thing it does to the disk, and in the middle of each write."""

    def __init__(self, point: Callable[[], None]) -> None:
        super().__init__()
        self.point = point

    def pwrite(self, handle: int, data: memoryview, offset: int) -> int:
        self.point()
        half = len(data) // 2
        if half:
            super().pwrite(handle, data[:half], offset)
            self.point()
        return half + super().pwrite(handle, data[half:], offset + half)

    def fdatasync(self, handle: int) -> None:
        self.point()
        super().fdatasync(handle)

    def truncate(self, handle: int, size: int) -> None:
        self.point()
        super().truncate(handle, size)

    def replace(self, source: pathlib.Path, target: pathlib.Path) -> None:
        self.point()
        super().replace(source, target)


class Hooks:
    """What the virtual file system asks before it writes or syncs. The default does nothing and counts syncs."""

    def __init__(self) -> None:
        self.syncs = 0

    def before_write(self, file: apsw.VFSFile, data: bytes, offset: int) -> None:
        """May raise, or write a part first."""

    def before_sync(self) -> None:
        self.syncs += 1


class FailingHooks(Hooks):
    """Fails while told so."""

    def __init__(self) -> None:
        super().__init__()
        self.full = False
        self.sync_fails = False

    def before_write(self, file: apsw.VFSFile, data: bytes, offset: int) -> None:
        if self.full:
            raise apsw.FullError("no room")

    def before_sync(self) -> None:
        super().before_sync()
        if self.sync_fails:
            raise apsw.exception_for(apsw.SQLITE_IOERR_FSYNC)


class PointHooks(Hooks):
    """Passes a crash point before each write and sync, and in the middle of each write."""

    def __init__(self, point: Callable[[], None]) -> None:
        super().__init__()
        self.point = point

    def before_write(self, file: apsw.VFSFile, data: bytes, offset: int) -> None:
        self.point()
        if len(data) > 1:
            apsw.VFSFile.xWrite(file, data[: len(data) // 2], offset)
            self.point()

    def before_sync(self) -> None:
        self.point()


class HookedFile(apsw.VFSFile):
    def __init__(self, name: str | apsw.URIFilename | None, flags: list[int], hooks: Hooks) -> None:
        super().__init__("", name, flags)
        self.hooks = hooks

    def xWrite(self, data: bytes, offset: int) -> None:
        self.hooks.before_write(self, data, offset)
        super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:
        self.hooks.before_sync()
        super().xSync(flags)


class HookedVFS(apsw.VFS):
    def __init__(self, name: str, hooks: Hooks) -> None:
        super().__init__(name, "")
        self.hooks = hooks

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:
        return HookedFile(name, flags, self.hooks)


@contextlib.contextmanager
def hooked(hooks: Hooks, name: str = "windlass-test") -> Iterator[str]:
    """A virtual file system with these hooks, by name."""
    vfs = HookedVFS(name, hooks)
    try:
        yield name
    finally:
        vfs.unregister()


NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def harm_at_random(place: pathlib.Path, chance: random.Random) -> None:
    """Some bytes of some file are others, or none."""
    files = sorted(path for path in place.rglob("*") if path.is_file() and path.name != "lock")
    file = chance.choice(files)
    data = bytearray(file.read_bytes())
    at = chance.randrange(len(data)) if data else 0
    match chance.randrange(4):
        case 0:
            data[at : at + 1] = bytes([data[at] ^ 1 << chance.randrange(8)]) if data else b"x"
        case 1:
            length = min(chance.choice((4, 64, 4096)), len(data) - at)
            data[at : at + length] = bytes(length)
        case 2:
            data[at : at + 40] = chance.randbytes(40)
        case _:
            del data[at:]
    file.write_bytes(data)
