"""How a supervisor is started: told what to run over a pipe that stays open, and waited for only so long."""

from __future__ import annotations

import errno
import json
import os
import select
import signal
import sys
import time

from . import job_supervisor

START_S = 30.0
"""How long a supervisor may take to say that its job runs."""
SCRIPT = os.path.abspath(job_supervisor.__file__)


def spawned(folder: str, spec: dict[str, object]) -> tuple[int, int, str]:
    """Starts a supervisor: what it is held by, its number, and what went wrong with its job."""
    if not sys.executable:
        raise OSError(2, "this process does not know its Python")
    spec_end, held = os.pipe()
    told, tell_end = os.pipe()
    try:
        pid = os.posix_spawn(
            sys.executable,
            [sys.executable, "-I", "-S", SCRIPT, folder],
            {},
            file_actions=[
                (os.POSIX_SPAWN_DUP2, spec_end, 0),
                (os.POSIX_SPAWN_DUP2, tell_end, 1),
                (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
            ],
        )
    except OSError:
        os.close(held)
        os.close(told)
        raise
    finally:
        os.close(spec_end)
        os.close(tell_end)
    try:
        _write_all(held, json.dumps(spec).encode() + b"\n", time.monotonic() + START_S)
        return held, pid, _answer(told, time.monotonic() + START_S)
    except OSError:
        os.close(held)
        os.kill(pid, signal.SIGKILL)  # a child that nobody has reaped: the number is its own
        os.waitpid(pid, 0)
        raise
    finally:
        os.close(told)


def _answer(told: int, until: float) -> str:
    """What a supervisor says went wrong with its job, on one line."""
    line = b""
    while not line.endswith(b"\n"):
        _wait(told, select.POLLIN, until)
        data = os.read(told, 64 * 1024)
        if not data:
            raise OSError(errno.EIO, "its supervisor did not start")
        line += data
    try:
        return str(json.loads(line)["not_started"])
    except (ValueError, KeyError, TypeError):
        raise OSError(errno.EIO, "its supervisor did not start") from None


def _write_all(fd: int, data: bytes, until: float) -> None:
    os.set_blocking(fd, False)
    rest = memoryview(data)
    while rest:
        _wait(fd, select.POLLOUT, until)
        rest = rest[os.write(fd, rest) :]


def _wait(fd: int, event: int, until: float) -> None:
    """Waits until something can be read or written. `poll`, since numbers of open files may be high."""
    poll = select.poll()
    poll.register(fd, event)
    if not poll.poll(max(0.0, until - time.monotonic()) * 1000):
        raise OSError(errno.ETIMEDOUT, f"its supervisor did not start within {START_S:g} s")
