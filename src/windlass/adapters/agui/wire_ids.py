"""Ids as AG-UI clients have them. Theirs become ids of commands; ours are made from the log: a restart loses none.

The ids of commands have a colon: no `Idempotency-Key` has one, so nobody can use up the id of somebody's answer.
"""

from __future__ import annotations

SAID, ANSWERED = "agui:m:", "agui:a:"
OURS = "wl-"
MESSAGE_ID_MAX = 150


def said_id(message_id: str) -> str:
    """The command that says a message of the client's."""
    return SAID + message_id


def answer_id(open_id: str) -> str:
    """The command that answers something that was open."""
    return ANSWERED + open_id


def message_id(name: str) -> str:
    """A message that the log holds, by what made it."""
    return OURS + name


def reasoning_id(name: str) -> str:
    """The reasoning before a message."""
    return f"{OURS}{name}.reasoning"


def prompt_message_id(command_id: str, seq: int) -> str:
    """The message of a prompt: the client's own id if the client sent it here."""
    return command_id.removeprefix(SAID) if command_id.startswith(SAID) else message_id(str(seq))
