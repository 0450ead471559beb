"""`windlass wake`: continue a session now."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from windlass.cli import options

if TYPE_CHECKING:
    from windlass.store.base import Key, Store

EXAMPLES = """examples:
  windlass wake march                  do the scheduled step now, or resume unfinished work
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Describes the verb."""
    parser.epilog = EXAMPLES + options.NEXT
    options.add_session(parser)
    options.add_wait(parser)


def run(args: argparse.Namespace) -> int:
    """Does it."""
    from windlass.cli.stores import on_session

    return on_session(args, wake)


async def wake(args: argparse.Namespace, store: Store, key: Key) -> int:
    """Sends it."""
    from windlass.cli import command_delivery, identity
    from windlass.events.runs import WakeReceived

    command = WakeReceived(command_id=identity.fresh_command_id(), actor=identity.actor())
    return await command_delivery.send(store, key, command, "wake: the session continues now", args)
