"""What an event needs from the records before it: nothing else is remembered."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from windlass.adapters.meerkat.codec.agent_events import AgentEvent
from windlass.adapters.meerkat.codec.closed_words import Uuid
from windlass.adapters.meerkat.codec.content import ContentBlock
from windlass.events.turns import ModelFailed
from windlass.events.values.blocks import JsonObject
from windlass.events.values.usage import Usage
from windlass.runtime.streams.record import Record


def derived_id(*named: object, at_ms: int = 0) -> Uuid:
    """An id that is the same for the same names, in the form of a UUID of version 7: its time first."""
    digest = int.from_bytes(hashlib.blake2b("\0".join(map(str, named)).encode(), digest_size=10).digest(), "big")
    number = (at_ms & (2**48 - 1)) << 80 | digest
    number = number & ~(0xF << 76) | 7 << 76
    return Uuid(int=number & ~(0b11 << 62) | 0b10 << 62)


def session_uuid(session: str) -> Uuid:
    """The id of a session there: its own name if that is a UUID, else one that is derived from it."""
    try:
        return Uuid(session)
    except ValueError:
        return derived_id("session", session)


@dataclass
class Called:
    """A call that has no result yet."""

    tool: str
    args: JsonObject
    began: bool = False


@dataclass
class Fold:
    """A session as far as its records were told."""

    session: str
    session_id: Uuid
    turn: int = 0
    usage: Usage = field(default_factory=Usage)
    """Of the last reply."""
    text: str = ""
    """What the last reply said."""
    value: Any = None
    """The answer as a value, if it fits its schema."""
    extracted: bool = False
    attempts: int = 0
    errors: tuple[str, ...] = ()
    """Why no answer fits, if none does."""
    warnings: tuple[str, ...] = ()
    prompts: dict[str, str | tuple[ContentBlock, ...]] = field(default_factory=dict)
    """By the command that brought them."""
    calls: dict[str, Called] = field(default_factory=dict)
    asked: dict[str, str] = field(default_factory=dict)
    """What people and clients are asked: the call of each request."""
    failures: dict[str, ModelFailed] = field(default_factory=dict)
    jobs: dict[str, str] = field(default_factory=dict)


Form = Callable[[Fold, Record, Any], Iterator[AgentEvent]]
"""What becomes of one kind of record."""
