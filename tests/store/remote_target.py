"""A server over a store in the folder that is named: it says its address when it listens, and ends with its input."""

from __future__ import annotations

import asyncio
import os
import pathlib
import sys

from windlass.server.access.limits import Limits
from windlass.server.access.token_file import TokenFile
from windlass.server.http_server import HttpServer


async def serve(folder: pathlib.Path) -> None:
    """Serves until nobody is at the other end of its input."""
    limits = Limits(rate=100_000.0, burst=100_000)
    server = HttpServer(str(folder / "store.db"), (), TokenFile(folder / "tokens.json"), limits=limits)
    await server.open()
    running = asyncio.ensure_future(server.run())
    print(server.url, flush=True)
    await asyncio.to_thread(sys.stdin.read)
    server.stop()
    await running
    await server.close()


if __name__ == "__main__":
    asyncio.run(serve(pathlib.Path(sys.argv[1])))
    os._exit(0)
