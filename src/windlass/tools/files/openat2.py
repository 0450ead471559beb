"""The two system calls that Python does not offer: openat2, which the kernel itself holds beneath a directory, and
fstatfs, which says what kind of file system a descriptor lies on. It decides nothing."""

from __future__ import annotations

import errno
import functools
import os
import platform
import sys
from typing import Any

OPENAT2 = 437
"""The number is the same on every architecture but alpha."""
NO_MAGICLINKS = 0x02
NO_SYMLINKS = 0x04
BENEATH = 0x08
RENAME_NOREPLACE = 0x01
TRIES_MAX = 64
"""How often the kernel may say that the tree was being renamed just then."""

KERNEL_FILESYSTEMS = {
    0x9FA0: "procfs",
    0x62656572: "sysfs",
    0x64626720: "debugfs",
    0x74726163: "tracefs",
    0x73636673: "securityfs",
    0x0027E0EB: "cgroup",
    0x63677270: "cgroup2",
    0xCAFE4A11: "bpf",
    0xDE5E81E4: "efivarfs",
    0x1CD1: "devpts",
    0xF97CFF8C: "selinuxfs",
    0x62656570: "configfs",
    0x6165676C: "pstorefs",
    0x42494E4D: "binfmt_misc",
}
"""File systems whose files are doors into the kernel and into other processes, not data."""


@functools.cache
def _library() -> Any:
    import ctypes

    library = ctypes.CDLL(None, use_errno=True)
    library.syscall.restype = ctypes.c_long
    library.syscall.argtypes = [ctypes.c_long, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_size_t]
    library.fstatfs.restype = ctypes.c_int
    library.fstatfs.argtypes = [ctypes.c_int, ctypes.c_void_p]
    return library


def openat2(folder: int, path: bytes, flags: int, *, links: bool = True) -> int:
    """Opens `path` beneath the directory `folder`. Raises `OSError`: `EXDEV` where the path leads out of it, `ELOOP`
    for magic links and for too many links; for any link at all without `links`."""
    import ctypes

    resolve = BENEATH | NO_MAGICLINKS | (0 if links else NO_SYMLINKS)
    how = (ctypes.c_uint64 * 3)(flags | os.O_CLOEXEC, 0, resolve)
    code = 0
    for _ in range(TRIES_MAX):
        ctypes.set_errno(0)
        descriptor = _library().syscall(OPENAT2, folder, path, ctypes.byref(how), ctypes.sizeof(how))
        if descriptor >= 0:
            return int(descriptor)
        code = ctypes.get_errno()
        if code not in (errno.EAGAIN, errno.EINTR):
            break
    raise OSError(code, os.strerror(code))


def rename_new(folder: int, name: bytes, target: int, new_name: bytes) -> bool:
    """Renames within two open directories, unless something has the new name; False if this system cannot promise that.
    Raises `OSError`, `EEXIST` if the name is taken."""
    import ctypes

    rename = getattr(_library(), "renameat2", None)
    if rename is None:
        return False
    ctypes.set_errno(0)
    if rename(folder, name, target, new_name, ctypes.c_uint(RENAME_NOREPLACE)) == 0:
        return True
    code = ctypes.get_errno()
    if code in (errno.ENOSYS, errno.EINVAL):
        return False  # the file system does not know the flag
    raise OSError(code, os.strerror(code))


def has_openat2(folder: int) -> bool:
    """Whether this kernel has the call and lets us use it; some containers forbid what they do not know."""
    if sys.platform != "linux" or platform.machine() == "alpha":
        return False
    try:
        os.close(openat2(folder, b".", os.O_PATH | os.O_DIRECTORY))
    except OSError as error:
        return error.errno not in (errno.ENOSYS, errno.EPERM, errno.EINVAL)
    return True


def kernel_filesystem(fd: int) -> str | None:
    """The name of the kernel's file system that a descriptor lies on; None for one that keeps data."""
    if sys.platform != "linux":
        return None
    import ctypes

    about = (ctypes.c_ulong * 64)()
    if _library().fstatfs(fd, ctypes.byref(about)) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return KERNEL_FILESYSTEMS.get(about[0] & 0xFFFFFFFF)
