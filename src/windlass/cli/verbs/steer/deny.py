"""`windlass deny`: refuse a call that waits for a person."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from windlass.cli import options

if TYPE_CHECKING:
    from windlass.store.base import Key, Store

EXAMPLES = """examples:
  windlass deny march                the only request that is open
  windlass deny march p40 --feedback 'ask Ada first'     the model reads the feedback
  windlass deny march --stop         and the run ends
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Describes the verb."""
    parser.epilog = EXAMPLES + options.NEXT
    options.add_session(parser)
    parser.add_argument("request", metavar="REQUEST", nargs="?", help="which request (else the only open one)")
    parser.add_argument("--feedback", default="", metavar="TEXT", help="what the model should know")
    parser.add_argument("--together", action="store_true", help="and those that were asked together with it")
    parser.add_argument("--stop", action="store_true", help="end the run too")
    options.add_wait(parser)


def run(args: argparse.Namespace) -> int:
    """Does it."""
    from windlass.cli.stores import on_session

    return on_session(args, deny)


async def deny(args: argparse.Namespace, store: Store, key: Key) -> int:
    """Sends the refusal."""
    from windlass.cli import command_delivery, identity
    from windlass.cli.open_requests import wanted_requests
    from windlass.cli.terminal.visible_text import spelt
    from windlass.events.tools.permissions import FeedbackBody, PermissionDenied
    from windlass.runtime.operate.log_point import read_point
    from windlass.runtime.operate.open_requests import askers
    from windlass.runtime.trees.tree_rows import key_at

    asking = await askers(store, await read_point(store, key))
    request, *others = wanted_requests(asking, args.request, together=args.together)
    command = PermissionDenied(
        command_id=identity.fresh_command_id(),
        actor=identity.actor(),
        request_id=request.request_id,
        stop=args.stop,
        also=tuple(one.request_id for one in others),
        body=FeedbackBody(feedback=args.feedback) if args.feedback else None,
    )
    then = "and the run ends" if args.stop else "the model is told so"
    names = ", ".join(spelt(one.name) for one in (request, *others))
    what = f"denied {names}: {spelt(request.tool)} does not run, {then}"
    return await command_delivery.send(store, key_at(key, request.scope), command, what, args)
