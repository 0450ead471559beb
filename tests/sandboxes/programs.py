"""Programs that the tests of sandboxes run, and ways to see what became of them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pathlib
import signal
import sys
from collections.abc import Iterator
from typing import Any

import msgspec

from windlass.tools.sandboxes.sandbox import Process, ProcessResult

PATIENCE_S = 60.0

DAEMON = """
import os, sys, time
inner, outer = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.setsid()
        os.write(outer, str(os.getpid()).encode())
        for n in range(3): os.close(n)
        time.sleep(600)
    os._exit(0)
daemon = os.read(inner, 100).decode()
open("pids", "w").write(f"{os.getpid()} {daemon}\\n")
END
"""


def script(text: str, **more: Any) -> Process:
    """A program in Python."""
    return Process(argv=(sys.executable, "-c", text), **more)


def shell(text: str, **more: Any) -> Process:
    """A program for the shell."""
    return Process(argv=("/bin/sh", "-c", text), **more)


async def appeared(path: pathlib.Path) -> str:
    """The content of a file, once there is a whole line."""
    async with asyncio.timeout(PATIENCE_S):
        while not (text := _content(path)).endswith("\n"):
            await asyncio.sleep(0.01)
    return text


async def flooded(box: Any, process: Process, *more: Any) -> ProcessResult:
    """Runs a program that never stops writing until its time is over: a longer one if it was over before it began."""
    for timeout_ms in (400, 2_000, 10_000, 60_000):
        result: ProcessResult = await box.run(msgspec.structs.replace(process, timeout_ms=timeout_ms), *more)
        assert result.timed_out
        if result.stdout.size:
            break
    return result


def _content(path: pathlib.Path) -> str:
    return path.read_text() if path.exists() else ""


async def gone(pid: int) -> None:
    """Waits until a process is no more."""
    async with asyncio.timeout(PATIENCE_S):
        while alive(pid):
            await asyncio.sleep(0.01)


def alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        os.kill(pid, 0)
        stat = pathlib.Path(f"/proc/{pid}/stat")
        return not (stat.exists() and stat.read_text().rpartition(")")[2].split()[0] == "Z")
    except (ProcessLookupError, FileNotFoundError):
        return False


@contextlib.contextmanager
def odd_signals() -> Iterator[None]:
    """Ignores and holds back signals, as whoever started this program may have done before (`nohup`, a launcher of
    jobs, a shell without job control): threads and processes that begin meanwhile inherit it."""
    held = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGCHLD, signal.SIGTERM, signal.SIGUSR1))
    ignored = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGQUIT, signal.SIGUSR2)}
    try:
        yield
    finally:
        for number, handler in ignored.items():
            signal.signal(number, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, held)
