"""Describes `replay` to the parser; `replaying` does the work."""

from __future__ import annotations

import argparse

from . import options

EXAMPLES = """examples:
  windlass replay march --agent clerk.py:clerk --model sonnet       all of it, with another model
  windlass replay march --at 40 --agent clerk.py:clerk --policy read-only     from record 40, under another policy
  windlass replay march --agent clerk.py:clerk --live               and let the tools really run

A new session begins with what the model saw at that point and is given the same prompts again. Where the point lies
within a run, that run begins again, and up to the point the model says what it said then. Tools do not run: a call that
was made before gets the result it got then, any other is told that it was not recorded; what a person was asked before
is answered as they answered it. The policy judges every call of the new session. The difference between the two is
printed; the session that is replayed is not touched.
exit codes: 0 it went as before, 1 it went otherwise, 2 it was called wrongly
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Describes the verb."""
    parser.epilog = EXAMPLES
    options.add_session(parser)
    parser.add_argument("--at", type=int, default=0, metavar="SEQ", help="behind this record (else from the beginning)")
    parser.add_argument("--as", dest="new", metavar="ID", help="the id of the new session")
    parser.add_argument("--live", action="store_true", help="let tools run, with all their effects")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options.add_agent(parser)


def run(args: argparse.Namespace) -> int:
    """Does it."""
    from .replaying import run as work

    return work(args)
