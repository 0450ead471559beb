"""`windlass acp`: an agent in an editor that speaks the Agent Client Protocol, over stdio.

Thin: it finds agent and store, and talks until its editor leaves or the process is asked to stop."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from windlass.cli import options

if TYPE_CHECKING:
    from windlass.runtime.api.agent import Agent

NAME = "acp"
EXAMPLES = """examples:
  windlass acp clerk.py                     the agent of a file, for the editor that started this process
  windlass acp agents.py:reviewer           one of several
  windlass acp --tools coding               an agent of options alone, with the tools of a coding agent

Editors start it themselves: give them this line as the command of an agent. Sessions are kept in the store, so that
they can be loaded again, and looked at with 'windlass ps' and 'windlass logs'.
exit codes: 0 its editor has left, 2 wrong usage, 143 stopped by SIGTERM
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Describes the verb."""
    parser.epilog = EXAMPLES
    parser.add_argument("files", metavar="FILE", nargs="*", help="FILE.py with one agent in it, or FILE.py:NAME")
    options.add_store(parser)
    parser.add_argument("--model", metavar="NAME", help="which model, if no file names an agent; 'windlass models'")
    parser.add_argument("--tools", choices=("coding",), help="a set of tools, if no file names an agent")
    parser.add_argument(
        "--trust", action="store_true", help="have the agent follow the AGENTS.md files of the folders that are opened"
    )
    options.add_drain(parser)


def run(args: argparse.Namespace) -> int:
    """Does it."""
    import asyncio

    return asyncio.run(serve(args))


def agent_of(args: argparse.Namespace) -> Agent:
    """The agent of a file, else one that the options describe; its specialists may stand beside it. Raises `UsageError`
    for a file without any, and for several: an editor has no way to choose."""
    from windlass.events.errors import UsageError

    from .copilot import agents_of

    there = agents_of(args, NAME)
    roots = [agent for agent in there if not any(agent in other.agents for other in there)] or there
    if len(roots) > 1:
        names = ", ".join(agent.name for agent in roots)
        raise UsageError(f"an editor talks to one agent, and there are {names}: write FILE.py:NAME for one of them")
    return roots[0]


async def serve(args: argparse.Namespace) -> int:
    """Opens the store and talks; a signal lets what has begun come to its end first."""
    import asyncio

    from windlass.adapters.acp.acp_host import AcpHost
    from windlass.adapters.acp.server import talk
    from windlass.cli.exits import OK
    from windlass.runtime.api.termination import TERMINATED, Termination
    from windlass.server.stdio.own_pipes import own_pipes

    reader, writer = await own_pipes()  # before the code of agents is loaded: it may print
    host = AcpHost(options.place_to_write(args), agent_of(args), tenant=args.tenant, trusted=args.trust)
    try:
        await host.open()
        talking = asyncio.create_task(talk(host, reader, writer))

        def stop() -> None:
            talking.cancel()

        with Termination(lambda: host.drain(options.drain_ms(args)), then=stop) as ending:
            await asyncio.wait([talking])
        if not ending.asked:
            talking.result()
            await host.drain(options.drain_ms(args))
        return TERMINATED if ending.asked else OK
    finally:
        await host.close()
        writer.close()
