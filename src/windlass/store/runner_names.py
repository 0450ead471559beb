"""How a runner's name says where its process is: `ID/HOST@ROOM:PID:START`, each part only if it is known. `ROOM` is
one machine since its last start, seen from one process namespace. Pure; any other name is a good name too."""

from __future__ import annotations

import re

import msgspec

HOST_CHARS_MAX = 40
"""How much of a host's name a runner's name holds."""

_PATTERN = re.compile(r"(?:/(?P<host>[\w.-]+))?(?:@(?P<room>[0-9a-f-]+):(?P<pid>\d{1,10}):(?P<start>\d+))?\Z", re.ASCII)
_ODD = re.compile(r"[^\w.-]", re.ASCII)


class Whereabouts(msgspec.Struct, frozen=True, kw_only=True):
    """Where a runner's process is, as far as its name says; empty and None are unknown."""

    host: str = ""
    room: str = ""
    pid: int | None = None
    start: str = ""


def runner_name(runner_id: str, where: Whereabouts) -> str:
    """The name of a runner, from which `whereabouts` reads the rest again."""
    host = _ODD.sub("-", where.host)[:HOST_CHARS_MAX]
    process = f"@{where.room}:{where.pid}:{where.start}" if where.room and where.pid and where.start else ""
    return f"{runner_id}{f'/{host}' if host else ''}{process}"


def whereabouts(runner: str) -> Whereabouts:
    """What a runner's name says, of whatever form it is."""
    parts = _PATTERN.search(runner)
    if parts is None:
        return Whereabouts()
    pid = int(parts["pid"]) if parts["pid"] else None
    return Whereabouts(host=parts["host"] or "", room=parts["room"] or "", pid=pid, start=parts["start"] or "")


def process_of(runner: str, *, host: bool = True) -> str:
    """A runner in words for people: its process and its host, else its name."""
    where = whereabouts(runner)
    process = f"process {where.pid}" if where.pid is not None else "a process" if where.host else ""
    if not process:
        return repr(runner)
    return f"{process} on {where.host}" if where.host and (host or where.pid is None) else process
