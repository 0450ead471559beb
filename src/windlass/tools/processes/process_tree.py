"""Processes beneath this one: found, told apart, marked and ended.

It imports the standard library only, and little of it: programs that are run as files load it by where it lies.
"""

from __future__ import annotations

import os
import signal
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:  # the modules themselves take too long to be loaded
    from collections.abc import Callable
    from typing import Any

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
PAUSE_S = 0.002
PARENT_FIELD = 1
START_FIELD = 19
MARK_LEAST = 1 << 60
MARKS = {"worker": (15, b"Max realtime timeout"), "command": (10, b"Max file locks")}
"""What a mark is written into, by whom it marks: limits that limit nothing today (the longest time at real-time
priority, of some ten thousand years, and a number of locks that Linux stopped to count long ago), each with its number
there and its line in /proc. Two, so that a command keeps the mark of the worker that runs it."""


# --- what the system is asked for ---


def adopt_orphans() -> None:
    """Has the descendants of this process become its children when their own parents end, on systems that can."""
    _prctl(PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent() -> None:
    """Has this process killed when its parent ends, on systems that can."""
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def hear_signals() -> None:
    """Lets every signal through, whatever whoever started this process held back: who waits to be told of the end of a
    child would not be."""
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def default_signals() -> None:
    """Has every signal treated as a program expects it, whatever whoever started this process ignored or held back."""
    for number in signal.valid_signals():
        if signal.getsignal(number) not in (signal.SIG_DFL, None):
            signal.signal(number, signal.SIG_DFL)
    hear_signals()


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


# --- marks ---


def mark_of(token: str) -> int:
    """The mark that belongs to a token."""
    return MARK_LEAST + (int.from_bytes(token.encode()[:64], "big") % (MARK_LEAST - 1))


def wear(mark: int, kind: str = "worker") -> None:
    """Marks this process and all that it starts, whatever becomes of their environment, session and open files. Whoever
    may not set the mark, or is on another system than Linux, goes without."""
    if sys.platform != "linux":
        return
    try:
        import resource

        resource.setrlimit(MARKS[kind][0], (mark, mark))
    except (ImportError, ValueError, OSError):
        return


def marked(mark: int, kind: str = "worker") -> list[int]:
    """The processes that wear a mark, but for this one."""
    processes = []
    beginning = MARKS[kind][1]
    for pid in all_processes():
        worn = next((line for line in _content(f"/proc/{pid}/limits").splitlines() if line.startswith(beginning)), b"")
        if str(mark).encode() in worn.split() and pid != os.getpid() and is_alive(pid):
            processes.append(pid)
    return processes


def end_marked(mark: int, within_s: float, kind: str = "worker") -> bool:
    """Kills whoever wears a mark until nobody does; says whether that came to an end."""
    until = time.monotonic() + within_s
    while left := marked(mark, kind):
        _kill(left)
        if time.monotonic() >= until:
            return False
        time.sleep(PAUSE_S)
    return True


# --- who is there ---


def all_processes() -> list[int]:
    """Every process that the system shows here."""
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return []


def descendants(root: int) -> list[int]:
    """The processes beneath one that have not ended, as far as the system says."""
    children: dict[int, list[int]] = {}
    dead: set[int] = set()
    for pid in all_processes():
        fields = stat_of(pid)
        if fields is not None:
            children.setdefault(int(fields[PARENT_FIELD]), []).append(pid)
            if fields[0] in "ZX":
                dead.add(pid)
    below: list[int] = []
    waiting = [root]
    while waiting:
        those = children.get(waiting.pop(), [])
        waiting += those
        below += those
    return [pid for pid in below if pid not in dead]


def stat_of(pid: int) -> list[str] | None:
    """The fields of a process behind its name, the first of them its state; None if there is no such process."""
    fields = _content(f"/proc/{pid}/stat").rpartition(b")")[2].decode().split()
    return fields if len(fields) > START_FIELD else None


def is_alive(pid: int) -> bool:
    """Whether a process is there and has not ended."""
    fields = stat_of(pid)
    return fields is not None and fields[0] not in "ZX"


def identity(pid: int) -> dict[str, Any]:
    """What tells a process from a later one with the same number."""
    fields = stat_of(pid)
    return {"pid": pid, "start": fields[START_FIELD] if fields is not None else "", "boot": boot()}


def boot() -> str:
    """What tells one start of the machine from another."""
    return _content("/proc/sys/kernel/random/boot_id").decode().strip()


# --- how they end ---


def end_descendants(within_s: float, reaped: Callable[[int, int], None] | None = None) -> bool:
    """Kills and reaps whoever descends from this process until nobody does; says whether that came to an end. `reaped`
    is told of each child that ended, with its status."""
    until = time.monotonic() + within_s
    while True:
        _kill(descendants(os.getpid()))
        try:
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                if reaped is not None:
                    reaped(*ended)
        except ChildProcessError:
            return True
        if time.monotonic() >= until:
            return False
        time.sleep(PAUSE_S)


def send(pid: int, number: int) -> None:
    """Sends a signal to a process, or to a group by its negative number, that may be gone."""
    try:
        os.kill(pid, number)
    except OSError:
        return


def _kill(pids: list[int]) -> None:
    """Stopped first: who is stopped starts no others."""
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for pid in pids:
            send(pid, number)


def _content(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""
