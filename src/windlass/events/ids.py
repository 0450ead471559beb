"""Ids are derived, not drawn: from the seq at which a thing began, so a replay gives the same ones."""

from __future__ import annotations

import hashlib


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


def idempotency_key(session: str, call: str) -> str:
    """The key under which a call's effect happens at most once, the same for each attempt."""
    return f"{session}:{call}"


def event_id(session: str, seq: int) -> str:
    """A UUID-shaped id for readers that want one per event, derived from session and seq."""
    raw = hashlib.blake2b(f"{session}\n{seq}".encode(), digest_size=16).hexdigest()
    variant = "89ab"[int(raw[16], 16) % 4]
    return f"{raw[:8]}-{raw[8:12]}-8{raw[13:16]}-{variant}{raw[17:20]}-{raw[20:]}"
