"""`windlass logs`: a session's log as a timeline, as JSON or as stored; with `-f` as it grows."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from windlass.cli import options

if TYPE_CHECKING:
    from windlass.store.base import Key, Store

EXAMPLES = """examples:
  windlass logs march                what happened, one record after the other
  windlass logs march -f             the same, and what happens from now on (Ctrl-C ends it)
  windlass logs - --after 40         the newest session, after record 40
  windlass logs march --json         one JSON object per record: seq, at_ms, cause, event
  windlass logs march --raw          the sealed lines as they are stored
  windlass logs march --view meerkat in the events of another system, one JSON object each
  windlass logs march --tree -f      with the sessions below it; --depth 1 for its children alone
  windlass logs march --tree --view meerkat      the same in Meerkat's events, each with its scope
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Describes the verb."""
    parser.epilog = EXAMPLES
    options.add_session(parser)
    parser.add_argument("-f", "--follow", action="store_true", help="go on as the log grows, until Ctrl-C")
    parser.add_argument("--after", type=int, default=0, metavar="SEQ", help="only records after this one")
    parser.add_argument("--tree", action="store_true", help="with the records of the sessions below it, in one order")
    parser.add_argument("--depth", type=int, metavar="N", help="with --tree: how deep (all of it unless set)")
    parser.add_argument("--all", action="store_true", help="show bookkeeping records too")
    parser.add_argument("--full", action="store_true", help="show texts whole")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="one JSON object per record")
    form.add_argument("--raw", action="store_true", help="the stored lines")
    form.add_argument(
        "--view", metavar="NAME", help="in the form of another system: meerkat, meerkat-verbose, copilot, duet"
    )


def run(args: argparse.Namespace) -> int:
    """Does it."""
    from windlass.cli.stores import on_session

    return on_session(args, logs)


async def logs(args: argparse.Namespace, store: Store, key: Key) -> int:
    """Prints it in the form that is wanted."""
    from windlass.events.errors import UsageError

    if args.depth is not None and (not args.tree or args.depth < 0):
        raise UsageError(f"--depth {args.depth}: says how deep --tree goes; 0 is the session alone")
    if args.tree and (args.raw or args.after):
        raise UsageError("--tree goes with neither --raw nor --after: a place in one log says nothing of the others")
    if args.tree and args.view:
        await print_tree_view(args, store, key)
    elif args.tree:
        await print_tree(args, store, key)
    elif args.raw:
        await print_raw(args, store, key)
    elif args.json or args.view:
        await print_json(args, store, key)
    elif not await print_timeline(args, store, key):
        from windlass.cli.terminal.text import put
        from windlass.cli.terminal.visible_text import spelt

        put(f"session {spelt(key.session)} has no record" + (f" after {args.after}" if args.after else " yet"))
    return 0


async def print_raw(args: argparse.Namespace, store: Store, key: Key) -> None:
    """The appends as they are stored."""
    import sys

    from windlass.cli.terminal.text import tell_bytes
    from windlass.protocol.log_tail import appends

    async for sealed in appends(store, key, follow=args.follow):
        if sealed.last_seq > args.after:
            tell_bytes(sealed.data + b"\n")
            if args.follow:
                sys.stdout.flush()


async def print_json(args: argparse.Namespace, store: Store, key: Key) -> None:
    """One JSON object per record, or the lines of a view of another system."""
    from windlass.protocol.log_tail import records
    from windlass.protocol.record_json import RecordJson
    from windlass.protocol.view import forms

    if args.view:
        from windlass.adapters.log_views import view_named

        lines = forms(view_named(args.view, key.session), records(store, key, follow=args.follow), after=args.after)
    else:
        lines = forms(RecordJson(), records(store, key, follow=args.follow), after=args.after)
    async for line in lines:
        tell_line(args, line)


def tell_line(args: argparse.Namespace, line: str) -> None:
    """A line for programs: ASCII already, so that no terminal obeys it."""
    print(line, flush=args.follow)


async def print_timeline(args: argparse.Namespace, store: Store, key: Key) -> bool:
    """The timeline. Says whether there was anything to show."""
    from windlass.cli.screen.timeline import Timeline, TimelinePage
    from windlass.cli.terminal.text import Paint, put, screen_width
    from windlass.protocol.log_tail import records
    from windlass.protocol.view import forms

    page, shown = TimelinePage(width=screen_width(), paint=Paint()), False
    view = Timeline(full=args.full, all_records=args.all)
    async for entry in forms(view, records(store, key, follow=args.follow), after=args.after):
        for line in page.lines(entry):
            put(line, flush=args.follow)
        shown = True
    return shown


async def print_tree_view(args: argparse.Namespace, store: Store, key: Key) -> None:
    """The lines of a view of another system that tells trees."""
    from windlass.adapters.log_views import tree_view_named
    from windlass.protocol.log_tail import tree

    view = tree_view_named(args.view, key.session)
    async for scoped in tree(store, key, depth=args.depth, follow=args.follow):
        for line in view.feed(scoped):
            tell_line(args, line)


async def print_tree(args: argparse.Namespace, store: Store, key: Key) -> None:
    """The records of a tree, each session named when it has the word; or one JSON object per record."""
    from windlass.cli.screen.timeline import Timeline, TimelinePage
    from windlass.cli.screen.tree_timeline import TreeTimeline
    from windlass.cli.terminal.text import Paint, put, screen_width
    from windlass.protocol.log_tail import tree
    from windlass.protocol.record_json import scoped_json

    page = TimelinePage(width=screen_width(), paint=Paint())
    view = TreeTimeline(page, lambda: Timeline(full=args.full, all_records=args.all), Paint())
    async for scoped in tree(store, key, depth=args.depth, follow=args.follow):
        for line in [scoped_json(scoped)] if args.json else view.lines(scoped):
            put(line, flush=args.follow)
