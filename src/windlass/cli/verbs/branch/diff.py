"""`windlass diff`: compare what was said in two sessions, such as a fork and its origin."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from windlass.cli import options

if TYPE_CHECKING:
    from windlass.runtime.operate.comparison import Comparison
    from windlass.store.base import Key

EXAMPLES = """examples:
  windlass diff march march-no       where march-no differs from march
  windlass diff march - --json       against the session that changed last, for programs

Prompts, replies, calls and results are compared as the model sees them, wherever in their logs they stand.
exit codes: 0 the same was said in both, 1 they differ, 2 wrong usage
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Describes the verb."""
    parser.epilog = EXAMPLES
    options.add_session(parser)
    parser.add_argument("other", metavar="OTHER", help="the session to compare it with")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    """Does it."""
    import asyncio

    return asyncio.run(diff(args))


async def diff(args: argparse.Namespace) -> int:
    """Prints the difference; the exit code says whether there is one."""
    from windlass.cli import stores
    from windlass.runtime.operate.comparison import compare_sessions

    async with stores.opened(args) as store:
        before, after = await stores.session_key(store, args), await stores.session_key(store, args, args.other)
        two = await compare_sessions(store, before, after)
    report(args, before, after, two)
    return int(not two.same)


def report(args: argparse.Namespace, before: Key, after: Key, two: Comparison) -> None:
    """The difference for people or for programs."""
    from windlass.cli.screen.number_words import plural
    from windlass.cli.screen.tables import difference
    from windlass.cli.terminal.text import put, tell, tell_json
    from windlass.cli.terminal.visible_text import visible

    names = (before.session, after.session)
    if args.json:
        tell_json({"sessions": names, "same": two.same, "difference": two.difference(*names)})
        return
    for line in difference([visible(line) for line in two.difference(*names)]):
        put(line)
    if two.same:
        tell(f"the same was said in both: {plural(len(two.before), 'line')}")
