"""`windlass copilot`: agents behind the clients of the GitHub Copilot SDK, over stdio or TCP.

Thin: it finds agents and store, and serves until its client leaves or the process is asked to stop."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, BinaryIO

from windlass.cli import options

if TYPE_CHECKING:
    from windlass.adapters.copilot.copilot_host import CopilotHost
    from windlass.runtime.api.agent import Agent

TOKEN_VARIABLE = "COPILOT_CONNECTION_TOKEN"
NAME = "copilot"
EXAMPLES = f"""examples:
  windlass copilot clerk.py --stdio         the agents of a file, for the client that started this process
  windlass copilot --tools coding           an agent of options alone, with the tools of a coding agent
  {TOKEN_VARIABLE}=... windlass copilot clerk.py --port 4321     for clients that connect by themselves

The published clients start it themselves: put 'exec windlass copilot clerk.py "$@"' into a script and have
COPILOT_CLI_PATH name it. Flags of theirs that mean nothing here are taken and passed over. Over TCP a client must
show the token of ${TOKEN_VARIABLE}, which clients that start a server set.
exit codes: 0 its client has left or asked it to stop, 2 wrong usage, 143 stopped by SIGTERM
"""
FLAGS = ("--headless", "--no-auto-update", "--no-auto-login", "--remote")
VALUES = ("--log-level", "--auth-token-env", "--session-idle-timeout", "--log-dir")
"""What the published clients say that means nothing here."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Describes the verb."""
    parser.epilog = EXAMPLES
    parser.add_argument("files", metavar="FILE", nargs="*", help="FILE.py with agents in it, or FILE.py:NAME for one")
    options.add_store(parser)
    parser.add_argument("--model", metavar="NAME", help="which model, if no file names agents; 'windlass models'")
    parser.add_argument("--tools", choices=("coding",), help="a set of tools, if no file names agents")
    parser.add_argument("--stdio", action="store_true", help="talk with one client over stdin and stdout")
    parser.add_argument(
        "--port", type=int, default=0, metavar="N", help="listen on TCP (a free port, which is printed)"
    )
    options.add_drain(parser)
    for flag in FLAGS:
        parser.add_argument(flag, action="store_true", help=argparse.SUPPRESS)
    for flag in VALUES:
        parser.add_argument(flag, help=argparse.SUPPRESS)


def run(args: argparse.Namespace) -> int:
    """Does it."""
    import asyncio
    import os

    from windlass.events.errors import UsageError

    if not 0 <= args.port < 65536:
        raise UsageError(f"--port {args.port}: give a number from 0 to 65535")
    if not args.stdio and not os.environ.get(TOKEN_VARIABLE):
        how = f"set {TOKEN_VARIABLE} to a secret that clients show, or use --stdio"
        raise UsageError(f"whoever uses this machine could connect: {how}")
    return asyncio.run(serve(args))


def agents_of(args: argparse.Namespace, name: str = NAME) -> list[Agent]:
    """The agents of files, else one of this name that the options describe. Raises `UsageError` for a file without
    any."""
    from windlass.cli import coding_agent
    from windlass.runtime.api.agent import Agent

    if args.files:
        from .serve import agents_of as agents_of_files

        return agents_of_files(args.files)
    if args.tools:
        policy, told = coding_agent.coding_policy(), coding_agent.INSTRUCTIONS
        return [Agent(name, model=args.model, tools=coding_agent.TOOLS, policy=policy, instructions=told)]
    return [Agent(name, model=args.model)]


async def serve(args: argparse.Namespace) -> int:
    """Opens the store and serves."""
    import os

    from windlass.adapters.copilot.copilot_host import CopilotHost
    from windlass.adapters.copilot.server import own_stdout

    out = own_stdout() if args.stdio else None
    token = None if args.stdio else os.environ.get(TOKEN_VARIABLE)
    host = CopilotHost(options.place_to_write(args), agents_of(args), token=token, tenant=args.tenant)
    try:
        await host.open()
        return await answered(host, args, out)
    finally:
        await host.close()


async def answered(host: CopilotHost, args: argparse.Namespace, out: BinaryIO | None) -> int:
    """Serves until its client leaves or asks it to stop; a signal lets what has begun come to its end first."""
    from windlass.adapters.copilot.server import serve_stdio, serve_tcp
    from windlass.cli.terminal.text import tell
    from windlass.runtime.api.termination import TERMINATED, Termination

    code = 0

    async def drain() -> object:
        nonlocal code
        code = TERMINATED
        return await host.runtime.drain(options.drain_ms(args))

    with Termination(drain, then=host.stopping.set):
        if out is not None:
            await serve_stdio(host, out)
        else:
            await serve_tcp(host, args.port, lambda port: tell(f"listening on port {port}"))
    return code
