"""One directory, held open, and everything beneath it: the only way in which the file tools reach the disk.

It works on descriptors. A path that leads out of the directory by any means (`..`, links, renames under way) is refused
by the kernel, or by the walk that stands in for it; no text of a path is ever compared with another one.
"""

from __future__ import annotations

import copy
import errno
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

from windlass.events.errors import UsageError
from windlass.tools.context import ToolError

from .openat2 import has_openat2, kernel_filesystem, openat2
from .path_walk import open_steps
from .shown_names import shown

if TYPE_CHECKING:
    from .exclusion import Exclusion

PATH_BYTES_MAX = 4_096
PATH_ONLY = getattr(os, "O_PATH", os.O_RDONLY | os.O_NONBLOCK) | os.O_CLOEXEC
READ = os.O_RDONLY | os.O_NONBLOCK | getattr(os, "O_NOCTTY", 0) | os.O_CLOEXEC
"""A pipe or a device that took a file's place must never hold us up or become our terminal."""
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
NEAR_MAX = 3
NEAR_SEEN_MAX = 2_000

Means = Literal["kernel", "walk"]


class Refusal(ToolError):
    """A path that cannot be read, with what to do instead."""


class Outside(Refusal):
    """A path that leads out of the root."""


class Root:
    """A directory that was opened once; renaming or replacing it later changes nothing."""

    def __init__(self, path: str | os.PathLike[str], *, means: Means | None = None) -> None:
        self._fd = -1
        if os.open not in os.supports_dir_fd or not hasattr(os, "O_NOFOLLOW"):
            raise UsageError(
                f"file tools need a system that opens files beneath a directory; {sys.platform!r} does not"
            )
        try:
            self._fd = os.open(path, FOLDER)
        except OSError as error:
            raise UsageError(f"the root {os.fspath(path)!r} cannot be opened: {error.strerror}") from None
        except ValueError:
            raise UsageError(f"the root {os.fspath(path)!r} is no path") from None
        self.path = os.path.realpath(path)
        """Where it was when it was opened, to be shown; nothing is opened by it."""
        self._means = means or ("kernel" if has_openat2(self._fd) else "walk")
        self._doors: dict[int, str | None] = {}
        self.exclusion: Exclusion | None = None
        """What may not be seen through it."""

    def screened(self, exclusion: Exclusion) -> Root:
        """The same directory, through which what is excluded cannot be opened, whatever it is called on the way."""
        made = copy.copy(self)
        made._fd = os.dup(self._fd)
        made.exclusion = exclusion
        return made

    @property
    def means(self) -> Means:
        """What holds paths beneath the root: the kernel, or our own walk."""
        return self._means

    def close(self) -> None:
        """Gives the descriptor back. Safe twice."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def __del__(self) -> None:
        self.close()

    # --- opening ---

    @contextmanager
    def file(self, path: str | bytes) -> Iterator[int]:
        """A descriptor to read a regular file. Raises `Refusal` for anything else."""
        descriptor = self._found(path)
        try:
            self._wanted(descriptor, path, "file")
            self._check_excluded(descriptor, path)
            fd = self._reopened(descriptor, path)
        finally:
            os.close(descriptor)
        try:
            yield fd
        finally:
            os.close(fd)

    @contextmanager
    def folder(self, path: str | bytes) -> Iterator[int]:
        """A descriptor to list a directory. Raises `Refusal` for anything else."""
        descriptor = self._found(path)
        try:
            self._wanted(descriptor, path, "directory")
            self._check_excluded(descriptor, path)
            fd = os.open(b".", FOLDER | os.O_NOFOLLOW, dir_fd=descriptor)
        except OSError as error:
            raise self.refused(error, path) from None
        finally:
            os.close(descriptor)
        try:
            yield fd
        finally:
            os.close(fd)

    def is_folder(self, path: str | bytes) -> bool:
        """Whether a path is a directory. Raises `Refusal` if there is nothing."""
        descriptor = self._found(path)
        try:
            return stat.S_ISDIR(os.fstat(descriptor).st_mode)
        finally:
            os.close(descriptor)

    def straight_folder(self, path: str | bytes) -> int:
        """A directory, reached through no link at all: the path that was named is the place that is meant. Raises
        `OSError`, and `Refusal` for a directory that is none of files."""
        if self._fd < 0:
            raise UsageError("these file tools were closed")
        raw = checked(path)
        if self._means == "kernel":
            fd = openat2(self._fd, raw, FOLDER, links=False)
        else:
            fd = open_steps(self._fd, raw, FOLDER, links=False)
        try:
            self._wanted(fd, path, "directory")
        except BaseException:
            os.close(fd)
            raise
        return fd

    def child_folder(self, folder: int, name: str) -> int:
        """A subdirectory of an open directory, never through a link. Raises `OSError`."""
        fd = os.open(name, FOLDER | os.O_NOFOLLOW, dir_fd=folder)
        if self._door(fd, os.fstat(fd).st_dev):
            os.close(fd)
            raise OSError(errno.EACCES, os.strerror(errno.EACCES))
        return fd

    def child_file(self, folder: int, name: str) -> int:
        """A regular file of an open directory, never through a link. Raises `OSError`."""
        descriptor = os.open(name, PATH_ONLY | os.O_NOFOLLOW, dir_fd=folder)
        try:
            about = os.fstat(descriptor)
            if not stat.S_ISREG(about.st_mode) or self._door(descriptor, about.st_dev):
                raise OSError(errno.ENXIO, os.strerror(errno.ENXIO))
            again = _again(descriptor)
            return again if again is not None else _same(os.open(name, READ | os.O_NOFOLLOW, dir_fd=folder), about)
        finally:
            os.close(descriptor)

    def _found(self, path: str | bytes) -> int:
        """Where a path leads, opened without touching it."""
        if self._fd < 0:
            raise UsageError("these file tools were closed")
        raw = checked(path)
        try:
            return self._resolved(raw, PATH_ONLY)
        except OSError as error:
            raise self.refused(error, path) from None

    def _resolved(self, raw: bytes, flags: int) -> int:
        if self._means == "kernel":
            return openat2(self._fd, raw, flags)
        return open_steps(self._fd, raw, None if flags == PATH_ONLY else flags)

    def _reopened(self, descriptor: int, path: str | bytes) -> int:
        try:
            again = _again(descriptor)
            return again if again is not None else _same(self._resolved(checked(path), READ), os.fstat(descriptor))
        except OSError as error:
            raise self.refused(error, path) from None

    # --- judging what was opened ---

    def _wanted(self, fd: int, path: str | bytes, wanted: Literal["file", "directory"]) -> None:
        about = os.fstat(fd)
        door = self._door(fd, about.st_dev)
        if door is not None:
            raise Refusal(f"{shown(path)} is part of {door}, which is not read by file tools", code="not_a_file")
        if stat.S_ISDIR(about.st_mode):
            if wanted == "file":
                raise Refusal(f"{shown(path)} is a directory", code="not_a_file", hint="use list to see what is in it")
        elif not stat.S_ISREG(about.st_mode):
            kind = _kind(about.st_mode)
            raise Refusal(f"{shown(path)} is a {kind}: only regular files are read", code="not_a_file")
        elif wanted == "directory":
            raise Refusal(f"{shown(path)} is a file", code="not_a_directory", hint="use read to see its content")

    def _check_excluded(self, fd: int, path: str | bytes) -> None:
        """Refuses what is excluded under the name that was given, or where it really lies."""
        if self.exclusion is None:
            return
        given = os.path.join(self.path, os.fsdecode(path))
        for place in (given, _place_of(fd) or os.path.realpath(given)):
            if self.exclusion.covering(place, self.path) is not None:
                raise Refusal(f"{shown(path)} is excluded: no model may see it", code="content_excluded")

    def _door(self, fd: int, device: int) -> str | None:
        """The kernel's file system that something lies on, looked up once for each that is met."""
        if device not in self._doors:
            self._doors[device] = kernel_filesystem(fd)
        return self._doors[device]

    def refused(self, error: OSError, path: str | bytes) -> Refusal:
        """What the model is told of an error of the system."""
        name = shown(path)
        match error.errno:
            case errno.EXDEV:
                hint = "absolute paths, '..' beyond the root and links that leave it are refused"
                return Outside(f"{name} leads out of the root", code="outside_root", hint=hint)
            case errno.ENOENT:
                return Refusal(f"there is no {name}", code="not_found", hint=self._near(path))
            case errno.ENOTDIR:
                told = f"there is no {name}: a part of the path is a file, not a directory"
                return Refusal(told, code="not_found", hint="use list on the directory above it")
            case errno.ELOOP:
                told = f"{name} goes through too many links, or through one that is not followed"
                return Refusal(told, code="too_many_links")
            case errno.EACCES | errno.EPERM:
                return Refusal(f"{name} may not be read by this process", code="permission_denied")
            case errno.ENAMETOOLONG:
                return Refusal(f"{name[:80]}… is too long or too deep a path", code="not_found")
        return Refusal(f"{name} cannot be read: {error.strerror}", code="not_readable")

    def _near(self, path: str | bytes) -> str:
        """What stands beside a name that is not there."""
        import difflib

        folder, _, name = checked(path).rstrip(b"/").rpartition(b"/")
        fallback = "use list or glob to see what is there"
        try:
            parent = self._resolved(folder or b".", PATH_ONLY)
        except OSError:
            return f"nor is there {shown(folder)}: {fallback}"
        try:
            beside = os.open(b".", FOLDER | os.O_NOFOLLOW, dir_fd=parent)
            try:
                with os.scandir(beside) as entries:
                    names = [entry.name for entry, _ in zip(entries, range(NEAR_SEEN_MAX), strict=False)]
            finally:
                os.close(beside)
        except OSError:
            return fallback
        finally:
            os.close(parent)
        close = difflib.get_close_matches(os.fsdecode(name), sorted(names), n=NEAR_MAX)
        prefix = os.fsdecode(folder) + "/" if folder else ""
        return f"did you mean {' or '.join(shown(prefix + one) for one in close)}?" if close else fallback


def _place_of(fd: int) -> str | None:
    """Where an open file really lies, if the system says so."""
    try:
        return os.readlink(f"/proc/self/fd/{fd}")
    except OSError:
        return None


def checked(path: str | bytes) -> bytes:
    """A path as bytes. Raises `Refusal` for what no file can be called."""
    try:
        raw = os.fsencode(path)
    except UnicodeEncodeError:
        raise Refusal("the path holds text that is no file name", code="not_found") from None
    if b"\0" in raw:
        raise Refusal(f"{shown(raw)[:80]} holds a NUL, which no file name has", code="not_found")
    if len(raw) > PATH_BYTES_MAX:
        raise Refusal(f"the path is longer than {PATH_BYTES_MAX:,} bytes", code="not_found")
    return raw or b"."


def _again(descriptor: int) -> int | None:
    """The same file opened to be read. Through its descriptor, so that it is the very one that was judged."""
    if not hasattr(os, "O_PATH"):
        return os.dup(descriptor)
    try:
        return os.open(f"/proc/self/fd/{descriptor}", READ)
    except FileNotFoundError:
        return None  # no /proc here


def _same(fd: int, about: os.stat_result) -> int:
    """A second descriptor, if it is of the file that was judged."""
    status = os.fstat(fd)
    if (status.st_dev, status.st_ino) != (about.st_dev, about.st_ino):
        os.close(fd)
        raise OSError(errno.EAGAIN, "it was replaced while it was being opened; try again")
    return fd


def _kind(mode: int) -> str:
    if stat.S_ISFIFO(mode):
        return "pipe"
    if stat.S_ISSOCK(mode):
        return "socket"
    return "link" if stat.S_ISLNK(mode) else "device"
