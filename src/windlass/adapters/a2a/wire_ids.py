"""Ids as A2A clients have them. A context is a session; a task is named by the record that began it; the id of a
message becomes that of its command, so that a message which is sent twice is taken once.

The ids of commands have a colon: no `Idempotency-Key` has one, so nobody can use up the id of somebody's answer.
"""

from __future__ import annotations

import hashlib
import re

TASK = re.compile(r"(?P<session>.{1,200})\.(?P<seq>[0-9]{1,15})\Z", re.ASCII)
BEGAN, SAID, ANSWERED, CANCELLED = "a2a:t:", "a2a:m:", "a2a:a:", "a2a:c:"
MESSAGE_ID_MAX = 150


def task_id(session: str, seq: int) -> str:
    """The task that the prompt in this record began."""
    return f"{session}.{seq}"


def read_task_id(name: str) -> tuple[str, int] | None:
    """The session and the record of a task; None for what is no id of one."""
    match = TASK.match(name)
    return (match["session"], int(match["seq"])) if match is not None else None


def context_id(agent: str, caller: str, message: bytes) -> str:
    """The context of a message that names none: the same for the same message of the same caller."""
    digest = hashlib.sha256(b"\0".join((agent.encode(), caller.encode(), message))).hexdigest()
    return f"a2a-{digest[:32]}"


def message_id(command_id: str, seq: int) -> str:
    """The id of a message that the log holds: the client's own if the client sent it here."""
    for kind in (BEGAN, SAID):
        if command_id.startswith(kind):
            return command_id.removeprefix(kind)
    return f"wl-{seq}"
