"""The pipes of the protocol: this process's standard input and output, kept for it alone. What agents and their tools
print goes to standard error, and what they read is empty."""

from __future__ import annotations

import asyncio
import os
import stat
import sys

from windlass.events.errors import UsageError


def refuse_no_pipes() -> None:
    """Raises `UsageError` unless standard input and output are pipes, sockets or terminals. To be asked before the loop
    gets them: it takes /dev/null, and then fails in a callback that nobody waits for."""
    if not all(map(_has_other_end, (0, 1))):
        raise UsageError("this is for a program at the other end: standard input and output must be pipes")


def _has_other_end(descriptor: int) -> bool:
    try:
        mode = os.fstat(descriptor).st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(descriptor)


async def own_pipes() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Takes standard input and output away from everybody else. Raises `UsageError` if they are no pipes."""
    refuse_no_pipes()
    sys.stdout.flush()
    taken, said = os.dup(0), os.dup(1)
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)
    os.dup2(2, 1)
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(taken, "rb", 0))
    transport, protocol = await loop.connect_write_pipe(
        lambda: asyncio.streams.FlowControlMixin(loop=loop), os.fdopen(said, "wb", 0)
    )
    return reader, asyncio.StreamWriter(transport, protocol, None, loop)
