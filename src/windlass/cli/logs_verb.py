"""Describes `logs` to the parser; `logs` does the work."""

from __future__ import annotations

import argparse

from . import options

EXAMPLES = """examples:
  windlass logs march                what happened, one record after the other
  windlass logs march -f             the same, and what happens from now on (Ctrl-C ends it)
  windlass logs - --after 40         the newest session, behind record 40
  windlass logs march --json         one JSON object per record: seq, at_ms, cause, event
  windlass logs march --raw          the sealed lines as they are stored
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Describes the verb."""
    parser.epilog = EXAMPLES
    options.add_session(parser)
    parser.add_argument("-f", "--follow", action="store_true", help="go on as the log grows, until Ctrl-C")
    parser.add_argument("--after", type=int, default=0, metavar="SEQ", help="only records behind this one")
    parser.add_argument("--all", action="store_true", help="show bookkeeping records too")
    parser.add_argument("--full", action="store_true", help="show texts whole")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="one JSON object per record")
    form.add_argument("--raw", action="store_true", help="the stored lines")


def run(args: argparse.Namespace) -> int:
    """Does it."""
    from .logs import run as work

    return work(args)
