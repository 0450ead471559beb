"""The pipes of the protocol: this process's standard input and output, kept for it alone. What agents and their tools
print goes to standard error, and what they read is empty."""

from __future__ import annotations

import asyncio
import os
import sys

from windlass.events.errors import UsageError


async def own_pipes() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Takes standard input and output away from everybody else. Raises `UsageError` if they are no pipes."""
    sys.stdout.flush()
    taken, said = os.dup(0), os.dup(1)
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)
    os.dup2(2, 1)
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    try:
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(taken, "rb", 0))
        transport, protocol = await loop.connect_write_pipe(
            lambda: asyncio.streams.FlowControlMixin(loop=loop), os.fdopen(said, "wb", 0)
        )
    except ValueError:
        raise UsageError("--stdio is for a program at the other end: standard input and output must be pipes") from None
    return reader, asyncio.StreamWriter(transport, protocol, None, loop)
