"""`windlass mcp serve`: agents as MCP tools for the client at our standard streams, or over HTTP.

Thin: it finds agents, store and tokens, and says in words what is asked of people."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from windlass.cli import options

if TYPE_CHECKING:
    from windlass.mcp_server.desk import Ask, Desk
    from windlass.runtime.api.agent import Agent

ROLES = ("read", "drive", "approve", "admin")
STDIO_ROLES = ("drive", "approve")
LINGER_S = 3_600.0
MISSING = "serving MCP needs more packages: pip install 'windlass[mcp,server]'"


def configure(parser: argparse.ArgumentParser) -> None:
    """The options of serving."""
    options.add_store(parser)
    group = parser.add_argument_group("of serve")
    group.add_argument(
        "--role",
        action="append",
        default=[],
        choices=ROLES,
        help="what the client at our standard streams may do (repeatable; drive and approve, if not said)",
    )
    group.add_argument(
        "--linger",
        type=float,
        default=LINGER_S,
        metavar="S",
        help=f"how long runs go on when that client has left ({LINGER_S:g} s)",
    )
    group.add_argument("--trust-prompts", action="store_true", help="do not mark what clients say as untrusted:client")
    group.add_argument("--http", action="store_true", help="serve over HTTP, at /mcp, instead of standard streams")
    group.add_argument("--host", default="127.0.0.1", help="of --http: the address to listen on (127.0.0.1)")
    group.add_argument(
        "--port", type=int, default=0, metavar="N", help="of --http, and of login: the port (a free one)"
    )
    group.add_argument("--tokens", metavar="FILE", help="of --http: the file of tokens (that of 'windlass token')")
    group.add_argument(
        "--name", action="append", default=[], metavar="NAME", help="of --http: a further host name (repeatable)"
    )
    group.add_argument(
        "--origin", action="append", default=[], metavar="ORIGIN", help="of --http: an origin of pages (repeatable)"
    )
    options.add_drain(group)
    group.add_argument("--fd", type=int, help=argparse.SUPPRESS)


def serve(args: argparse.Namespace) -> int:
    """Does it."""
    import importlib.util

    from windlass.events.errors import UsageError

    if any(importlib.util.find_spec(name) is None for name in ("mcp", "starlette", "uvicorn")):
        raise UsageError(MISSING)
    if not 0 <= args.port < 65536:
        raise UsageError(f"--port {args.port}: give a number from 0 to 65535")
    if not 0 <= args.linger <= 7 * 86_400:
        raise UsageError(f"--linger {args.linger:g}: give a number of seconds up to a week")
    options.drain_ms(args)
    if not args.http and args.fd is None:
        from windlass.mcp_server.bridge import bridge

        return bridge(host_command(args))
    import asyncio

    from windlass.cli.server_log import ServerLog
    from windlass.cli.terminal.standard_streams import be_courteous_on_stdout

    if args.http:
        be_courteous_on_stdout()
    with ServerLog():
        return asyncio.run(over_http(args) if args.http else over_stdio(args))


def host_command(args: argparse.Namespace) -> list[str]:
    """How the host of a client is started: as we were, by what the options came to."""
    words = [sys.executable, "-m", "windlass.cli.main", "mcp", "serve", *args.more]
    words += ["--linger", str(args.linger), "--drain", str(args.drain), "--tenant", args.tenant]
    words += ["--store", args.store] if args.store else []
    words += [word for role in args.role for word in ("--role", role)]
    return [*words, "--trust-prompts"] if args.trust_prompts else words


def _agents(args: argparse.Namespace) -> list[Agent]:
    from windlass.cli.verbs.work.serve import agents_of

    return agents_of(args.more)


def _labels(args: argparse.Namespace) -> tuple[str, ...]:
    from windlass.mcp_server.desk import LABEL

    return () if args.trust_prompts else (LABEL,)


async def over_stdio(args: argparse.Namespace) -> int:
    """The host of one client, whose bridge has the other end of a socket."""
    import socket

    from windlass.cli import identity
    from windlass.events.errors import UsageError
    from windlass.mcp_server.caller import Caller
    from windlass.mcp_server.stdio_host import StdioHost
    from windlass.runtime.api.termination import TERMINATED, Termination
    from windlass.server.access.roles import ROLES as KNOWN
    from windlass.server.tenants import Tenants

    try:
        wire = socket.socket(fileno=args.fd)
    except OSError as error:
        raise UsageError(f"--fd {args.fd} is no socket: {error.strerror}") from None
    tenants = Tenants(options.place_to_write(args), _agents(args), drain_ms=options.drain_ms(args))
    caller = Caller(
        name=identity.actor(),
        auth=identity.AUTH,
        roles=tuple(role for role in KNOWN if role in (args.role or STDIO_ROLES)),
        tenant=args.tenant,
    )
    host = StdioHost(_desk(tenants, args), caller, wire, linger_s=args.linger)
    with Termination(tenants.drain, then=host.stop) as termination:
        await host.run()
    return TERMINATED if termination.asked else 0


def _desk(tenants: object, args: argparse.Namespace) -> Desk:
    from windlass.mcp_server.desk import Desk
    from windlass.server.tenants import Tenants

    assert isinstance(tenants, Tenants)
    return Desk(tenants, AskWords(options.named_place(args)), labels=_labels(args))


async def over_http(args: argparse.Namespace) -> int:
    """Opens the server, says where it is, and answers until it is asked to stop."""
    from windlass.cli.tokens import token_file
    from windlass.cli.verbs.work.serve import answered, greet
    from windlass.mcp_server.http_app import McpApp
    from windlass.server.http_server import HttpServer

    made: list[McpApp] = []

    def app_of(state: object, gate: object) -> McpApp:
        made.append(McpApp(state, gate, AskWords(options.named_place(args)), _labels(args)))  # type: ignore[arg-type]
        return made[0]

    server = HttpServer(
        options.place_to_write(args),
        _agents(args),
        token_file(args),
        host=args.host,
        port=args.port,
        names=args.name,
        origins=args.origin,
        drain_ms=options.drain_ms(args),
        tenant=args.tenant,
        app_of=app_of,
    )
    args.socket = None
    try:
        await server.open()
        async with made[0].running():
            greet(server, args)
            return await answered(server)
    finally:
        await server.close()


class AskWords:
    """Requests to people as the terminal shows them: whole, behind a bar, nothing hidden."""

    def __init__(self, place: str) -> None:
        self._place = place

    def asked(self, ask: Ask) -> str:
        """What is asked, with everything that would be done."""
        import io

        from windlass.cli.screen.person_requests import ask_lines, body_lines
        from windlass.cli.terminal.text import Paint
        from windlass.runtime.api.approvals import PermissionAsk

        paint = Paint(io.StringIO(), on=False)
        lines = ask_lines(ask, paint) if isinstance(ask, PermissionAsk) else body_lines(ask.body, paint.out)
        return "\n".join(lines)

    def by_hand(self, ask: Ask) -> str:
        """The commands that answer it."""
        from windlass.cli.screen.person_requests import how_to_answer
        from windlass.cli.shell_lines import word
        from windlass.runtime.api.approvals import PermissionAsk

        at = f" --store {word(self._place)}" if self._place else ""
        if isinstance(ask, PermissionAsk):
            return "\n".join(how_to_answer(ask.session, ask.request_id, "permission", at))
        return "\n".join(how_to_answer(ask.session, ask.question_id, "question", at))
