"""A way to a server that can be cut off at any moment, and be led to another server."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlsplit

import windlass
from tests.server.support import Running


def connected(running: Running, *roles: str, url: str | None = None, **more: Any) -> windlass.Runtime:
    """Somebody who is connected to a server, with a token of these roles; for everything without any."""
    token = running.client(*roles).token
    assert token is not None
    return windlass.connect(url or running.server.url, token=token, **more)


class Way:
    """A port of this machine behind which a server is, as long as nobody cuts it off."""

    def __init__(self, target: str) -> None:
        self.target = target
        self.url = ""
        self._open: set[asyncio.StreamWriter] = set()

    def cut(self) -> int:
        """Breaks off every connection, and says how many there were."""
        cut = len(self._open)
        for writer in self._open:
            writer.transport.abort()
        self._open.clear()
        return cut

    async def _taken(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        parts = urlsplit(self.target)
        try:
            there, onward = await asyncio.open_connection(parts.hostname, parts.port)
        except OSError:
            writer.transport.abort()
            return
        self._open |= {writer, onward}
        with contextlib.suppress(OSError):
            await asyncio.gather(_copied(reader, onward), _copied(there, writer))
        for one in (writer, onward):
            one.close()
        self._open -= {writer, onward}


async def _copied(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()


@contextlib.asynccontextmanager
async def way_to(target: str) -> AsyncIterator[Way]:
    """A way to a server."""
    way = Way(target)
    server = await asyncio.start_server(way._taken, "127.0.0.1", 0)
    way.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield way
    finally:
        way.cut()
        server.close()
