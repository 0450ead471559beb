"""`windlass replay`: run a session again from some point, with another model or policy, and compare the two."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from windlass.cli import options

if TYPE_CHECKING:
    from windlass.runtime.operate.replay import Replay

EXAMPLES = """examples:
  windlass replay march --agent clerk.py:clerk --model sonnet       all of it, with another model
  windlass replay march --at 40 --agent clerk.py:clerk --policy read-only     from record 40, under another policy
  windlass replay march --agent clerk.py:clerk --live               and let the tools really run

A new session begins with what the model saw at that point and is given the same prompts again. If the point lies
within a run, that run begins again, and up to the point the model says what it said then. Tools do not run: a call that
was made before gets the result it got then, any other is told that it was not recorded; what a person was asked before
is answered as they answered it. The policy judges every call of the new session. The difference between the two is
printed; the session that is replayed is not touched.
exit codes: 0 it went as before, 1 it went differently, 2 wrong usage
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Describes the verb."""
    parser.epilog = EXAMPLES
    options.add_session(parser)
    parser.add_argument("--at", type=int, default=0, metavar="SEQ", help="after this record (else from the beginning)")
    parser.add_argument("--as", dest="new", metavar="ID", help="the id of the new session")
    parser.add_argument("--live", action="store_true", help="let tools run, with all their effects")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options.add_agent(parser)


def run(args: argparse.Namespace) -> int:
    """Does it. What an agent's own code prints is no part of its JSON."""
    import asyncio
    import sys
    from contextlib import nullcontext, redirect_stdout

    with redirect_stdout(sys.stderr) if args.json else nullcontext():
        replayed = asyncio.run(replay(args))
    return report(args, replayed)


async def replay(args: argparse.Namespace) -> Replay:
    """Runs it again."""
    from windlass.cli import stores
    from windlass.cli.agents import agent_of, options_of
    from windlass.cli.kept_session import options_at
    from windlass.events.errors import UsageError
    from windlass.runtime.bind.session_options import applied, merged
    from windlass.runtime.operate.log_point import read_point
    from windlass.runtime.operate.replay import ReplayPlan, WithinRun
    from windlass.runtime.operate.replay import replay as run_again

    options.here_only(args, "a replay")
    async with stores.opened(args) as store:
        key = await stores.session_key(store, args)
        whole = await read_point(store, key)
        if not 0 <= args.at <= whole.seq:
            raise UsageError(f"--at {args.at}: session {key.session!r} has the records 1 to {whole.seq}")
        before = options_at(args, whole)
        kept = merged(before, options_of(args, before))
        agent = applied(agent_of(args, kept), kept)
        told = args.instructions is not None
        plan = ReplayPlan(at_seq=args.at, session_id=args.new, live=args.live, own_instructions=told)
        try:
            return await run_again(store, whole, agent, plan)
        except WithinRun as error:
            raise UsageError(
                f"--at {args.at} lies within a run, and --live would make the calls before it again: leave one of "
                f"them out, or begin where the run does, with --at {error.rest_seq}"
            ) from None


def report(args: argparse.Namespace, replayed: Replay) -> int:
    """Prints the difference of the two sessions; the exit code says whether there is one."""
    from windlass.cli import shell_lines
    from windlass.cli.screen.number_words import plural
    from windlass.cli.screen.tables import difference
    from windlass.cli.terminal.text import put, tell, tell_json
    from windlass.cli.terminal.visible_text import visible

    old, new, two = replayed.replayed, replayed.session, replayed.comparison
    if args.json:
        tell_json({"replayed": old, "session": new, "same": two.same, "before": two.before, "after": two.after})
        return int(not two.same)
    if replayed.strayed:
        tell(f"it went differently before record {args.at} already: what was said then did not follow any more")
    for line in difference([visible(line) for line in two.difference(f"{old} (then)", f"{new} (now)")]):
        put(line)
    told = f"it went as before: {plural(replayed.items, 'item')}" if two.same else "it went differently"
    tell(f"{told}; look at it with: windlass logs {shell_lines.word(new)}{shell_lines.at(args)}")
    return int(not two.same)
