"""The files of a skill: listed and read beneath one folder, within bounds, and never through a link.

A skill is known by the digest of its whole folder: names, contents, and which files may be run. What git keeps of
itself (`.git`) is left out, and can be neither listed nor read."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from typing import Literal

from windlass.events.values.blocks import Value

FILES_MAX = 1_000
FOLDER_BYTES_MAX = 32 * 1024 * 1024
DEPTH_MAX = 12
PATH_CHARS_MAX = 400
SKIPPED = ".git"

FileKind = Literal["script", "reference", "asset", "other"]
KINDS: dict[str, FileKind] = {"scripts": "script", "references": "reference", "assets": "asset"}


class Unreadable(ValueError):
    """A folder or a file that is not taken: what is wrong, and how to mend it."""

    def __init__(self, code: str, message: str, fix: str, path: str = "", line: int = 0) -> None:
        super().__init__(message)
        self.code = code
        self.fix = fix
        self.path = path
        self.line = line


class SkillFile(Value, frozen=True, kw_only=True):
    """A file of a skill, by its path beneath the skill's folder."""

    path: str
    size: int
    digest: str
    runs: bool = False
    """Whether it may be run as a program."""

    @property
    def kind(self) -> FileKind:
        """What it is for, by the folder that it lies in."""
        return KINDS.get(self.path.partition("/")[0], "other") if "/" in self.path else "other"


def listed(folder: str) -> tuple[SkillFile, ...]:
    """The files of a skill, in the order of their paths. Raises `Unreadable` for a folder that is no plain tree of
    files, or too large."""
    try:
        top = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise Unreadable("folder-unreadable", f"it cannot be read: {error.strerror}", "see its permissions") from None
    room = [FOLDER_BYTES_MAX]
    try:
        files: list[SkillFile] = []
        for file in _beneath(top, "", 0, room):
            files.append(file)
            if len(files) > FILES_MAX:
                raise Unreadable("folder-large", f"it has more than {FILES_MAX} files", "keep fewer in it")
    except OSError as error:
        raise Unreadable("folder-unreadable", f"it cannot be read: {error.strerror}", "see its permissions") from None
    finally:
        os.close(top)
    return tuple(sorted(files, key=lambda file: file.path))


def _beneath(fd: int, inside: str, depth: int, room: list[int]) -> Iterator[SkillFile]:
    for name in sorted(os.listdir(fd)):
        path = f"{inside}/{name}" if inside else name
        if path == SKIPPED:
            continue
        _check_path(path)
        about = os.stat(name, dir_fd=fd, follow_symlinks=False)
        if stat.S_ISDIR(about.st_mode):
            if depth >= DEPTH_MAX:
                raise Unreadable("folder-deep", f"folders nest more than {DEPTH_MAX} deep", "flatten it", path)
            inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=fd)
            try:
                yield from _beneath(inner, path, depth + 1, room)
            finally:
                os.close(inner)
        elif stat.S_ISREG(about.st_mode):
            yield _file(fd, name, path, room)
        else:
            what = "a link" if stat.S_ISLNK(about.st_mode) else "no plain file"
            raise Unreadable("file-kind", f"{path!r} is {what}", "put the file itself there", path)


def _check_path(path: str) -> None:
    if len(path) > PATH_CHARS_MAX or not path.isprintable() or "\\" in path:
        told = f"the path {path!r} is too long or has characters that cannot be shown"
        raise Unreadable("file-name", told, "rename it", path)


def _file(fd: int, name: str, path: str, room: list[int]) -> SkillFile:
    data_digest, size = hashlib.blake2b(digest_size=16), 0
    here = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=fd)
    try:
        about = os.fstat(here)
        if not stat.S_ISREG(about.st_mode):
            raise Unreadable("file-kind", f"{path!r} is no plain file", "put the file itself there", path)
        while piece := os.read(here, 1 << 20):
            data_digest.update(piece)
            size += len(piece)
            room[0] -= len(piece)
            if room[0] < 0:
                told = f"its files have more than {FOLDER_BYTES_MAX >> 20} MiB together"
                raise Unreadable("folder-large", told, "keep less in it", path)
    finally:
        os.close(here)
    return SkillFile(path=path, size=size, digest=data_digest.hexdigest(), runs=bool(about.st_mode & stat.S_IXUSR))


def digest_of(files: tuple[SkillFile, ...]) -> str:
    """The digest that a skill is known by."""
    whole = hashlib.blake2b(b"windlass skill 1\0", digest_size=16)
    for file in files:
        whole.update(f"{file.path}\0{file.size}\0{file.digest}\0{int(file.runs)}\0".encode("utf-8", "surrogateescape"))
    return whole.hexdigest()


def read(folder: str, path: str, most: int) -> bytes:
    """At most so many bytes of a file beneath a folder, and one more if there is more. Raises `Unreadable` for a path
    that leads out of it, through a link, or to something that is no file."""
    parts = path.split("/")
    if os.path.isabs(path) or not path or any(part in ("", ".", "..") for part in parts) or parts[0] == SKIPPED:
        raise Unreadable(
            "file-path", f"{path!r} is no path beneath the skill's folder", "give one such as a/b.md", path
        )
    flags = os.O_RDONLY | os.O_NOFOLLOW
    fds: list[int] = []
    try:
        fds.append(os.open(folder, os.O_RDONLY | os.O_DIRECTORY))
        for part in parts[:-1]:
            fds.append(os.open(part, flags | os.O_DIRECTORY, dir_fd=fds[-1]))
        fds.append(os.open(parts[-1], flags | os.O_NONBLOCK, dir_fd=fds[-1]))
        if not stat.S_ISREG(os.fstat(fds[-1]).st_mode):
            raise Unreadable("file-kind", f"{path!r} is no plain file", "give the path of a file", path)
        return _bytes(fds[-1], most)
    except (OSError, ValueError) as error:
        if isinstance(error, Unreadable):
            raise
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise Unreadable(
            "file-unreadable", f"{path!r} cannot be read: {why}", "give the path of a file", path
        ) from None
    finally:
        for fd in fds:
            os.close(fd)


def _bytes(fd: int, most: int) -> bytes:
    data = b""
    while len(data) <= most:
        piece = os.read(fd, min(1 << 20, most + 1 - len(data)))
        if not piece:
            break
        data += piece
    return data
