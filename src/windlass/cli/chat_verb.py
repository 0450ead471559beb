"""Describes `chat` to the parser; `chatting` does the work."""

from __future__ import annotations

import argparse

from . import options

EXAMPLES = """examples:
  windlass chat                      with the best model at hand, a new session
  windlass chat --tool read --tool grep --tool list      about the files of this folder
  windlass chat --agent clerk.py:clerk --session march   go on with a session

While it works: what you type steers it, '/queue TEXT' comes after it, Ctrl-C stops it. '/help' says the rest.
Alt-Enter, or a backslash at the end of a line, begins another line. What you write is kept in a private file of your
state directory for the arrow keys ($WINDLASS_HISTORY names another file, or says 'off').
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Describes the verb."""
    parser.epilog = EXAMPLES
    parser.add_argument("--session", metavar="ID", help="the session: gone on with if it is there, else made")
    parser.add_argument("--no-history", action="store_true", help="neither read nor keep what was written in chats")
    options.add_workspace(parser)
    options.add_store(parser)
    options.add_agent(parser)


def run(args: argparse.Namespace) -> int:
    """Does it."""
    from .chatting import run as work

    return work(args)
