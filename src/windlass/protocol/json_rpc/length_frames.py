"""Messages on a stream: a header with the length of the body, a blank line, the body as JSON in UTF-8."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import msgspec

from windlass.events.errors import CodecError

from .frames import Message

HEADER_BYTES_MAX = 8 * 1024
BODY_BYTES_MAX = 64 * 1024 * 1024
"""The largest message that is read; attachments travel inside of messages."""
LENGTH = "content-length"

_encode = msgspec.json.Encoder().encode


def framed(message: Message) -> bytes:
    """A message as it is sent. The one header comes first: the Python client reads no other."""
    body = _encode(message)
    return b"Content-Length: %d\r\n\r\n%s" % (len(body), body)


class LengthFrames:
    """A message has its length before it. After a bad one nothing can be read any more."""

    def framed(self, message: Message) -> bytes:
        """A message as it is sent."""
        return framed(message)

    async def messages(
        self, reader: asyncio.StreamReader, most: Callable[[], int] = lambda: BODY_BYTES_MAX
    ) -> AsyncIterator[Message]:
        """The messages of a stream. Raises `CodecError` for what is none."""
        while (message := await read_message(reader, most)) is not None:
            yield message


async def read_message(
    reader: asyncio.StreamReader, most: Callable[[], int] = lambda: BODY_BYTES_MAX
) -> Message | None:
    """The next message, of at `most` so many bytes; None at the end of the stream. Raises `CodecError` for what is
    none: nobody can say then where the next one begins."""
    length = await _read_header(reader)
    if length is None:
        return None
    if length > most():
        raise CodecError(f"a message of {length:,} bytes: at most {most():,} are read")
    try:
        body = await reader.readexactly(length)
        message = msgspec.json.decode(body)
    except asyncio.IncompleteReadError:
        return None
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise CodecError(f"a message that is no JSON: {error}") from error
    if not isinstance(message, dict):
        raise CodecError("a message is one JSON object")
    return message


async def _read_header(reader: asyncio.StreamReader) -> int | None:
    length, size = None, 0
    while True:
        try:
            line = await reader.readline()
        except ValueError as error:
            raise CodecError("the header of a message is too long") from error
        size += len(line)
        if not line or size > HEADER_BYTES_MAX:
            if not line:
                return None
            raise CodecError("the header of a message is too long")
        text = line.strip().decode("latin-1")
        if not text:
            if length is None:
                raise CodecError("a message without a Content-Length")
            return length
        name, _, value = text.partition(":")
        if name.strip().lower() == LENGTH:
            length = _length(value.strip())


def _length(value: str) -> int:
    if (
        not value.isascii()
        or not value.isdigit()
        or len(value) > len(str(BODY_BYTES_MAX))
        or int(value) > BODY_BYTES_MAX
    ):
        raise CodecError(f"a message of {value[:20]!r} bytes: at most {BODY_BYTES_MAX:,} are read")
    return int(value)
