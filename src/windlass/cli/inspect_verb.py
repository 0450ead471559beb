"""Describes `inspect` to the parser; `inspecting` does the work."""

from __future__ import annotations

import argparse

from . import options

EXAMPLES = """examples:
  windlass inspect march             what the next request would carry
  windlass inspect march --at 40     what it would have carried behind record 40
  windlass inspect march --json      the same items for programs
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Describes the verb."""
    parser.epilog = EXAMPLES
    options.add_session(parser)
    parser.add_argument("--at", type=int, metavar="SEQ", help="behind this record (else at the end)")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    """Does it."""
    from .inspecting import run as work

    return work(args)
