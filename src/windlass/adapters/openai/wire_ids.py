"""Ids as clients of OpenAI's have them: made from session and seq, so that a restart loses none."""

from __future__ import annotations

import re

RESPONSE = re.compile(r"resp_(?P<session>.{1,200})\.(?P<first>[0-9]{1,15})\.(?P<last>[0-9]{1,15})\Z", re.ASCII)
CALL = "call_"


def response_id(session: str, first: int, last: int) -> str:
    """The response that the commands in these records of a session began."""
    return f"resp_{session}.{first}.{last}"


def read_response_id(name: str) -> tuple[str, int, int] | None:
    """The session and the records of a response; None for what is no id of one."""
    match = RESPONSE.match(name)
    return (match["session"], int(match["first"]), int(match["last"])) if match is not None else None


def completion_id(session: str, first: int, last: int) -> str:
    """The chat completion that the commands in these records of a session began."""
    return f"chatcmpl-{session}.{first}.{last}"


def open_id(session: str, name: str) -> str:
    """Something of a session that a client is to answer: a call, a permission, a question."""
    return f"{CALL}{session}:{name}"


def read_open_id(name: str) -> tuple[str, str] | None:
    """The session, and what it calls the thing; None for what is no such id."""
    session, colon, own = name.removeprefix(CALL).rpartition(":")
    return (session, own) if name.startswith(CALL) and colon and session and own else None
