"""`windlass mcp`: which MCP servers are known, what one offers, trust and logins; and agents served as one."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from windlass.cli.mcp import agent_service, logins

if TYPE_CHECKING:
    from windlass.mcp.server import McpServer
    from windlass.mcp.trust import Record, Sight, TrustRecords

EXAMPLES = """examples:
  windlass mcp list                       the servers that were seen here, and whether they are what was trusted
  windlass mcp list .mcp.json             with those of a file
  windlass mcp show time                  how it is reached, and its tools as they are trusted
  windlass mcp trust time                 show what changed since it was trusted, and trust it as it was seen last
  windlass mcp trust time .mcp.json       start it, and trust it as it is now
  windlass mcp login docs servers.json    log in at a server that asks for it, in a browser
  windlass mcp logout https://docs.example.com/mcp
  windlass mcp serve clerk.py             the agents of a file as MCP tools, for the client that starts this
  windlass mcp serve clerk.py --http      the same over HTTP, on loopback; every request needs a token
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Describes the verb."""
    parser.epilog = EXAMPLES
    parser.add_argument(
        "what",
        metavar="WHAT",
        choices=("list", "show", "trust", "login", "logout", "serve"),
        help="list, show, trust, login, logout or serve",
    )
    parser.add_argument(
        "more",
        metavar="MORE",
        nargs="*",
        help="of show and trust: NAME; of login and logout: NAME or URL; then files of servers; of serve: FILE.py",
    )
    parser.add_argument("--yes", action="store_true", help="of trust: ask nothing")
    parser.add_argument("--json", action="store_true", help="print JSON")
    logins.configure(parser)
    agent_service.configure(parser)


def run(args: argparse.Namespace) -> int:
    """Does it."""
    if args.what == "serve":
        return agent_service.serve(args)
    if args.what in ("login", "logout"):
        return logins.login(args) if args.what == "login" else logins.logout(args)
    if args.what == "list":
        return list_servers(args)
    return show(args) if args.what == "show" else trust(args)


def _known(files: list[str]) -> tuple[list[McpServer], list[Record]]:
    """The servers of files, and the records of all others."""
    from windlass.mcp.config import servers_of_file
    from windlass.mcp.trust import TrustRecords, key_of

    servers = [server for file in files for server in servers_of_file(file)]
    named = {key_of(server, "") for server in servers}
    return servers, [record for record in TrustRecords().all() if record.key not in named]


def list_servers(args: argparse.Namespace) -> int:
    """Lists what there is."""
    from windlass.cli.screen.number_words import table
    from windlass.cli.terminal.text import one_line, put, tell_json
    from windlass.cli.terminal.visible_text import spelt
    from windlass.mcp.trust import TrustRecords, key_of

    servers, records = _known(args.more)
    kept = TrustRecords()
    entries = [_row(server.name, server.origin, _readable(kept, key_of(server, "")), server) for server in servers]
    entries += [_row(record.name, record.key.partition(" of ")[2], record) for record in records]
    if args.json:
        tell_json({"servers": entries})
        return 0
    if not entries:
        put("no MCP servers: give a file of them, or an agent some, Agent(mcp=[...])")
        return 0
    rows = [("NAME", "FROM", "TRUST", "TOOLS", "LOGIN", "REACHED BY")]
    for each in entries:
        reached = one_line(spelt(each["reached_by"]), 60)
        login = "yes" if each["login"] else "no"
        rows.append((each["name"], spelt(each["from"]), each["trust"], str(each["tools"]), login, reached))
    for line in table(rows):
        put(line)
    return 0


def _readable(records: TrustRecords, key: str) -> Record | None:
    """The record of a server; None also if it cannot be read: then a person is shown all of it as new."""
    try:
        return records.of(key)
    except OSError:
        return None


def _row(name: str, origin: str, record: Record | None, server: McpServer | None = None) -> dict[str, Any]:
    trusted = record.trusted if record is not None else None
    sight = trusted or (record.seen if record is not None else None)
    changed = record is not None and record.seen is not None
    if server is not None and trusted is not None:
        changed = changed or trusted.launch_digest != server.launch_digest
    launch = server.launch if server is not None else sight.launch if sight is not None else {}
    return {
        "name": name,
        "from": origin,
        "trust": "new" if trusted is None else "changed" if changed else "trusted",
        "login": _is_logged_in(launch),
        "tools": len(sight.tools) if sight is not None else 0,
        "reached_by": _reached_by(launch),
    }


def _is_logged_in(launch: dict[str, Any]) -> bool:
    """Whether a login at it is kept. Whether it is taken is known to the server alone."""
    from windlass.mcp.login.kept_logins import KeptLogins

    return "url" in launch and KeptLogins().mark(str(launch["url"])) is not None


def _reached_by(launch: dict[str, Any]) -> str:
    return str(launch.get("url") or " ".join([str(launch.get("command", "")), *map(str, launch.get("args", ()))]))


def show(args: argparse.Namespace) -> int:
    """Shows what is known of a server."""
    from windlass.cli.terminal.text import put, tell_json
    from windlass.cli.terminal.visible_text import spelt

    record = _record(args)
    sight = record.trusted or record.seen
    if args.json:
        import msgspec

        tell_json(msgspec.to_builtins(record))
        return 0
    put(f"name: {spelt(record.name)}")
    put(f"from: {spelt(record.key.partition(' of ')[2])}")
    put(f"trusted: {f'by {spelt(record.by)}' if record.trusted is not None else 'no'}")
    if sight is None:
        return 0
    put(f"reached by: {spelt(_reached_by(sight.launch))}")
    if sight.about:
        put(f"it calls itself: {spelt(sight.about)}")
    for tool in sight.tools:
        put("")
        put(f"{spelt(tool.name)}{' (it says that it only reads)' if tool.read_only else ''}")
        for line in tool.description.splitlines():
            put(f"  {spelt(line)}")
    if record.seen is not None and record.trusted is not None:
        put("")
        put(f"it was seen to be another one since: run 'windlass mcp trust {spelt(record.name)}'")
    return 0


def _record(args: argparse.Namespace) -> Record:
    from windlass.events.errors import UsageError
    from windlass.mcp.trust import TrustRecords

    if not args.more:
        raise UsageError(f"'mcp {args.what}' takes the name of a server; 'windlass mcp list' lists them")
    records = TrustRecords().all()
    server_record = next((record for record in records if record.name == args.more[0]), None)
    if server_record is None:
        there = ", ".join(sorted({record.name for record in records})) or "none"
        raise UsageError(f"no MCP server {args.more[0]!r} was seen here: there are {there}; or name a file that has it")
    return server_record


def trust(args: argparse.Namespace) -> int:
    """Shows what is other than what was trusted, and trusts it once somebody says so."""
    from windlass.cli import identity
    from windlass.cli.terminal.text import put
    from windlass.cli.terminal.visible_text import spelt
    from windlass.mcp.trust import TrustRecords, changes

    records = TrustRecords()
    if len(args.more) > 1:
        return _trust_of_file(args, records)
    name = _record(args).name
    waiting = [record for record in records.all() if record.name == name and record.seen is not None]
    for record in waiting:
        assert record.seen is not None
        put(f"{spelt(name)}, from {spelt(record.key.partition(' of ')[2])}")
        for line in changes(record.before, record.seen, lines_max=None):
            put(spelt(line))
        if not args.yes and not _agreed(name):
            put(f"{spelt(name)}: not trusted")
            return 1
        records.agree(record, by=identity.actor())
        put(f"{spelt(name)}: trusted, {_digest(record.seen)}")
    if not waiting:
        put(f"{spelt(name)}: trusted already")
    return 0


def _trust_of_file(args: argparse.Namespace, records: TrustRecords) -> int:
    """The same of a server that a file names: it is started, once somebody has agreed to how."""
    from windlass.cli import identity
    from windlass.cli.terminal.text import put
    from windlass.cli.terminal.visible_text import spelt
    from windlass.events.errors import UsageError
    from windlass.mcp.trust import UNASKED, changes, key_of, sight_of

    servers, _ = _known(args.more[1:])
    server = next((each for each in servers if each.name == args.more[0]), None)
    if server is None:
        raise UsageError(f"no MCP server {args.more[0]!r} there: there are {', '.join(each.name for each in servers)}")
    before = _readable(records, key_of(server, ""))
    trusted = before.trusted if before is not None and before.by != UNASKED else None
    for line in changes(trusted, sight_of(server), lines_max=None):
        put(spelt(line))
    if not args.yes and not _agreed(server.name, "start"):
        put(f"{spelt(server.name)}: not started, not trusted")
        return 1
    now = _looked_at(server)
    for line in changes(trusted, now, lines_max=None):
        put(spelt(line))
    if not args.yes and not _agreed(server.name):
        put(f"{spelt(server.name)}: not trusted")
        return 1
    records.trust(server, key_of(server, ""), now, by=identity.actor())
    put(f"{spelt(server.name)}: trusted, {_digest(now)}")
    return 0


def _looked_at(server: McpServer) -> Sight:
    """What a server is now. Raises `UsageError` if it cannot be had."""
    import asyncio

    from windlass.events.errors import UsageError
    from windlass.mcp.connection import Connection, NotConnected
    from windlass.mcp.trust import sight_of

    async def look() -> Sight:
        connection = Connection(server)
        try:
            return sight_of(server, await connection.connect())
        except NotConnected as error:
            raise UsageError(f"MCP server {server.name!r} cannot be had: {error}") from None
        finally:
            await connection.close()

    return asyncio.run(look())


def _digest(sight: Sight) -> str:
    return f"{sight.launch_digest[:12]} {sight.listing_digest[:12] or '(not started yet)'}"


def _agreed(name: str, what: str = "trust") -> bool:
    import sys

    if not sys.stdin.isatty():
        return False
    return input(f"{what} {name!r} as it is now? [y/N] ").strip().lower() in ("y", "yes")
