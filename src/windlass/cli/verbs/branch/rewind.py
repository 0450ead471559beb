"""`windlass rewind`: go back to an earlier history; what was done stays done."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from windlass.cli import options

if TYPE_CHECKING:
    from windlass.store.base import Key, Store

EXAMPLES = """examples:
  windlass rewind march --to 40      the model sees the history as it was after record 40
  windlass rewind march --to 0       a fresh context
  windlass rewind march --to 40 --files   the files that tools changed since then hold again what they held

What was done, spent and approved stays done, spent and approved, and the log keeps everything. Files that somebody else
has changed since are left as they are; 'windlass show' says which.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Describes the verb."""
    parser.epilog = EXAMPLES + options.NEXT
    options.add_session(parser)
    parser.add_argument("--to", type=int, required=True, metavar="SEQ", help="the record to go back to")
    parser.add_argument("--files", action="store_true", help="put back the files that tools changed since then")
    options.add_wait(parser)


def run(args: argparse.Namespace) -> int:
    """Does it."""
    from windlass.cli.stores import on_session

    return on_session(args, rewind)


async def rewind(args: argparse.Namespace, store: Store, key: Key) -> int:
    """Reads the earlier history and sends it."""
    from windlass.cli import command_delivery, identity
    from windlass.events.errors import UsageError
    from windlass.events.sessions import RewindReceived
    from windlass.runtime.operate.log_point import read_point

    point = await read_point(store, key)
    if not 0 <= args.to <= point.seq:
        raise UsageError(f"--to {args.to}: session {key.session!r} has the records 1 to {point.seq}")
    restored = (await read_point(store, key, until=args.to)).restorable() if args.to else ()
    command = RewindReceived(
        command_id=identity.fresh_command_id(),
        actor=identity.actor(),
        to_seq=args.to,
        restored=restored,
        files=args.files,
    )
    seen = len(point.state.history.items)
    what = f"rewind to {args.to}: the model sees {len(restored)} of {seen} items from here"
    return await command_delivery.send(store, key, command, what, args)
