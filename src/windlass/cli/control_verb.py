"""Describes the verbs of an operator to the parser; `controlling` does the work."""

from __future__ import annotations

import argparse

from . import options

EXAMPLES = {
    "interrupt": "examples:\n  windlass interrupt march --reason 'wrong folder'     stop; it may go on by 'wake'\n",
    "cancel": "examples:\n  windlass cancel march                stop and close the run for good; the session stays\n",
    "wake": "examples:\n  windlass wake march                  do the scheduled step now, or go on with what is owed\n",
    "queue": """examples:
  windlass queue march               the prompts that wait, in their order
  windlass queue march --drop P      drop one
  windlass queue march --order P Q   put them in this order; those not named are dropped
""",
    "rewind": """examples:
  windlass rewind march --to 40      the model sees the history as it was behind record 40
  windlass rewind march --to 0       a fresh context

What was done, spent and approved stays done, spent and approved, and the log keeps everything.
""",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Describes the verb."""
    verb = options.verb_of(parser)
    parser.epilog = EXAMPLES[verb] + options.NEXT
    options.add_session(parser)
    if verb in ("interrupt", "cancel"):
        parser.add_argument("--reason", default="", metavar="TEXT", help="why, for the log")
    elif verb == "queue":
        change = parser.add_mutually_exclusive_group()
        change.add_argument("--drop", metavar="PROMPT", action="append", help="drop this one (repeatable)")
        change.add_argument("--order", metavar="PROMPT", nargs="+", help="the new order; others are dropped")
        change.add_argument("--json", action="store_true", help="print the prompts that wait as JSON")
    elif verb == "rewind":
        parser.add_argument("--to", type=int, required=True, metavar="SEQ", help="the record to go back to")
    options.add_wait(parser)


def run(args: argparse.Namespace) -> int:
    """Does it."""
    from .controlling import run as work

    return work(args)
