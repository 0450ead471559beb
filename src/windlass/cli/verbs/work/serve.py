"""`windlass serve`: agents and their sessions over HTTP, until the process is asked to stop.

Thin: it finds agents, store and tokens, opens the server and waits for a signal."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from windlass.cli import options

if TYPE_CHECKING:
    import socket

    from windlass.protocol.telemetry.otel_environment import OtelExport
    from windlass.runtime.api.agent import Agent
    from windlass.server.http_server import HttpServer
    from windlass.server.mount import Mount

EXAMPLES = """examples:
  windlass serve clerk.py                         the agents of a file, on loopback, on a free port that it prints
  windlass serve clerk.py report.py:reporter --port 8377
  windlass serve clerk.py --socket ./windlass.sock           on a socket that only you can reach
  windlass serve clerk.py --stdio                 for a program that starts it: JSON-RPC 2.0, one object per line
  windlass serve clerk.py --with openai           for clients of OpenAI's API too: an agent is a model
  windlass serve clerk.py --with agui --origin http://localhost:3000        for pages that speak AG-UI
  windlass serve clerk.py --with a2a,agui         for agents that speak A2A, and both on one server
  windlass serve clerk.py --reload                while you write it: what you save is served at once
  OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318 windlass serve clerk.py --otel     with spans for a collector
  windlass serve --store shared.db                no agents: look at sessions and answer what they ask

Every request needs a token. The first one is made on first start, and its file is printed; 'windlass token' makes
others. Several servers may share one store: a session is driven by one of them at a time.
exit codes: 2 wrong usage, 130 stopped by Ctrl-C, 143 stopped by SIGTERM: what ran was brought to its end within
--drain, and the rest is resumed when a server opens the store again
"""
MISSING = "the server needs two more packages: pip install 'windlass[server]'"
OPEN_NETWORK = "whoever can read this network reads tokens and sessions: put TLS before it"


def configure(parser: argparse.ArgumentParser) -> None:
    """Describes the verb."""
    from windlass.adapters.mounts import mount_names

    parser.epilog = EXAMPLES
    parser.add_argument("files", metavar="FILE", nargs="*", help="FILE.py with agents in it, or FILE.py:NAME for one")
    options.add_store(parser)
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen on (127.0.0.1)")
    parser.add_argument("--port", type=int, default=0, metavar="N", help="the port (a free one, which is printed)")
    parser.add_argument("--socket", metavar="PATH", help="listen on a unix socket instead, for its owner alone")
    parser.add_argument(
        "--stdio", action="store_true", help="answer JSON-RPC lines on standard input, for the program that started it"
    )
    parser.add_argument("--tokens", metavar="FILE", help="the file of tokens (else that of 'windlass token')")
    parser.add_argument(
        "--name",
        action="append",
        default=[],
        metavar="NAME",
        help="a further host name under which it may be asked, such as that of a proxy before it (may be repeated)",
    )
    parser.add_argument(
        "--origin",
        action="append",
        default=[],
        metavar="ORIGIN",
        help="an origin whose pages may ask from a browser, such as https://example.org (may be repeated)",
    )
    parser.add_argument(
        "--with",
        dest="adapters",
        default="",
        metavar="NAMES",
        help=f"protocols of others to answer as well, with commas between them: {', '.join(mount_names())}",
    )
    parser.add_argument(
        "--webhooks", metavar="FILE", help="a TOML file of webhooks: signed requests that become signals of sessions"
    )
    parser.add_argument(
        "--reload",
        action="store_true",
        help="for developing: when a FILE changes, or a module that it imports from beneath its folder, a fresh process"
        " takes over at the same address",
    )
    parser.add_argument(
        "--otel",
        action="store_true",
        help="send GenAI spans and metrics while sessions work, over OTLP/HTTP, as the OTEL_ variables say",
    )
    options.add_drain(parser)


def run(args: argparse.Namespace) -> int:
    """Does it."""
    import asyncio
    import importlib.util

    from windlass.cli.server_log import ServerLog
    from windlass.cli.terminal.standard_streams import be_courteous_on_stdout
    from windlass.events.errors import UsageError

    if any(importlib.util.find_spec(name) is None for name in ("starlette", "uvicorn")):
        raise UsageError(MISSING)
    if args.reload and args.stdio:
        raise UsageError("--reload and --stdio do not go together: whoever started the server starts it again")
    if not 0 <= args.port < 65536:
        raise UsageError(f"--port {args.port}: give a number from 0 to 65535")
    if not args.stdio:
        be_courteous_on_stdout()
    if args.reload:
        from windlass.cli.reload.reload_supervisor import supervised

        return asyncio.run(supervised(args))
    with ServerLog():
        return asyncio.run(serve_lines(args) if args.stdio else serve(args))


def agents_of(files: list[str]) -> list[Agent]:
    """The agents of some files. Raises `UsageError` for a file without any, and for two of one name."""
    from windlass.cli.agents import from_file, module_of
    from windlass.events.errors import UsageError
    from windlass.runtime.api.agent import Agent

    agents_by_name: dict[str, Agent] = {}
    for place in files:
        if ":" in place:
            agents = [from_file(place, Agent, "agent")]
        else:
            agents = [value for value in vars(module_of(place)).values() if isinstance(value, Agent)]
            agents = list({id(agent): agent for agent in agents}.values())
        if not agents:
            raise UsageError(f"{place} has no agent in it: give a variable the value windlass.Agent(...)")
        for agent in agents:
            if agents_by_name.setdefault(agent.name, agent) is not agent:
                raise UsageError(f"two agents are named {agent.name!r}: give one of them another name")
    return list(agents_by_name.values())


def mounts_of(names: str) -> list[Mount]:
    """The mounts of adapters by their names. Raises `UsageError` for one that is not there."""
    from windlass.adapters.mounts import mounts_named

    return mounts_named(name.strip() for name in names.split(",") if name.strip())


def webhooks_of(args: argparse.Namespace) -> list[Mount]:
    """The webhooks that are described in a file. Raises `UsageError` for one that cannot be."""
    if not args.webhooks:
        return []
    from windlass.server.webhooks import endpoints_of, webhook_mount

    return [webhook_mount(endpoints_of(args.webhooks))]


async def serve_lines(args: argparse.Namespace) -> int:
    """Answers the lines of whoever started this until they close their end, or a signal comes."""
    import asyncio

    from windlass.cli.exits import OK
    from windlass.runtime.api.termination import TERMINATED, Termination
    from windlass.server.access.limits import Limits
    from windlass.server.server_state import ServerState
    from windlass.server.stdio.line_server import LineServer
    from windlass.server.stdio.own_pipes import own_pipes
    from windlass.server.tenants import Tenants

    reader, writer = await own_pipes()  # before the code of agents is loaded: it may print
    agents, otel = agents_of(args.files), otel_of(args)
    tenants = Tenants(
        options.place_to_write(args),
        agents,
        drain_ms=options.drain_ms(args),
        telemetry=otel.telemetry if otel is not None else None,
    )
    state = ServerState(tenants, None, Limits())  # whoever started this is the user
    try:
        await tenants.runtime(args.tenant)
        answering = asyncio.create_task(LineServer(state, args.tenant, reader, writer).run())

        def stop() -> None:
            answering.cancel()

        with Termination(tenants.drain, then=stop) as ending:
            await asyncio.wait([answering])
        if not ending.asked:
            answering.result()
            await tenants.drain()
        return TERMINATED if ending.asked else OK
    finally:
        await tenants.close()
        if otel is not None:
            await otel.close()
        await state.door.close()
        writer.close()


async def serve(args: argparse.Namespace) -> int:
    """Opens the server, says where it is, and answers until it is asked to stop."""
    otel = otel_of(args)
    server = server_of(args, otel=otel)
    try:
        await server.open()
        greet(server, args, otel)
        return await answered(server)
    finally:
        await server.close()
        if otel is not None:
            await otel.close()


def otel_of(args: argparse.Namespace) -> OtelExport | None:
    """What sends spans, if that is asked for. Raises `UsageError` for what the environment says and is not there."""
    if not args.otel:
        return None
    from windlass.protocol.telemetry.otel_environment import OtelExport

    return OtelExport()


def server_of(
    args: argparse.Namespace, listening: socket.socket | None = None, otel: OtelExport | None = None
) -> HttpServer:
    """The server that is described, with the agents of its files; on a socket that listens already, if one is given."""
    from windlass.cli.tokens import token_file
    from windlass.server.http_server import HttpServer

    return HttpServer(
        options.place_to_write(args),
        agents_of(args.files),
        token_file(args),
        host=args.host,
        port=args.port,
        socket_path=args.socket,
        listening=listening,
        names=args.name,
        origins=args.origin,
        drain_ms=options.drain_ms(args),
        tenant=args.tenant,
        mounts=[*mounts_of(args.adapters), *webhooks_of(args)],
        telemetry=otel.telemetry if otel is not None else None,
    )


def greet(server: HttpServer, args: argparse.Namespace, otel: OtelExport | None = None) -> None:
    """Says what is served, where, and where the token is."""
    from windlass.cli.terminal.text import tell
    from windlass.cli.terminal.visible_text import spelt
    from windlass.server.access.gate import LOOPBACK

    names = ", ".join(map(spelt, server.tenants.agents)) or "none"
    tell(f"agents {names} · store {spelt(options.told_place(args))}")
    if server.tokens.first_path.exists():
        tell(f"token in {spelt(str(server.tokens.first_path))}")
    if args.socket is None and args.host not in LOOPBACK:
        tell(OPEN_NETWORK)
    if otel is not None:
        tell(f"spans go to {spelt(otel.place)}")
    tell(f"listening on {spelt(server.url)}")


async def answered(server: HttpServer, *, quiet: bool = False) -> int:
    """Answers until a signal comes; then what has begun is brought to its end. A second signal does not wait.
    Says so, unless it is to be `quiet`."""
    import asyncio
    import os
    import signal

    from windlass.cli.exits import INTERRUPTED
    from windlass.cli.terminal.text import tell
    from windlass.runtime.api.termination import TERMINATED, Termination

    code = TERMINATED

    def interrupted() -> None:
        nonlocal code
        code = INTERRUPTED
        os.kill(os.getpid(), signal.SIGTERM)

    def told() -> None:
        if not quiet:
            tell(options.DRAINING)

    loop = asyncio.get_running_loop()
    with Termination(server.drain, before=told, then=server.stop):
        loop.add_signal_handler(signal.SIGINT, interrupted)
        try:
            await server.run()
        finally:
            loop.remove_signal_handler(signal.SIGINT)
    return code
