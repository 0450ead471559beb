"""What may not change quietly, as text: the tags on disk, and every default that a log leaves out.

A field that holds its default is not written, so an old log gets whatever the default is when it is read: a default
that changes would change the meaning of old logs.
"""

from __future__ import annotations

import msgspec
from dev import vocabulary

from windlass.events.base import tag_of
from windlass.events.live import LIVE_EVENTS
from windlass.events.stored.registry import EVENTS


def names() -> str:
    """Every tag that may stand in a log or in a stream, one per line."""
    durable = sorted(tag_of(cls) for cls in EVENTS)
    live = sorted(str(cls.__struct_config__.tag) for cls in LIVE_EVENTS)
    return "\n".join(["# durable", *durable, "", "# live", *live, ""])


def defaults() -> str:
    """Every field that may be absent from a log, with what it means then."""
    kept: list[type[msgspec.Struct]] = [*EVENTS, *vocabulary.reachable()]
    lines = {line for cls in kept for line in _lines(cls)}
    return "\n".join([*sorted(lines), ""])


def _lines(cls: type[msgspec.Struct]) -> list[str]:
    module = cls.__module__.rpartition(".")[2]
    return [
        f"{module}.{cls.__name__}.{field.name} = {field.default}"
        for field in vocabulary.fields(cls)
        if field.default is not None
    ]
