"""The lock of the JSON-lines store: one process writes at a time. Nobody waits for it without an end, and whoever gives
up is told which process has it."""

from __future__ import annotations

import fcntl
import os
import pathlib
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager

from windlass.events.errors import StoreError

from .disk import PLAIN, PRIVATE_FILE

LOCK_WAIT_S = 10.0
"""How long a write, or opening the store, waits for another process."""
LOCK_LOOK_S = 0.002
LOCK_LOOKS_S = 0.05
"""After how long it is tried again: at first, and at most."""


class StoreLock:
    """The lock file, open. Its first bytes count the changes; see `Directory`."""

    def __init__(self, path: pathlib.Path, *, read_only: bool = False) -> None:
        self._path = path
        flags = os.O_RDONLY if read_only else os.O_RDWR | os.O_CREAT
        self.handle = os.open(path, flags | PLAIN, PRIVATE_FILE)

    def try_once(self) -> bool:
        """Takes the lock if nobody has it."""
        try:
            fcntl.flock(self.handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def take(self) -> None:
        """Takes the lock, or raises `StoreError` with the name of the process that has had it for too long."""
        until = time.monotonic() + LOCK_WAIT_S
        pause = LOCK_LOOK_S
        while not self.try_once():
            if time.monotonic() >= until:
                raise StoreError(self._held())
            time.sleep(pause)
            pause = min(2 * pause, LOCK_LOOKS_S)

    def give(self) -> None:
        fcntl.flock(self.handle, fcntl.LOCK_UN)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Has the lock while something is done."""
        self.take()
        try:
            yield
        finally:
            self.give()

    def close(self) -> None:
        """Lets the file go, and the lock with it."""
        os.close(self.handle)

    def _held(self) -> str:
        holders = [pid for pid in holders_of(self.handle) if pid != os.getpid()]
        who = f"process {holders[0]}" if holders else "another process"
        return (
            f"{who} has had the lock of the store {str(self._path.parent)!r} for {LOCK_WAIT_S:.0f} s: "
            "wait until it is done, or end it if it hangs"
        )


def holders_of(handle: int) -> list[int]:
    """The processes that hold a lock on a file, as the system lists them; none if it does not say."""
    status = os.fstat(handle)
    place = re.compile(rf"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}")
    try:
        lines = pathlib.Path("/proc/locks").read_text("ascii").splitlines()
    except OSError:
        return []
    # "1: FLOCK  ADVISORY  WRITE 4711 fd:00:1234 0 EOF"; those who wait have an arrow behind the number.
    fields = [line.split() for line in lines]
    return [int(each[4]) for each in fields if each[1] == "FLOCK" and place.fullmatch(each[5])]
