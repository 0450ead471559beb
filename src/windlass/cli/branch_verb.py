"""Describes `fork`, `export`, `import` and `prune` to the parser; `moving` does the work."""

from __future__ import annotations

import argparse

from . import options

EXAMPLES = {
    "fork": """examples:
  windlass fork march                a new session that goes on from where march is now
  windlass fork march --at 40 --as march-retry      from behind record 40, under this id

The history is shared, not copied. What was open at that point is closed in the fork; march itself is not touched.
""",
    "export": """examples:
  windlass export march march.jsonl  the whole session: log, commands, blobs; ends in its own checksum
  windlass export march | ssh host windlass import -
""",
    "import": """examples:
  windlass import march.jsonl        under its own id
  windlass import march.jsonl --as march-copy

Every line is verified on the way in; an import that fails leaves nothing behind.
""",
    "prune": """examples:
  windlass prune --older-than 30d    what would be removed (a dry run)
  windlass prune --older-than 30d --yes      remove it

Only sessions that are at rest (idle) are removed, and none that forks refer to.
""",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Describes the verb."""
    verb = options.verb_of(parser)
    parser.epilog = EXAMPLES[verb]
    if verb == "fork":
        options.add_session(parser)
        parser.add_argument("--at", type=int, metavar="SEQ", help="behind this record (else at the end)")
        parser.add_argument("--as", dest="new", metavar="ID", help="the id of the new session")
        parser.add_argument("--json", action="store_true", help="print JSON")
    elif verb == "export":
        options.add_session(parser)
        parser.add_argument("file", metavar="FILE", nargs="?", default="-", help="where to (else standard output)")
        parser.add_argument("--whole", action="store_true", help="of a fork: with the history that it shares")
    elif verb == "import":
        parser.add_argument("file", metavar="FILE", help="an export, or - for standard input")
        options.add_store(parser)
        parser.add_argument("--as", dest="new", metavar="ID", help="another id than its own")
    else:
        options.add_store(parser)
        parser.add_argument("--older-than", required=True, metavar="AGE", help="such as 12h, 30d, 8w: since its change")
        parser.add_argument("--agent", metavar="NAME", help="only sessions of this agent")
        parser.add_argument("--yes", action="store_true", help="remove them; without it nothing is changed")
        parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    """Does it."""
    from .moving import run as work

    return work(args)
