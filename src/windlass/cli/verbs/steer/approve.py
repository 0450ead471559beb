"""`windlass approve`: allow a call that waits for a person, bound to what was shown."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from windlass.cli import options

if TYPE_CHECKING:
    from windlass.store.base import Key, Store

EXAMPLES = """examples:
  windlass approve march             the only request that is open; shows what is approved
  windlass approve march p40         this one
  windlass approve march c6.0/p8     one of a child session, as 'windlass show march' lists it
  windlass approve march --together  all that was asked together, each shown in full
  windlass approve march --session-wide        this tool as it is, for later calls too
  windlass approve march --pattern 'git *'     calls of this tool whose subject fits
"""
HOUR_MS = 3_600_000


def configure(parser: argparse.ArgumentParser) -> None:
    """Describes the verb."""
    parser.epilog = EXAMPLES + options.NEXT
    options.add_session(parser)
    parser.add_argument("request", metavar="REQUEST", nargs="?", help="which request (else the only open one)")
    scope = parser.add_mutually_exclusive_group()
    scope.add_argument("--session-wide", action="store_true", help="this tool as it is, for later calls too")
    scope.add_argument("--pattern", metavar="GLOB", help="calls of this tool whose subject fits")
    parser.add_argument("--together", action="store_true", help="and those that were asked together with it")
    parser.add_argument("--for-hours", type=float, metavar="N", help="how long these two hold (24 unless set)")
    options.add_wait(parser)


def run(args: argparse.Namespace) -> int:
    """Does it."""
    from windlass.cli.stores import on_session

    return on_session(args, approve)


async def approve(args: argparse.Namespace, store: Store, key: Key) -> int:
    """Shows what is approved, then sends the approval."""
    from windlass.cli import command_delivery, identity
    from windlass.cli.open_requests import wanted_requests
    from windlass.cli.screen.person_requests import permission_lines
    from windlass.cli.terminal.text import Paint, put
    from windlass.cli.terminal.visible_text import spelt
    from windlass.events.errors import UsageError
    from windlass.events.tools.permissions import Covered, PermissionApproved, PermissionRequested
    from windlass.runtime.operate.log_point import read_point
    from windlass.runtime.operate.open_requests import askers
    from windlass.runtime.trees.tree_rows import key_at

    asking = await askers(store, await read_point(store, key))
    request, *others = wanted_requests(asking, args.request, together=args.together)
    for one in (request, *others):
        shown = one.shown
        if not isinstance(shown, PermissionRequested):
            continue
        if args.pattern and not shown.by_pattern:
            told = "not all that the call touches is known, or no line of text stands for it"
            wide = ", or say --session-wide for its tool" if shown.session_offered else ""
            fix = f"leave --pattern out to approve this call alone{wide}"
            raise UsageError(f"request {one.name} cannot be approved by a pattern: {told}; {fix}")
        if args.session_wide and not shown.session_offered:
            told = "it is asked about each time, or is not known and shown whole"
            fix = "leave --session-wide out to approve this call alone"
            raise UsageError(f"request {one.name} cannot be approved for the session: {told}; {fix}")
        for line in permission_lines(shown, Paint()):
            put(line)
    command = PermissionApproved(
        command_id=identity.fresh_command_id(),
        actor=identity.actor(),
        request_id=request.request_id,
        scope="session" if args.session_wide else "pattern" if args.pattern else "once",
        pattern=args.pattern,
        digest=request.digest or None,
        also=tuple(Covered(request_id=one.request_id, digest=one.digest) for one in others),
        for_ms=None if args.for_hours is None else max(0, round(args.for_hours * HOUR_MS)),
    )
    names = ", ".join(spelt(one.name) for one in (request, *others))
    what = f"approved {names}: {spelt(request.tool)} may run{later(args)}"
    return await command_delivery.send(store, key_at(key, request.scope), command, what, args)


def later(args: argparse.Namespace) -> str:
    """What else an approval lets pass."""
    from windlass.cli.terminal.visible_text import spelt

    if args.session_wide:
        return ", and later calls of it as well (see 'windlass grants')"
    return f", and so may calls of it whose subject fits {spelt(args.pattern)!r}" if args.pattern else ""
