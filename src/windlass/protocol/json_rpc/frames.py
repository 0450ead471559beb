"""How messages stand on a stream: what every way of writing them down has in common."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, NamedTuple, Protocol

Message = dict[str, Any]

PARSE_ERROR, INVALID_REQUEST, NO_METHOD, INVALID_PARAMS, INTERNAL = -32700, -32600, -32601, -32602, -32603


class NoMessage(NamedTuple):
    """Something on the stream that is no message, behind which the next one can be found."""

    code: int
    why: str


class Frames(Protocol):
    """One way of writing messages down."""

    def framed(self, message: Message) -> bytes:
        """A message as it is sent."""
        ...

    def messages(self, reader: asyncio.StreamReader, most: Callable[[], int]) -> AsyncIterator[Message | NoMessage]:
        """The messages of a stream, of at most `most` so many bytes each, until it ends. Raises `CodecError` if nobody
        can say any more where the next one begins."""
        ...
