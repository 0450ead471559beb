"""Ids are derived, not drawn: from the seq at which a thing began, so a replay gives the same ones."""

from __future__ import annotations

import hashlib

ID_CHARS_MAX = 200
"""The longest id of a session or a command."""


def run_id(seq: int) -> str:
    """The run that the `run.started` at this seq opened."""
    return f"r{seq}"


def turn_id(seq: int) -> str:
    """The turn that the `turn.started` at this seq opened."""
    return f"t{seq}"


def request_id(seq: int) -> str:
    """The model request that the `model.requested` at this seq intends."""
    return f"m{seq}"


def call_id(seq: int, ordinal: int) -> str:
    """Call number `ordinal` of the reply (or command) at this seq."""
    return f"c{seq}.{ordinal}"


def permission_id(seq: int) -> str:
    """The request that the `permission.requested` at this seq made."""
    return f"p{seq}"


def question_id(seq: int) -> str:
    """The question that the `question.requested` at this seq asked."""
    return f"q{seq}"


def timer_id(seq: int) -> str:
    """The timer that the `timer.set` at this seq set."""
    return f"w{seq}"


def prompt_id(seq: int) -> str:
    """The prompt received at this seq."""
    return f"i{seq}"


def signal_id(seq: int) -> str:
    """The signal received at this seq."""
    return f"s{seq}"


def grant_id(seq: int) -> str:
    """The standing approval that followed from the event at this seq."""
    return f"g{seq}"


def child_id(session: str, origin: str) -> str:
    """The child session that a call of this session (its origin) is carried out by."""
    return f"{session}~{origin}"


def _of_child(word: str, child: str, seq: int | None = None) -> str:
    """The id of a message about a child. A child whose own id is nearly as long as an id may be is named by a digest in
    it, which begins with a sign that no call's name begins with."""
    more = "" if seq is None else f":{seq}"
    whole = f"{word}:{child}{more}"
    if len(whole) <= ID_CHARS_MAX:
        return whole
    return f"{word}:={hashlib.blake2b(child.encode(), digest_size=16).hexdigest()}{more}"


def child_end_id(child: str) -> str:
    """The command by which a child's end reaches its parent, once."""
    return _of_child("finished", child)


def child_settled_id(child: str) -> str:
    """The command by which a child that has ended says, once, that all below it have ended too."""
    return _of_child("settled", child)


def child_task_id(child: str) -> str:
    """The command by which a child gets its task, once."""
    return _of_child("task", child)


def child_moved_id(child: str, seq: int) -> str:
    """The command by which a child's parent learns how it gets on."""
    return _of_child("moved", child, seq)


def child_stop_id(child: str, seq: int) -> str:
    """The command by which a child is stopped by what its parent decided at this seq."""
    return _of_child("stop", child, seq)


def child_told_id(child: str, seq: int) -> str:
    """The command by which a child is told what its parent said at this seq."""
    return _of_child("told", child, seq)


def child_grant_id(child: str, seq: int) -> str:
    """The command by which a child gets what its parent granted it at this seq."""
    return _of_child("granted", child, seq)


def message_id(session: str, call: str) -> str:
    """The command by which another session is told what a call of this one says."""
    return _of_child("message", child_id(session, call))


def below(call: str, name: str) -> str:
    """An id of a child, or of one below it, as the session knows it whose call the child carries out: the calls that
    lead there, a slash, the id."""
    return f"{call}~{name}" if "/" in name else f"{call}/{name}"


JOB_ID = r"j[0-9]{1,15}\.[0-9]{1,6}(\.[0-9]{1,6})?"
"""What the id of a background job looks like."""


def job_id(call: str, attempt: int = 1) -> str:
    """The background job that an attempt of a call starts. Each attempt has its own: what the one before had started
    may be there still, and is not started again under its name."""
    return f"j{call[1:]}" if attempt <= 1 else f"j{call[1:]}.{attempt}"


def idempotency_key(session: str, call: str) -> str:
    """The key under which a call's effect happens at most once, the same for each attempt."""
    return f"{session}:{call}"


def event_id(session: str, seq: int) -> str:
    """A UUID-shaped id for readers that want one per event, derived from session and seq."""
    raw = hashlib.blake2b(f"{session}\n{seq}".encode(), digest_size=16).hexdigest()
    variant = "89ab"[int(raw[16], 16) % 4]
    return f"{raw[:8]}-{raw[8:12]}-8{raw[13:16]}-{variant}{raw[17:20]}-{raw[20:]}"
