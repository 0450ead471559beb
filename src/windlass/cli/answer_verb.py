"""Describes `approve`, `deny`, `answer` and `settle` to the parser; `answering` does the work."""

from __future__ import annotations

import argparse

from . import options

EXAMPLES = {
    "approve": """examples:
  windlass approve march             the only request that is open; shows what is approved
  windlass approve march p40         this one
  windlass approve march --session-wide        this tool, for the rest of the session
  windlass approve march --pattern 'git *'     calls of this tool whose subject fits
""",
    "deny": """examples:
  windlass deny march                the only request that is open
  windlass deny march p40 --feedback 'ask Ada first'     the model reads the feedback
  windlass deny march --stop         and the run ends
""",
    "answer": """examples:
  windlass answer march 'yes, both'  free text to the only question that is open
  windlass answer march q12 2        option 2
  windlass answer march q12 1,3      options 1 and 3
  windlass answer march --decline    no answer
""",
    "settle": """examples:
  windlass settle march c31.0 happened --text 'invoice I-7 is paid'
  windlass settle march c31.0 did_not_happen
  windlass settle march c31.0 run_again
""",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Describes the verb."""
    verb = options.verb_of(parser)
    parser.epilog = EXAMPLES[verb] + options.NEXT
    options.add_session(parser)
    if verb in ("approve", "deny"):
        parser.add_argument("request", metavar="REQUEST", nargs="?", help="which request (else the only open one)")
    if verb == "approve":
        scope = parser.add_mutually_exclusive_group()
        scope.add_argument("--session-wide", action="store_true", help="this tool, for the rest of the session")
        scope.add_argument("--pattern", metavar="GLOB", help="calls of this tool whose subject fits")
    elif verb == "deny":
        parser.add_argument("--feedback", default="", metavar="TEXT", help="what the model should know")
        parser.add_argument("--stop", action="store_true", help="end the run too")
    elif verb == "answer":
        parser.add_argument("words", metavar="[QUESTION] ANSWER", nargs="*", help="option numbers, or free text")
        parser.add_argument("--decline", action="store_true", help="decline to answer")
    else:
        parser.add_argument("call", metavar="CALL", help="which call; 'windlass show' lists them")
        parser.add_argument("outcome", choices=("happened", "did_not_happen", "run_again"), help="what became of it")
        parser.add_argument("--text", default="", help="its result, for the model")
    options.add_wait(parser)


def run(args: argparse.Namespace) -> int:
    """Does it."""
    from .answering import run as work

    return work(args)
