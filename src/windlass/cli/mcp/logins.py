"""`windlass mcp login` and `logout`: a person's login at a server that asks for one."""

from __future__ import annotations

import argparse
import importlib.util
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from windlass.mcp.login.interactive import LoginAsk

WAIT_S = 300.0
MISSING = "logging in at servers needs more packages: pip install 'windlass[mcp]'"


class Meant(NamedTuple):
    """The server that somebody means."""

    url: str
    stream: bool
    """Whether it is reached by the older HTTP, with server-sent events."""


def configure(parser: argparse.ArgumentParser) -> None:
    """The options of logging in."""
    group = parser.add_argument_group("of login")
    group.add_argument("--scope", default="", metavar="SCOPES", help="what to ask for beyond what the server names")
    group.add_argument("--client", default="", metavar="ID", help="a client that is registered there already")
    group.add_argument(
        "--wait-s", type=float, default=WAIT_S, metavar="S", help=f"how long to wait for the browser ({WAIT_S:g} s)"
    )


def login(args: argparse.Namespace) -> int:
    """Shows where to log in, waits for whoever comes back from there, and keeps the login."""
    import asyncio

    from windlass.cli.terminal.text import put
    from windlass.cli.terminal.visible_text import spelt
    from windlass.events.errors import UsageError
    from windlass.mcp.login import interactive
    from windlass.mcp.login.consent import chosen

    async def show(ask: LoginAsk) -> None:
        put(f"server: {spelt(ask.server)}")
        put(f"logins are given by: {spelt(ask.issuer)}")
        put(f"asked for: {spelt(' '.join(ask.scopes)) or 'what it gives by itself'}")
        put("open this in a browser on this machine, if that is whom you trust with it:")
        put(spelt(ask.url))

    meant = _meant(args)
    if args.wait_s <= 0 or not 0 <= args.port < 65_536:
        raise UsageError("--wait-s is seconds, greater than 0; --port is 0 to 65535")
    try:
        new_login = asyncio.run(
            interactive.login(
                meant.url,
                show,
                stream=meant.stream,
                client_id=args.client,
                scopes=chosen(args.scope),
                port=args.port,
                wait_s=args.wait_s,
            )
        )
    except interactive.LoginError as error:
        raise UsageError(f"there is no login: {error}") from None
    put(
        f"logged in at {spelt(new_login.url)}"
        f"{'' if new_login.refresh_token else ', until it is over: it cannot be renewed'}"
    )
    return 0


def logout(args: argparse.Namespace) -> int:
    """Takes a login back, and forgets it."""
    import asyncio

    from windlass.cli.terminal.text import put
    from windlass.cli.terminal.visible_text import spelt
    from windlass.events.errors import UsageError
    from windlass.mcp.login import interactive
    from windlass.mcp.login.kept_logins import KeptLogins

    meant, kept = _meant(args), KeptLogins()
    before = kept.mark(meant.url)
    try:
        taken_back = asyncio.run(interactive.logout(meant.url))
    except interactive.LoginError as error:
        if before is None:
            raise UsageError(f"nobody was logged in: {error}") from None
        stays = kept.mark(meant.url) is not None
        told = "it is still kept here" if stays else "it is forgotten here, but may still hold"
        raise UsageError(f"{told}: {error}") from None
    ends = {
        None: "nobody was logged in",
        True: "logged out: it was taken back where it was given",
        False: "logged out here; whoever gave it has no way to take it back, so it holds until it is over",
    }
    put(f"{spelt(meant.url)}: {ends[taken_back]}")
    return 0


def _meant(args: argparse.Namespace) -> Meant:
    """The server that is named: by an address, in a file, or as it was seen here."""
    from windlass.events.errors import UsageError
    from windlass.mcp.config import servers_of_file
    from windlass.mcp.normal_form import normalized
    from windlass.mcp.trust import TrustRecords

    if importlib.util.find_spec("mcp") is None:
        raise UsageError(MISSING)
    if not args.more:
        raise UsageError(f"'mcp {args.what}' takes the name or the address of a server")
    name, *files = args.more
    if "://" in name:
        (server,) = normalized({"server": {"url": name}}, "the address")
        return Meant(server.url, server.transport == "sse")
    known = [(server.name, server.launch) for file in files for server in servers_of_file(file)]
    if not files:
        sights = [(record.name, record.trusted or record.seen) for record in TrustRecords().all()]
        known = [(each, sight.launch) for each, sight in sights if sight is not None]
    meant = [launch for each, launch in known if each == name]
    if not meant:
        there = ", ".join(sorted({each for each, _ in known})) or "none"
        raise UsageError(f"no MCP server {name!r}: there are {there}; give its address, or a file that has it")
    launch = meant[0]
    if any(each.get("url") != launch.get("url") for each in meant):
        raise UsageError(f"{len(meant)} MCP servers are called {name!r}, at different addresses: give the address")
    if "url" not in launch:
        raise UsageError(f"the server {name!r} is a program on this machine: nobody logs in there")
    return Meant(str(launch["url"]), launch["transport"] == "sse")
