"""`windlass duet`: an agent as a turn runner of Duet's protocol, over stdio.

Thin: it finds the agents and the store, and talks until its caller leaves or the process is asked to stop."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from windlass.cli import options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from windlass.runtime.api.agent import Agent
    from windlass.runtime.api.runtime import Runtime

EXAMPLES = """examples:
  windlass duet clerk.py                    commands on standard input, events on standard output, one JSON object each
  windlass duet clerk.py --once             the same, until the first turn has ended
  printf '%s\\n' '{"type":"start"}' '{"type":"prompt","message":"hi","behavior":"steer"}' | windlass duet clerk.py

The session is kept in the store: {"type":"start","state":...} with the state of a terminal resumes it, also after
kill -9.
exit codes: 0 its caller has closed standard input, 2 wrong usage, 143 stopped by SIGTERM
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Describes the verb."""
    parser.epilog = EXAMPLES
    parser.add_argument(
        "files", metavar="FILE", nargs="+", help="FILE.py with agents in it (the first is used), or FILE.py:NAME"
    )
    options.add_store(parser)
    parser.add_argument("--once", action="store_true", help="leave when the first turn has ended")
    options.add_drain(parser)


def run(args: argparse.Namespace) -> int:
    """Does it."""
    import asyncio

    return asyncio.run(serve(args))


async def serve(args: argparse.Namespace) -> int:
    """Talks with the caller. A signal lets what has begun come to its end first."""
    import asyncio

    from windlass.adapters.duet.line_server import LineServer
    from windlass.runtime.api.runtime import Runtime
    from windlass.runtime.api.termination import TERMINATED, Termination
    from windlass.server.stdio.own_pipes import own_pipes

    from .serve import agents_of

    reader, writer = await own_pipes()
    agents, place = agents_of(args.files), options.place_to_write(args)
    opened: list[Runtime] = []

    def opening(bound: Sequence[Agent]) -> Runtime:
        opened[:] = [Runtime(place, agents=bound, tenant=args.tenant, take_up=False)]
        return opened[0]

    async def drain() -> object:
        if opened and not opened[0].closed:
            return await opened[0].drain(options.drain_ms(args))
        return None

    code, stopping = 0, asyncio.Event()

    def stop() -> None:
        nonlocal code
        code = TERMINATED
        stopping.set()

    with Termination(drain, then=stop):
        talking = asyncio.ensure_future(LineServer(agents, opening, reader, writer, once=args.once).run())
        stopped = asyncio.ensure_future(stopping.wait())
        try:
            await asyncio.wait([talking, stopped], return_when=asyncio.FIRST_COMPLETED)
            if talking.done():
                talking.result()
        finally:
            for task in (talking, stopped):
                task.cancel()
            await asyncio.gather(talking, stopped, return_exceptions=True)
    return code
