"""`windlass declassify`: take labels away from a session, with a reason that stays on record."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from windlass.cli import options

if TYPE_CHECKING:
    from windlass.store.base import Key, Store

EXAMPLES = """examples:
  windlass declassify march private --reason 'the figures are published'
  windlass declassify march untrusted:web private:payroll --reason 'read by me'

'windlass show' lists the labels of a session and what brought them.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Describes the verb."""
    parser.epilog = EXAMPLES + options.NEXT
    options.add_session(parser)
    parser.add_argument("labels", metavar="LABEL", nargs="+", help="which label; 'windlass show' lists them")
    parser.add_argument("--reason", required=True, metavar="TEXT", help="why it does not hold any more")
    options.add_wait(parser)


def run(args: argparse.Namespace) -> int:
    """Does it."""
    from windlass.cli.stores import on_session

    return on_session(args, declassify)


async def declassify(args: argparse.Namespace, store: Store, key: Key) -> int:
    """Sends it."""
    from windlass.cli import command_delivery, identity
    from windlass.cli.terminal.visible_text import spelt
    from windlass.events.errors import UsageError
    from windlass.events.tools.labels import LabelsDeclassified
    from windlass.runtime.operate.label_sources import sources
    from windlass.runtime.operate.log_point import read_point

    held = [source.found.label for source in sources(await read_point(store, key))]
    wanted = tuple(dict.fromkeys(args.labels))
    if unknown := [label for label in wanted if label not in held]:
        there = f"there are {', '.join(map(spelt, held))}" if held else "it has none"
        raise UsageError(f"no label {unknown[0]!r} in session {key.session!r}: {there}")
    if not args.reason.strip():
        raise UsageError("--reason '': say why, it stays on record")
    command = LabelsDeclassified(
        command_id=identity.fresh_command_id(),
        actor=identity.actor(),
        labels=wanted,
        reason=args.reason,
    )
    return await command_delivery.send(store, key, command, f"declassified: {', '.join(map(spelt, wanted))}", args)
