"""`windlass inspect`: what the model sees at a point of the log, item by item, with its weight by slot."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from windlass.cli import options

if TYPE_CHECKING:
    from windlass.store.base import Key, Store

EXAMPLES = """examples:
  windlass inspect march             what the next request would carry
  windlass inspect march --at 40     what it would have carried after record 40
  windlass inspect march --json      the same items for programs
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Describes the verb."""
    parser.epilog = EXAMPLES
    options.add_session(parser)
    parser.add_argument("--at", type=int, metavar="SEQ", help="after this record (else at the end)")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    """Does it."""
    from windlass.cli.stores import on_session

    return on_session(args, inspect)


async def inspect(args: argparse.Namespace, store: Store, key: Key) -> int:
    """Prints it."""
    from windlass.cli.screen.inspection import inspection_lines
    from windlass.cli.terminal.text import put, tell_json
    from windlass.events.errors import UsageError
    from windlass.runtime.operate.inspection import inspect as inspect_at
    from windlass.runtime.operate.log_point import read_point

    if args.at is not None and args.at < 1:
        raise UsageError(f"--at {args.at}: records are counted from 1")
    point = await read_point(store, key, until=args.at)
    if args.at is not None and point.seq < args.at:
        raise UsageError(f"session {key.session!r} ends at record {point.seq}: --at {args.at} is past its end")
    inspection = inspect_at(point)
    if args.json:
        tell_json(inspection)
        return 0
    for line in inspection_lines(inspection):
        put(line)
    return 0
