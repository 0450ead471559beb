"""Describes `ps` to the parser; `ps` does the work."""

from __future__ import annotations

import argparse

from . import options

EXAMPLES = """examples:
  windlass ps                        every session, the one that changed last first
  windlass ps --waiting              only those that wait for a person
  windlass ps --agent clerk --json   for programs: one JSON array

states: running, asked (waits for a person or client), sleeping (until a time), idle, new
"""

STATES = ("new", "idle", "running", "asked", "sleeping", "parked")

LIMIT = 50


def configure(parser: argparse.ArgumentParser) -> None:
    """Describes the verb."""
    parser.epilog = EXAMPLES
    options.add_store(parser)
    parser.add_argument("--state", choices=STATES, action="append", help="only sessions in this state (repeatable)")
    parser.add_argument("--waiting", action="store_true", help="short for --state asked")
    parser.add_argument("--agent", metavar="NAME", help="only sessions of this agent")
    parser.add_argument("--text", metavar="WORDS", help="only sessions with this in their id, title or agent")
    parser.add_argument("--limit", type=int, default=LIMIT, metavar="N", help=f"how many at most ({LIMIT})")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")


def run(args: argparse.Namespace) -> int:
    """Does it."""
    from .ps import run as work

    return work(args)
