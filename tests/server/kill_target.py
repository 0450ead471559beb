"""Servers to be killed: this process loads everything once, and forks one for each line that it reads. The server says
`up PID URL` when it listens; when it is gone, this says `gone`."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pathlib
import sys

import windlass
from windlass.adapters.mounts import mount_names, mounts_named
from windlass.server.access.limits import Limits
from windlass.server.access.token_file import TokenFile
from windlass.server.http_server import HttpServer
from windlass.testing.scripted import ScriptedModel, by_history, call

from .support import clerk

PATIENT = windlass.Settings(losses_max=1_000)
BUSY = Limits(rate=100_000.0, burst=100_000)
"""On a quick machine the clients do much between two kills."""


@windlass.tool(contract="pure")
def look(page: int) -> str:
    """Looks at a page."""
    return f"page {page}"


def reader() -> windlass.Agent:
    """An agent whose runs take several turns, and can be cut off anywhere without harm, however often: on a slow machine
    a server may be killed again and again before a run gets any further, and would be parked for it."""
    model = ScriptedModel(by_history([*(call("look", page=page) for page in (1, 2, 3)), "Read."]))
    return windlass.Agent("reader", model=model, tools=[look], policy=windlass.ALLOW_ALL, settings=PATIENT)


@windlass.tool
async def order(ctx: windlass.ToolContext) -> str:
    """Orders a shirt, of a size that it asks for."""
    size = (await ctx.ask("Which size?", options=["S", "L"])).body.answers[0]
    return f"ordered {size.text or size.selected[0]}"


def tailor() -> windlass.Agent:
    """An agent whose tool asks while it runs."""
    return windlass.Agent("tailor", ScriptedModel(by_history([call("order"), "It is ordered."])), tools=[order])


async def serve(folder: pathlib.Path) -> None:
    """Serves until it is killed."""
    tokens = TokenFile(folder / "tokens.json")
    mounts = mounts_named(mount_names())
    server = HttpServer(str(folder / "store.db"), [reader(), clerk(), tailor()], tokens, limits=BUSY, mounts=mounts)
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
