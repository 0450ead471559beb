"""One git command as a process of its own: it ends in time, or is ended with all that it started."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import IO

COMMAND_S = 300.0
"""How long one command may take."""
HURRY_S = 2.0
"""How long a command may still take once nobody waits for it any more."""
TERM_S = 0.5
"""How long git has to take its lock files away when it is told to end."""
KILL_S = 2.0
"""How long a killed process is waited for: a disk that does not answer may keep it."""
OUTPUT_BYTES_MAX = 16_000_000
UNWANTED = "nobody waits for it any more"


class GitFailed(Exception):
    """A git command did not do what it was to do; the message says what it said."""


class Patience:
    """How long the commands of one piece of work may take. Whoever waited for it may have it hurry, from any thread."""

    def __init__(self) -> None:
        self._until: float | None = None

    def hurry(self) -> None:
        """Nobody waits any more: what is under way has a moment to end."""
        self._until = time.monotonic() + HURRY_S

    @property
    def hurried(self) -> bool:
        return self._until is not None

    def until(self, deadline: float) -> float:
        """The time at which a command with this deadline is ended."""
        return deadline if self._until is None else min(deadline, self._until)


def run(
    args: Sequence[str], *, folder: str, env: Mapping[str, str], patience: Patience, lock: int | None = None
) -> subprocess.CompletedProcess[bytes]:
    """How a command ended. Raises `GitFailed` for one that cannot be run, or that did not end in time. What it says
    goes to files: a pipe would stay open as long as anything that it has started."""
    begun = time.monotonic()
    if patience.until(begun + COMMAND_S) <= begun:
        raise GitFailed(f"git {args[0]} was not run: {UNWANTED}")
    try:
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            process = subprocess.Popen(
                ["git", *args],
                cwd=folder,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                pass_fds=() if lock is None else (lock,),
                start_new_session=True,
            )
            code = _ended(process, args[0], patience, begun)
            return subprocess.CompletedProcess(args, code, _read(out), _read(err))
    except OSError as error:
        raise GitFailed(f"git {args[0]} cannot be run here: {error}") from error


def _read(file: IO[bytes]) -> bytes:
    file.seek(0)
    return file.read(OUTPUT_BYTES_MAX)


def _ended(process: subprocess.Popen[bytes], verb: str, patience: Patience, begun: float) -> int:
    while True:
        left_s = patience.until(begun + COMMAND_S) - time.monotonic()
        if left_s <= 0:
            _end(process)
            why = UNWANTED if patience.hurried else f"it did not end within {COMMAND_S:g} s"
            raise GitFailed(f"git {verb} was stopped: {why}")
        with suppress(subprocess.TimeoutExpired):
            return process.wait(min(left_s, HURRY_S / 4))


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends a command and what it started: gently first, so that it leaves no lock behind."""
    for number, most_s in ((signal.SIGTERM, TERM_S), (signal.SIGKILL, KILL_S)):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(most_s)
            if number == signal.SIGTERM:
                # What it started may be deaf to that; nobody is left in the group otherwise.
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, signal.SIGKILL)
            return
