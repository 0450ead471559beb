"""Who holds a lease, and whether that process is still there: a dead neighbour's lease need not be waited for.

Liveness only. Safety is the epoch's business: whoever is wrongly thought dead finds its appends refused.
"""

from __future__ import annotations

import os
import pathlib
import re

PATTERN = re.compile(r"@(?P<boot>[0-9a-f-]+):(?P<pid>\d+):(?P<start>\d+)$")


def boot_id() -> str:
    """What tells this machine since its last start from every other; empty where it cannot be said."""
    try:
        return pathlib.Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return ""


def started_at(pid: int) -> str:
    """When a process began, in the kernel's own count; empty where there is no such process."""
    try:
        stat = pathlib.Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return ""
    # The name may hold anything, also parentheses; what follows the last one is numbers.
    fields = stat[stat.rfind(b")") + 2 :].split()
    dead = fields[0] in (b"Z", b"X")
    return "" if dead else fields[19].decode("ascii")


def mark() -> str:
    """What a runner of this process adds to its name; empty where processes cannot be told apart."""
    boot, start = boot_id(), started_at(os.getpid())
    return f"@{boot}:{os.getpid()}:{start}" if boot and start else ""


def gone(runner: str) -> bool:
    """Whether a runner was a process of this machine that is certainly not there any more."""
    found = PATTERN.search(runner)
    if found is None or found["boot"] != boot_id():
        return False
    return started_at(int(found["pid"])) != found["start"]
