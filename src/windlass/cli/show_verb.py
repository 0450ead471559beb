"""Describes `show` and `cost` to the parser; `show` does the work."""

from __future__ import annotations

import argparse

from . import options

EXAMPLES = {
    "show": """examples:
  windlass show march                what it is, what it does, what it waits for and how to go on
  windlass show march --json         the same for programs
""",
    "cost": """examples:
  windlass cost                      what every session of the store has used, and the sum
  windlass cost march                one session, by model
  windlass cost --json               for programs
""",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Describes the verb."""
    verb = options.verb_of(parser)
    parser.epilog = EXAMPLES[verb]
    if verb == "show":
        options.add_session(parser)
    else:
        parser.add_argument("session", metavar="SESSION", nargs="?", help="one session (else all of the store)")
        options.add_store(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    """Does it."""
    from .show import run as work

    return work(args)
