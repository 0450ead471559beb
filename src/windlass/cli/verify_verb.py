"""Describes `verify` to the parser; `verifying` does the work."""

from __future__ import annotations

import argparse

from . import options

EXAMPLES = """examples:
  windlass verify march              one session
  windlass verify                    every session of the store
  windlass verify --json             for programs

Three levels: the hash chain holds; every record is legal where it stands; the facts lead to the same decisions. A
difference in the last is drift (another version decided), not damage.
exit codes: 0 everything holds (drift is reported), 1 something is damaged
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Describes the verb."""
    parser.epilog = EXAMPLES
    parser.add_argument("session", metavar="SESSION", nargs="?", help="one session (else every one)")
    options.add_store(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    """Does it."""
    from .verifying import run as work

    return work(args)
