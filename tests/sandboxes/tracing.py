"""What a program really did, by its system calls: strace around a whole sandbox, read from the moment at which the
program itself begins."""

from __future__ import annotations

import os
import re
import subprocess
from typing import NamedTuple

from windlass.tools.sandboxes.sandbox import Launch

CHANGES = [
    "openat",
    "open",
    "creat",
    "openat2",
    "rename",
    "renameat",
    "renameat2",
    "unlink",
    "unlinkat",
    "mkdir",
    "mkdirat",
    "rmdir",
    "symlink",
    "symlinkat",
    "link",
    "linkat",
    "truncate",
    "mknod",
    "mknodat",
]
REACHES = ["connect", "sendto", "sendmsg", "sendmmsg"]
BIRTHS = ["clone", "clone3", "fork", "vfork"]
CALL = re.compile(r"(\d+) +(\w+)\((.*)\) += (-?\d+)")
OUTER = re.compile(r"/\* (\d+) in strace's PID NS \*/")
QUOTED = re.compile(r'(?:AT_FDCWD|\d+)(?:<([^>]*)>)?, "((?:[^"\\]|\\.)*)"|"((?:[^"\\]|\\.)*)"')


class Call(NamedTuple):
    """One call of the system, and whether it worked."""

    name: str
    arguments: str
    worked: bool

    @property
    def changes(self) -> bool:
        """Whether it changes files, if it works."""
        if self.name in ("openat", "open", "openat2"):
            return bool(re.search(r"O_WRONLY|O_RDWR|O_CREAT|O_TRUNC", self.arguments))
        return self.name in CHANGES

    def paths(self, here: str) -> list[str]:
        """Whole paths that it names, of a program that stays in the folder `here`; where a link leads is none."""
        found = []
        for folder, beneath, alone in QUOTED.findall(self.arguments):
            path = alone or beneath
            found.append(os.path.normpath(os.path.join(folder or here, path)))
        return found[-1:] if self.name in ("symlink", "symlinkat") else found


def traced(launch: Launch, mark: str, log: str) -> list[Call]:
    """Runs a launch to its end; gives the calls of the program whose words hold the mark, and of all it started."""
    wanted = ",".join((*CHANGES, *REACHES, *BIRTHS, "execve", "socket"))
    words = [
        "strace",
        "-f",
        "-qq",
        "-y",
        "--decode-pids=pidns",
        "-s",
        "100000",
        "-o",
        log,
        "-e",
        f"trace={wanted}",
        *launch.argv,
    ]
    done = subprocess.run(
        words, cwd=launch.cwd, env=launch.env, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr[-2_000:]
    with open(log, encoding="utf-8", errors="replace") as file:
        return list(of_program(whole_lines(file.read().splitlines()), mark))


def whole_lines(lines: list[str]) -> list[str]:
    """The lines with those put together that another process interrupted."""
    begun: dict[str, str] = {}
    whole = []
    for line in lines:
        pid = line.split(" ", 1)[0]
        if line.endswith("<unfinished ...>"):
            begun[pid] = line.removesuffix("<unfinished ...>").rstrip()
        elif " resumed>" in line:
            whole.append(begun.pop(pid, pid) + line.partition(" resumed>")[2])
        else:
            whole.append(line)
    return whole


def of_program(lines: list[str], mark: str) -> list[Call]:
    """The calls of those who descend from the one that became the program. Who was born is looked up first: on a busy
    machine a child's first calls are noted before the call that it was born by."""
    found = [(line, *match.groups()) for line in lines if (match := CALL.match(line)) is not None]
    ours: dict[str, int] = {}
    """From which line on each is one of them."""
    for number, (_, pid, name, arguments, result) in enumerate(found):
        begins = name == "execve" and mark in arguments and result == "0" and '"-c", "#' in arguments
        if begins and not any(wrapper in arguments for wrapper in ("confine.py", "supervisor.py", "bwrap")):
            ours.setdefault(pid, number + 1)
    known = -1
    while len(ours) != known:
        known = len(ours)
        for number, (line, pid, name, _, result) in enumerate(found):
            if name in BIRTHS and number >= ours.get(pid, len(found)):
                outer = OUTER.search(line)  # in a namespace of its own a process has two numbers
                ours.setdefault(outer.group(1) if outer else result, 0)
    return [
        Call(name, arguments, not result.startswith("-"))
        for number, (_, pid, name, arguments, result) in enumerate(found)
        if number >= ours.get(pid, len(found))
    ]
