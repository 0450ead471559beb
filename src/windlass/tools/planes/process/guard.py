"""The first process of a worker: it starts the worker beside itself, runs no code of others, and ends everything that
the worker left behind when the worker ends, or when nobody holds the other end of its input any more.

It is run as a file, by a bare interpreter, and imports only the standard library and what such programs share until it
has forked. The runtime that
starts it has many threads and never forks; this process has one, so that it can.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import signal
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING or __package__:
    from windlass.tools.processes import process_tree
else:
    shared = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "processes")
    sys.path.insert(0, shared)
    import process_tree

    sys.path.remove(shared)

LOOK_MS = 250
"""How often the processes of a worker are counted, and their end is looked for on systems that do not tell."""
CLEAR_S = 5.0
"""How long what is left is killed; a process that hangs in the system itself is left to it."""
BLIND_CLEAR_S = 0.2
"""The same in a place that shows no processes, where nobody can be killed but the worker's group."""
TOO_MANY = 120
"""The exit status that says that there were more processes than allowed."""
BY_SIGNAL = 128
"""Added to the number of the signal that ended a worker."""
LAST_WORD = b"\0windlass-worker-ended "
"""Begins the last line of all that is printed, which says how the worker ended: what started this process may stand
behind others, and not see its exit status."""


def main() -> None:
    """Starts the worker and waits for its end, or for the end of whoever wants it."""
    given = json.loads(sys.argv[1])
    process_tree.adopt_orphans()
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    process_tree.hear_signals()
    guard, worker = os.getpid(), os.fork()
    if worker == 0:
        _become_worker(guard, given)
    os.close(1)
    status = 1
    try:
        status = _watched(worker, woken, given["processes_max"])
    finally:
        clear(worker)
        with contextlib.suppress(OSError):
            os.write(2, b"\n" + LAST_WORD + str(status).encode() + b"\n")
    os._exit(status)


def _become_worker(guard: int, given: dict[str, object]) -> None:
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setpgid(0, 0)
    process_tree.die_with_parent()
    process_tree.wear(int(str(given["mark"])))
    if os.getppid() != guard:
        os._exit(1)
    limits = given["limits"]
    assert isinstance(limits, dict), "the plane wrote it"
    for name, most in limits.items():
        resource.setrlimit(getattr(resource, name), (most, most))
    receives, sends = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)  # what a tool prints is never taken for a message
    os.close(nothing)
    paths = given["paths"]
    assert isinstance(paths, list), "the plane wrote it"
    sys.path[:] = paths
    del sys.argv[1:]
    from windlass.tools.planes.process.worker import serve

    serve(receives, sends, guard)
    os._exit(0)


def _watched(worker: int, woken: int, processes_max: int) -> int:
    """Waits for the worker's end; gives the status to end with."""
    held = select.poll()
    held.register(0, 0)  # nothing but its end: the worker reads it
    held.register(woken, select.POLLIN)
    while True:
        status = _reaped(worker)
        if status is not None:
            return status
        events = dict(held.poll(LOOK_MS))
        if 0 in events:
            return _reaped(worker) or 0
        if woken in events:
            os.read(woken, 4096)
        elif _has_children(worker) and len(process_tree.descendants(os.getpid())) > processes_max:
            return TOO_MANY


def _reaped(worker: int) -> int | None:
    """Takes note of whoever has ended: strangers too, who were left to this process by those who started them."""
    while True:
        try:
            pid, code = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return 0
        if pid == 0:
            return None
        if pid == worker:
            ended = os.waitstatus_to_exitcode(code)
            return ended if ended >= 0 else BY_SIGNAL - ended


def clear(worker: int) -> None:
    """Kills whatever descends from this process until nothing does. In a place that shows no processes that is the
    worker's group; whatever confines it there sees to the rest."""
    process_tree.send(-worker, signal.SIGKILL)
    process_tree.end_descendants(CLEAR_S if process_tree.all_processes() else BLIND_CLEAR_S)


def _has_children(pid: int) -> bool:
    """Whether a process, or this one beside it, has started any: a short look, so that nothing is counted for those
    which never do."""
    try:
        tasks = os.listdir(f"/proc/{pid}/task")
        lists = [f"/proc/{pid}/task/{task}/children" for task in tasks]
        own = f"/proc/{os.getpid()}/task/{os.getpid()}/children"
        return any(_content(path) for path in lists) or len(_content(own).split()) > 1
    except OSError:
        return True


def _content(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


if __name__ == "__main__":
    main()
