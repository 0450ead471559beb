"""`windlass cancel`: stop what a session is doing and close its run for good."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from windlass.cli import options

if TYPE_CHECKING:
    from windlass.store.base import Key, Store

EXAMPLES = """examples:
  windlass cancel march                stop and close the run for good; the session stays
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

    return on_session(args, cancel)


async def cancel(args: argparse.Namespace, store: Store, key: Key) -> int:
    """Sends it."""
    from windlass.cli import command_delivery, identity
    from windlass.events.runs import CancelReceived

    command = CancelReceived(
        command_id=identity.fresh_command_id(), actor=identity.actor(), reason=args.reason, jobs=args.jobs
    )
    return await command_delivery.send(store, key, command, "cancel: the run is closed for good", args)
