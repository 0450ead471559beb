"""`windlass token`: make, list and revoke the tokens that `windlass serve` knows."""

from __future__ import annotations

import argparse
import time

EXAMPLES = """examples:
  windlass token add ada --role drive --role approve     prints the token, once: only its digest is kept
  windlass token add grafana --role read
  windlass token add bob --role drive --tenant acme      sees the sessions of that tenant alone
  windlass token list
  windlass token revoke ada                              servers refuse it from the next request on

roles: read looks at sessions, drive begins them and talks to them, approve answers what they ask of people and widens
what they may do, admin may do everything. Whoever may do anything may read.
"""
ROLES = ("read", "drive", "approve", "admin")


def configure(parser: argparse.ArgumentParser) -> None:
    """Describes the verb."""
    parser.epilog = EXAMPLES
    parser.add_argument("action", choices=("add", "list", "revoke"), help="what to do")
    parser.add_argument("name", nargs="?", default="", metavar="NAME", help="the token; commands are recorded under it")
    parser.add_argument(
        "--role", action="append", default=[], choices=ROLES, help="what it may do (may be repeated; read, if not said)"
    )
    parser.add_argument("--tenant", default="default", metavar="NAME", help="whose sessions it sees (default)")
    parser.add_argument("--tokens", metavar="FILE", help="the file of tokens (else one in your state folder)")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    """Does it."""
    from windlass.events.errors import UsageError

    if args.action == "list":
        return listed(args)
    if not args.name:
        raise UsageError(f"which token? windlass token {args.action} NAME")
    return add(args) if args.action == "add" else revoke(args)


def add(args: argparse.Namespace) -> int:
    """Makes a token and prints it, alone on standard output."""
    from windlass.cli.terminal.text import put, tell_json
    from windlass.cli.tokens import token_file

    made = token_file(args).add(
        args.name, args.role or ["read"], tenant=args.tenant, now_ms=time.time_ns() // 1_000_000
    )
    if args.json:
        tell_json({"name": args.name, "token": made})
    else:
        put(made)
    return 0


def revoke(args: argparse.Namespace) -> int:
    """Takes a token away."""
    from windlass.cli.terminal.text import tell, tell_json
    from windlass.cli.terminal.visible_text import spelt
    from windlass.cli.tokens import token_file

    token_file(args).revoke(args.name)
    if args.json:
        tell_json({"revoked": args.name})
    else:
        tell(f"revoked {spelt(args.name)}: servers refuse it from now on")
    return 0


def listed(args: argparse.Namespace) -> int:
    """Prints a line for each token, without the token."""
    from windlass.cli.screen.number_words import table
    from windlass.cli.terminal.text import put, tell, tell_json
    from windlass.cli.terminal.visible_text import spelt
    from windlass.cli.tokens import token_file

    tokens = token_file(args).tokens()
    if args.json:
        tell_json([{"name": one.name, "roles": one.roles, "tenant": one.tenant} for one in tokens])
        return 0
    if not tokens:
        tell("no tokens yet: 'windlass serve' makes the first one, 'windlass token add' others")
    for line in table([(spelt(one.name), ", ".join(one.roles), spelt(one.tenant)) for one in tokens]):
        put(line)
    return 0
