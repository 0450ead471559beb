"""Describes `doctor` to the parser; `doctoring` does the work."""

from __future__ import annotations

import argparse

from . import options

EXAMPLES = """examples:
  windlass doctor                    what is in order, what is not, and what to do about it
  windlass doctor --json             for programs

exit codes: 0 nothing is wrong (remarks are allowed), 1 something is
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Describes the verb."""
    parser.epilog = EXAMPLES
    options.add_store(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    """Does it."""
    from .doctoring import run as work

    return work(args)
