"""Messages on a stream, one in each line."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import msgspec

from .frames import INVALID_REQUEST, PARSE_ERROR, Message, NoMessage
from .input_lines import input_lines

LINE_BYTES_MAX = 64 * 1024 * 1024
"""The largest message that is read; pictures travel inside of messages."""

_encode = msgspec.json.Encoder().encode


class LineFrames:
    """A message is one line. JSON has no line ends of its own, so a bad line spoils no other."""

    def framed(self, message: Message) -> bytes:
        """A message as it is sent."""
        return _encode(message) + b"\n"

    async def messages(
        self, reader: asyncio.StreamReader, most: Callable[[], int] = lambda: LINE_BYTES_MAX
    ) -> AsyncIterator[Message | NoMessage]:
        """The messages of a stream, and what stands between them; blank lines are passed over."""
        limit = min(most(), LINE_BYTES_MAX)
        async for line in input_lines(reader, limit):
            if line is None:
                yield NoMessage(INVALID_REQUEST, f"a line of more than {limit:,} bytes is not read")
            elif line.strip():
                yield _message_in(line)


def _message_in(line: bytes) -> Message | NoMessage:
    try:
        message = msgspec.json.decode(line)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        return NoMessage(PARSE_ERROR, f"this line is no JSON: {error}")
    if not isinstance(message, dict):
        return NoMessage(INVALID_REQUEST, "write one JSON object in each line")
    return message
