"""What may enter a log: only what can be read from it again. Types are not checked where values are made, so here is
where a wrong one is stopped; later it would make the whole session unreadable."""

from __future__ import annotations

from windlass.events import codec
from windlass.events.base import Event
from windlass.events.errors import CodecError


def readable(skeleton: bytes, body: bytes, salt: str) -> None:
    """Raises `CodecError`, with the path, for an encoded event that no reader would take."""
    event, body = codec.decode_known(skeleton, body, salt=salt)
    if not isinstance(event, Event):
        return
    if body:
        codec.set_body(event, body, salt)


def misfit(error: CodecError) -> str:
    """What is wrong with a value that cannot be kept, without the number that the event would have had."""
    return str(error).removeprefix("event 0: ")
