"""`windlass handoff`: have a session go on at a server, and nowhere else."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from windlass.cli import options

if TYPE_CHECKING:
    from windlass.runtime.sessions.handoff import HandedOver
    from windlass.store.base import Key, Store

EXAMPLES = """examples:
  windlass handoff march https://agents.example     the session goes on there; here it can only be read
  windlass handoff march unix:w.sock --as april     under another id

It needs a token of that server with the role 'admin', in WINDLASS_TO_TOKEN. If it is cut off, say it again: the session
arrives once. What people were asked is asked there; standing approvals do not come along. Child sessions
and jobs have to be over: answer, wait, or cancel them first.
"""
TOKEN_VARIABLE = "WINDLASS_TO_TOKEN"


def configure(parser: argparse.ArgumentParser) -> None:
    """Describes the verb."""
    parser.epilog = EXAMPLES
    options.add_session(parser)
    parser.add_argument("to", metavar="URL", help="the server: http://HOST:PORT, https://HOST or unix:PATH")
    parser.add_argument("--as", dest="new", metavar="ID", help="another id there than its own")


def run(args: argparse.Namespace) -> int:
    """Does it."""
    from windlass.cli.stores import on_session

    return on_session(args, hand_over)


async def hand_over(args: argparse.Namespace, store: Store, key: Key) -> int:
    """Hands it over and says where it is."""
    import os

    from windlass.cli.identity import AUTH, actor
    from windlass.cli.terminal.text import tell
    from windlass.events.errors import UsageError
    from windlass.runtime.sessions.handoff import Mover, hand_over_to_server

    token = os.environ.get(TOKEN_VARIABLE, "")
    if not token:
        raise UsageError(f"{args.to} wants a token with the role 'admin': set {TOKEN_VARIABLE}")
    mover = Mover(actor=actor(), auth=AUTH)
    for line in told(key, await hand_over_to_server(store, key, args.to, token, by=mover, session=args.new)):
        tell(line)
    return 0


def told(key: Key, made: HandedOver) -> list[str]:
    """What became of it, in words."""
    from windlass.cli.screen.number_words import plural
    from windlass.cli.terminal.visible_text import spelt

    again = "had arrived before" if made.before else "handed over"
    lines = [f"{again}: {spelt(key.session)} goes on as {spelt(made.session)} at {spelt(made.to)}"]
    if made.grants:
        lines.append(f"withdrawn, since they were given here: {plural(made.grants, 'standing approval')}")
    if made.sent_on:
        lines.append(f"sent on: {plural(made.sent_on, 'command')} of its inbox")
    return lines
