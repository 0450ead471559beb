"""Messages on a stream: read back as they were framed, and refused if they are none."""

from __future__ import annotations

import asyncio

import pytest

from windlass.events.errors import CodecError
from windlass.protocol.json_rpc.length_frames import BODY_BYTES_MAX, HEADER_BYTES_MAX, framed, read_message


def reader_of(data: bytes) -> asyncio.StreamReader:
    reader = asyncio.StreamReader()
    reader.feed_data(data)
    reader.feed_eof()
    return reader


async def test_what_is_framed_is_read_and_the_end_is_no_message():
    one, two = {"id": 1, "words": "\u00e4\n"}, {"id": 2}
    reader = reader_of(framed(one) + framed(two))
    assert [await read_message(reader) for _ in range(3)] == [one, two, None]


async def test_other_headers_are_passed_over_and_a_cut_message_is_the_end():
    assert await read_message(reader_of(b"Content-Type: json\r\ncontent-length: 2\r\n\r\n{}")) == {}
    assert await read_message(reader_of(framed({"id": 1})[:-1])) is None


@pytest.mark.parametrize(
    "data",
    [
        b"Content-Length: x\r\n\r\n{}",
        b"Content-Length: -2\r\n\r\n{}",
        b"Content-Length: %d\r\n\r\n{}" % (BODY_BYTES_MAX + 1),
        b"Content-Length: 2\r\n\r\n[]",
        b"Content-Length: 2\r\n\r\n{!",
        b"\r\n",
        b"A: b\r\n" * (HEADER_BYTES_MAX // 6 + 1),
        b"A" * 200_000 + b"\r\n",
    ],
)
async def test_what_is_no_message_is_refused(data):
    with pytest.raises(CodecError):
        await read_message(reader_of(data))
