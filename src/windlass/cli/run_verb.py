"""Describes `run` to the parser; `running` does the work."""

from __future__ import annotations

import argparse

from . import options

EXAMPLES = """examples:
  windlass run 'What is in this folder?' --tool list --tool read
  windlass run --agent clerk.py:clerk 'Pay the March invoices.' --session march
  windlass run --session march --agent clerk.py:clerk      go on with what march is owed
  git diff | windlass run 'Review this.' --model sonnet --budget-usd 0.10
  windlass run 'Who is on this?' --file team.png --output-schema people.json

The session is kept in the store, so that it can be looked at, gone on with and forked. Text goes to standard output,
everything else to standard error. What needs a person is asked about on the terminal; where nobody is there the run
ends, and 'windlass approve' or 'windlass answer' lets it go on.
exit codes: 0 completed, 1 failed, 2 called wrongly, 3 waits for a person, 4 asleep until a time, 130 interrupted
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Describes the verb."""
    parser.epilog = EXAMPLES
    parser.add_argument("prompt", metavar="PROMPT", nargs="*", help="what to do (else standard input)")
    parser.add_argument("--session", metavar="ID", help="the session: gone on with if it is there, else made")
    parser.add_argument("--file", metavar="PATH", action="append", default=[], help="attach a file (repeatable)")
    parser.add_argument("--quiet", action="store_true", help="print the model's text only")
    parser.add_argument("--json", action="store_true", help="print the result as JSON at the end, nothing before")
    parser.add_argument("--verbose", action="store_true", help="say first what the agent is set up with")
    options.add_workspace(parser)
    options.add_store(parser)
    options.add_agent(parser)


def run(args: argparse.Namespace) -> int:
    """Does it."""
    from .running import run as work

    return work(args)
