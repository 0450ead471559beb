"""`windlass signal`: tell a session that something happened outside."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from windlass.cli import options
from windlass.events.errors import UsageError

if TYPE_CHECKING:
    from windlass.store.base import Key, Store

EXAMPLES = """examples:
  windlass signal march mail 'three new letters'            enters with the next turn
  windlass signal march fire 'the lab burns' --urgency critical     cuts off an answer that is under way
  windlass signal march build --data '{"status": "red"}' --key build-17     the same key counts once
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Describes the verb."""
    parser.epilog = EXAMPLES + options.NEXT
    options.add_session(parser)
    parser.add_argument("kind", metavar="KIND", help="what happened, as a word")
    parser.add_argument("text", metavar="TEXT", nargs="?", default="", help="what the model is told of it")
    urgencies = ("critical", "high", "normal", "low")
    parser.add_argument("--urgency", choices=urgencies, default="normal", help="how soon it matters (normal)")
    parser.add_argument("--data", metavar="JSON", help="an object with more about it")
    parser.add_argument("--source", metavar="NAME", default="", help="where it comes from")
    parser.add_argument("--key", metavar="KEY", help="signals with the same key count once")
    options.add_wait(parser)


def run(args: argparse.Namespace) -> int:
    """Does it."""
    from windlass.cli.stores import on_session

    args.payload = payload(args.data)
    return on_session(args, signal)


def payload(text: str | None) -> dict[str, Any]:
    """The object that was given. Raises `UsageError` for anything else."""
    if text is None:
        return {}
    try:
        body = json.loads(text)
    except ValueError as error:
        raise UsageError(f"--data is no JSON: {error}") from None
    if not isinstance(body, dict):
        raise UsageError(f'--data is an object such as \'{{"status": "red"}}\', not {text[:80]}')
    return body


async def signal(args: argparse.Namespace, store: Store, key: Key) -> int:
    """Sends it."""
    from windlass.cli import command_delivery, identity
    from windlass.events.signals import SignalBody, SignalReceived

    command = SignalReceived(
        command_id=identity.fresh_command_id(),
        actor=identity.actor(),
        kind=args.kind,
        source=args.source or "command line",
        urgency=args.urgency,
        dedupe_key=args.key,
        body=SignalBody(text=args.text, payload=args.payload),
    )
    return await command_delivery.send(store, key, command, f"signal: {args.kind} ({args.urgency})", args)
