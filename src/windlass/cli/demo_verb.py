"""Describes `demo` to the parser; `demonstrating` does the work."""

from __future__ import annotations

import argparse

EXAMPLES = """examples:
  windlass demo                      a session on the embedded model, kept in ./windlass-demo.db
  windlass demo --city Nairobi       ask about this city
  windlass demo --store work.db      keep it elsewhere

It needs the embedded model: 'windlass models pull embedded' fetches it, once. No key and no network are used.
exit codes: 0 the model called the tool and answered, 1 it did not, 2 it was called wrongly
"""

STORE = "windlass-demo.db"


def configure(parser: argparse.ArgumentParser) -> None:
    """Describes the verb."""
    parser.epilog = EXAMPLES
    parser.add_argument("--store", metavar="PATH", default=STORE, help=f"where the session is kept ({STORE})")
    parser.add_argument("--city", metavar="NAME", help="the city to ask about (one of twenty, at random)")


def run(args: argparse.Namespace) -> int:
    """Does it."""
    from .demonstrating import run as work

    return work(args)
