"""Who holds a lease, and whether that process is still there: a dead neighbour's lease need not be waited for.

Liveness only. Safety is the epoch's business: whoever is wrongly thought dead finds its appends refused.
"""

from __future__ import annotations

import os
import pathlib
import re

from windlass.store.runner_names import Whereabouts, process_of, runner_name, whereabouts


def room() -> str:
    """What tells the processes that can be seen from here from all others: this machine since its last start, and the
    namespace of process numbers, of which each container has its own. Empty if it cannot be said."""
    try:
        boot = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        numbers = re.search(r"\d+", os.readlink("/proc/self/ns/pid"))
    except OSError:
        return ""
    return f"{boot}-{numbers[0]}" if numbers else ""


def started_at(pid: int) -> str | None:
    """When a process began, in the kernel's own count: empty if it is not there, None if that cannot be said."""
    try:
        stat = pathlib.Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return ""
    except OSError:
        return None
    # The name may hold anything, also parentheses; what follows the last one is numbers.
    fields = stat[stat.rfind(b")") + 2 :].split()
    dead = fields[0] in (b"Z", b"X")
    return "" if dead else fields[19].decode("ascii")


def named(runner_id: str) -> str:
    """The name of a runner of this process, which says where it is as far as that can be said."""
    import socket

    pid = os.getpid()
    where = Whereabouts(host=socket.gethostname(), room=room(), pid=pid, start=started_at(pid) or "")
    return runner_name(runner_id, where)


def gone(runner: str) -> bool:
    """Whether a runner was a process of this machine that is certainly not there any more."""
    where = whereabouts(runner)
    if where.pid is None or not is_here(where):
        return False
    return started_at(where.pid) not in (None, where.start)


def is_here(where: Whereabouts) -> bool:
    """Whether a process would be seen from here, under its number."""
    return bool(where.room) and where.room == room()


def told(runner: str) -> str:
    """A runner in words: a process of this machine by its number alone, one of another with its host."""
    where = whereabouts(runner)
    if not is_here(where):
        return process_of(runner)
    return "another runtime of this process" if where.pid == os.getpid() else process_of(runner, host=False)
