"""Lines out of a stream of bytes, each within its bound: one that is too long is passed over, and said to be."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

CHUNK_BYTES = 64 * 1024


async def input_lines(reader: asyncio.StreamReader, most: int) -> AsyncIterator[bytes | None]:
    """The lines of a stream; None stands for one of more bytes than are taken. What has no end of line is no line."""
    held: list[bytes] = []
    size = 0
    while chunk := await reader.read(CHUNK_BYTES):
        *ended, rest = chunk.split(b"\n")
        for piece in ended:
            size += len(piece)
            yield b"".join((*held, piece)) if size <= most else None
            held, size = [], 0
        size += len(rest)
        if size <= most:
            held.append(rest)
        else:
            held = []
