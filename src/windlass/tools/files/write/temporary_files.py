"""Files that are put in place at once: written under a name of their own beside the target, synced, then renamed.

What a process that was killed left behind is told by its name, is never taken for anything else, and goes with the next
write into that directory.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import secrets
import socket
import stat
import time

from windlass.tools.files.openat2 import rename_new

PREFIX = ".windlass-"
SUFFIX = ".part"
OURS = re.compile(r"\.windlass-([0-9a-f]{8})-(\d{1,10})-[0-9a-f]{16}\.part")
STALE_S = 3_600
"""The age from which such a file is nobody's, whoever made it."""
SWEPT_MAX = 2_000
"""Names in a directory that are looked at for stale files."""
MODE_KEPT = 0o777
"""What a file that takes another one's place has of its mode: never setuid, setgid or sticky."""


def write_beside(folder: int, data: bytes, mode: int | None) -> str:
    """A complete, synced file in a directory, under a name that nobody else has. Raises `OSError`, and leaves nothing
    behind then."""
    name = f"{PREFIX}{_host()}-{os.getpid()}-{secrets.token_hex(8)}{SUFFIX}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(name, flags, 0o666 if mode is None else 0o600, dir_fd=folder)
    try:
        with open(fd, "wb") as file:
            file.write(data)
            file.flush()
            if mode is not None:
                os.fchmod(file.fileno(), mode & MODE_KEPT)
            os.fsync(file.fileno())
    except BaseException:
        drop(folder, name)
        raise
    return name


def put(folder: int, name: str, data: bytes, mode: int | None) -> None:
    """Puts a file in a directory, in the place of the one that is there: at once, never in part. Raises `OSError`."""
    made = write_beside(folder, data, mode)
    try:
        os.rename(made, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        drop(folder, made)
        raise
    os.fsync(folder)


def put_new(folder: int, made: str, target: int, name: str) -> None:
    """Gives a file another name, which nothing may have yet. Raises `FileExistsError` if something has."""
    if rename_new(folder, os.fsencode(made), target, os.fsencode(name)):
        return
    os.link(made, name, src_dir_fd=folder, dst_dir_fd=target, follow_symlinks=False)
    os.unlink(made, dir_fd=folder)


def drop(folder: int, name: str) -> None:
    """Removes a file of ours, if it is still there."""
    with contextlib.suppress(OSError):
        os.unlink(name, dir_fd=folder)


def mode_of(name: str, folder: int) -> int | None:
    """The permissions of the regular file that is there, if one is."""
    try:
        about = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return None
    return about.st_mode & MODE_KEPT if stat.S_ISREG(about.st_mode) else None


def sweep(folder: int) -> int:
    """Removes what killed processes left in a directory; says how much that was."""
    gone = 0
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry, _ in zip(entries, range(SWEPT_MAX), strict=False):
            match = OURS.fullmatch(entry.name)
            if match is not None and _is_stale(entry, match[1], int(match[2])):
                drop(folder, entry.name)
                gone += 1
    return gone


def _is_stale(entry: os.DirEntry[str], host: str, pid: int) -> bool:
    about = entry.stat(follow_symlinks=False)
    if not stat.S_ISREG(about.st_mode):
        return False
    return time.time() - about.st_mtime > STALE_S or (host == _host() and not _lives(pid))


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


def _host() -> str:
    return hashlib.blake2b(socket.gethostname().encode(), digest_size=4).hexdigest()
