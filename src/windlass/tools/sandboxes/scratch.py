"""A place for what processes of one sandbox write beside their folder: their own /tmp and home, kept from one process
to the next, seen by no other sandbox, and removed with it.

Whoever uses it holds a lock: this process, and the supervisors of jobs that may outlive it. One that nobody holds any
more (its runtime was killed, say) is removed by the next one that is made. A job that was launched and holds it not
yet has a mark in it, which its supervisor takes away once it does.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import stat
import tempfile
import time

PREFIX = "windlass-sandbox-"
STALE_S = 60.0
"""One that is younger may be just being made."""
SWEPT_MAX = 256
MARK = "launched-"


class Scratch:
    """A folder that only this user can enter."""

    def __init__(self) -> None:
        _sweep()
        self.path = os.path.realpath(tempfile.mkdtemp(prefix=PREFIX))
        self._lock = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        fcntl.flock(self._lock, fcntl.LOCK_SH)
        self.tmp = self._made("tmp")
        self.home = self._made("home")
        self.doors = self._made("doors")
        """Sockets of ours that lead out of the sandbox."""

    def _made(self, name: str) -> str:
        path = os.path.join(self.path, name)
        os.mkdir(path, 0o700)
        return path

    def close(self) -> None:
        """Removes it, unless a job still uses it. Safe twice."""
        fd, self._lock = self._lock, -1
        if fd >= 0:
            os.close(fd)
            _remove(self.path, spare_launched=True)

    def __del__(self) -> None:
        if hasattr(self, "_lock"):
            self.close()


def mark_launched(path: str) -> str:
    """Says that a job is about to be started that uses a scratch place: the mark that its supervisor takes away."""
    mark = os.path.join(path, f"{MARK}{secrets.token_hex(8)}")
    os.close(os.open(mark, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    return mark


def _sweep() -> None:
    """Removes what was left behind by those who were killed."""
    folder = tempfile.gettempdir()
    try:
        names = [name for name in os.listdir(folder) if name.startswith(PREFIX)]
    except OSError:
        return
    for name in names[:SWEPT_MAX]:
        path = os.path.join(folder, name)
        try:
            about = os.lstat(path)
        except OSError:
            continue
        if stat.S_ISDIR(about.st_mode) and about.st_uid == os.getuid() and time.time() - about.st_mtime > STALE_S:
            _remove(path)


def _remove(path: str, *, spare_launched: bool = False) -> None:
    """Removes a scratch place that nobody holds, and perhaps nobody is about to."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if spare_launched and any(name.startswith(MARK) for name in os.listdir(fd)):
            return
        shutil.rmtree(path, ignore_errors=True)
    except OSError:
        return  # somebody does
    finally:
        os.close(fd)
