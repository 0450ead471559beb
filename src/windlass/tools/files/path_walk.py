"""Opens a path beneath a directory one component at a time, where the kernel has no openat2.

Each step opens one name without following links; links are read and walked by the same rules, so no rename under way
can lead out. It never resolves more than one name at once."""

from __future__ import annotations

import errno
import os
import stat

LINKS_MAX = 40
STEPS_MAX = 4_096
TRAIL_MAX = 200
"""How many directories deep a path may lead; each costs a descriptor while it is walked."""
STEP = getattr(os, "O_PATH", os.O_RDONLY | os.O_NONBLOCK) | os.O_NOFOLLOW | os.O_CLOEXEC
HAS_PATH_ONLY = hasattr(os, "O_PATH")
LINK_ERRORS = (errno.ELOOP, errno.EMLINK)
"""How systems without O_PATH say that O_NOFOLLOW met a link."""


def open_steps(root: int, path: bytes, flags: int | None = None, *, links: bool = True) -> int:
    """A descriptor of `path` beneath the directory `root`; with O_PATH where the system has it, unless other `flags`
    are given for the last step. Raises `OSError` as openat2 does: `EXDEV` where the path leads out, `ELOOP` for any
    link without `links`."""
    trail = [os.dup(root)]  # the directories that we came through, so that '..' needs no name
    last = b"."
    try:
        ahead = _names(path)
        seen = 0
        for _ in range(STEPS_MAX):
            if not ahead:
                break
            name = ahead.pop()
            target = _step(trail, name)
            if target is None:
                last = name
            else:
                seen += 1
                if seen > LINKS_MAX or not links:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
                ahead += _names(target)
        else:
            raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))
        if flags is None:
            return trail.pop()
        return os.open(last, flags | os.O_NOFOLLOW, dir_fd=trail[-2] if len(trail) > 1 else trail[-1])
    finally:
        for fd in trail:
            os.close(fd)


def _names(path: bytes) -> list[bytes]:
    """The components of a path, the next one last. A path that ends in a slash means a directory, hence the dot."""
    if not path:
        raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))
    if path.startswith(b"/"):
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
    names = [name for name in path.split(b"/") if name]
    if path.endswith(b"/"):
        names.append(b".")
    return names[::-1]


def _step(trail: list[int], name: bytes) -> bytes | None:
    """Takes one step; gives the target of a link instead of following it."""
    here = trail[-1]
    if name in (b".", b".."):
        if not stat.S_ISDIR(os.fstat(here).st_mode):
            raise OSError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        if name == b"..":
            if len(trail) == 1:
                raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
            os.close(trail.pop())
        return None
    if len(trail) > TRAIL_MAX:
        raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))
    _refuse_doors(here, name)
    try:
        there = os.open(name, STEP, dir_fd=here)
    except OSError as error:
        if error.errno in LINK_ERRORS:
            return os.readlink(name, dir_fd=here)
        raise
    if not stat.S_ISLNK(os.fstat(there).st_mode):
        trail.append(there)
        return None
    try:
        return os.readlink(b"", dir_fd=there)
    finally:
        os.close(there)


def _refuse_doors(here: int, name: bytes) -> None:
    """Without O_PATH, opening a device may already do something, so it is looked at first."""
    if HAS_PATH_ONLY:
        return
    mode = os.stat(name, dir_fd=here, follow_symlinks=False).st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode)):
        raise OSError(errno.ENXIO, os.strerror(errno.ENXIO))
