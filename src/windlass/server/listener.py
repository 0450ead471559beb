"""Where a server listens: an address, or a unix socket that its owner alone can reach."""

from __future__ import annotations

import errno
import os
import socket
import stat

from windlass.events.errors import UsageError

BACKLOG = 512
SOCKET_PATH_MAX = 100
"""Bytes of a socket's path; the kernel takes hardly more."""


def listen_on_address(host: str, port: int) -> socket.socket:
    """A socket that listens on an address. Raises `UsageError` if that cannot be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With its protocol named, asyncio sees that it is TCP and sends what is small without delay.
    made = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((host, port))
        made.listen(BACKLOG)
    except OSError as error:
        made.close()
        raise UsageError(f"cannot listen on {host} port {port}: {error.strerror or error}") from None
    made.setblocking(False)
    return made


def listen_on_path(path: str) -> socket.socket:
    """A unix socket for its owner alone. One that a dead server left is replaced. Raises `UsageError`."""
    if len(os.fsencode(path)) > SOCKET_PATH_MAX:
        raise UsageError(
            f"the path of a socket has at most {SOCKET_PATH_MAX} bytes: choose a shorter one than {path!r}"
        )
    _remove_dead(path)
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        made.bind(path)
        made.listen(BACKLOG)
    except OSError as error:
        made.close()
        raise UsageError(f"cannot listen on {path!r}: {error.strerror or error}") from None
    finally:
        os.umask(before)
    made.setblocking(False)
    return made


def _remove_dead(path: str) -> None:
    try:
        if not stat.S_ISSOCK(os.lstat(path).st_mode):
            raise UsageError(f"{path!r} is there and is no socket: choose another path")
    except FileNotFoundError:
        return
    except OSError as error:
        raise UsageError(f"{path!r}: {error.strerror}") from None
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asked:
        asked.settimeout(1.0)
        try:
            asked.connect(path)
        except OSError as error:
            if error.errno == errno.ECONNREFUSED:
                os.unlink(path)
                return
            raise UsageError(f"{path!r} cannot be used: {error.strerror or error}") from None
    raise UsageError(f"a server listens on {path!r} already: stop it, or choose another path")
