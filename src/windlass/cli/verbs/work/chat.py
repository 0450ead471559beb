"""`windlass chat`: talk with an agent; `windlass.cli.chat` holds the conversation."""

from __future__ import annotations

import argparse

from windlass.cli import options

EXAMPLES = """examples:
  windlass chat                      with the best model at hand, a new session
  windlass chat --tool read --tool grep --tool list      about the files of this folder
  windlass chat --agent clerk.py:clerk --session march   resume a session

While it works: what you type steers it, '/queue TEXT' comes after it, Ctrl-C stops it. '/help' says the rest.
Alt-Enter, or a backslash at the end of a line, begins another line. What you write is kept in a private file of your
state directory for the arrow keys ($WINDLASS_HISTORY names another file, or says 'off').
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Describes the verb."""
    parser.epilog = EXAMPLES
    parser.add_argument("--session", metavar="ID", help="which session: resumed if it exists, else created")
    parser.add_argument("--no-history", action="store_true", help="neither read nor keep the history of what you typed")
    options.add_attach(parser, "give the model this with the first prompt")
    options.add_drain(parser)
    options.add_workspace(parser)
    options.add_sandbox(parser)
    options.add_store(parser)
    options.add_agent(parser)


def run(args: argparse.Namespace) -> int:
    """Does it."""
    from windlass.cli.chat.conversation import run as work

    return work(args)
