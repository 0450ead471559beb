"""`windlass interrupt`: stop what a session is doing; it may continue later."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from windlass.cli import options

if TYPE_CHECKING:
    from windlass.store.base import Key, Store

EXAMPLES = """examples:
  windlass interrupt march --reason 'wrong folder'     stop; 'wake' continues it
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Describes the verb."""
    parser.epilog = EXAMPLES + options.NEXT
    options.add_session(parser)
    parser.add_argument("--reason", default="", metavar="TEXT", help="why, for the log")
    parser.add_argument("--jobs", action="store_true", help="end its background jobs too")
    options.add_wait(parser)


def run(args: argparse.Namespace) -> int:
    """Does it."""
    from windlass.cli.stores import on_session

    return on_session(args, interrupt)


async def interrupt(args: argparse.Namespace, store: Store, key: Key) -> int:
    """Sends it."""
    from windlass.cli import command_delivery, identity
    from windlass.events.runs import InterruptReceived

    command = InterruptReceived(
        command_id=identity.fresh_command_id(), actor=identity.actor(), reason=args.reason, jobs=args.jobs
    )
    return await command_delivery.send(store, key, command, "interrupt: it is stopped, and may continue later", args)
