"""Servers to be killed: this process loads everything once, and forks one for each line that it reads. The server says
`up PID URL` when it listens; when it is gone, this says `gone`."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pathlib
import sys

import windlass
from windlass.server.access.token_file import TokenFile
from windlass.server.http_server import HttpServer
from windlass.testing.scripted import ScriptedModel, by_history, call

from .support import clerk


@windlass.tool(contract="pure")
def look(page: int) -> str:
    """Looks at a page."""
    return f"page {page}"


def reader() -> windlass.Agent:
    """An agent whose runs take several turns, and can be cut off anywhere without harm."""
    model = ScriptedModel(by_history([*(call("look", page=page) for page in (1, 2, 3)), "Read."]))
    return windlass.Agent("reader", model=model, tools=[look], policy=windlass.ALLOW_ALL)


async def serve(folder: pathlib.Path) -> None:
    """Serves until it is killed."""
    server = HttpServer(str(folder / "store.db"), [reader(), clerk()], TokenFile(folder / "tokens.json"))
    await server.open()
    print("up", os.getpid(), server.url, flush=True)
    await server.run()


def main(folder: pathlib.Path) -> None:
    for _ in sys.stdin:
        child = os.fork()
        if not child:
            try:
                asyncio.run(serve(folder))
            finally:
                os._exit(1)
        os.waitpid(child, 0)
        with contextlib.suppress(BrokenPipeError):  # nobody waits to hear it
            print("gone", flush=True)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
