"""`windlass settle`: say what became of a call whose outcome is unknown."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from windlass.cli import options

if TYPE_CHECKING:
    from windlass.store.base import Key, Store

EXAMPLES = """examples:
  windlass settle march c31.0 happened --text 'invoice I-7 is paid'
  windlass settle march c31.0 did_not_happen
  windlass settle march - run_again          the only one there is
"""
OUTCOMES = ("happened", "did_not_happen", "run_again")


def configure(parser: argparse.ArgumentParser) -> None:
    """Describes the verb."""
    parser.epilog = EXAMPLES + options.NEXT
    options.add_session(parser)
    told = f"which call, or {options.NEWEST} if there is only one; 'windlass show' lists them"
    parser.add_argument("call", metavar="CALL", help=told)
    parser.add_argument("outcome", choices=OUTCOMES, help="what became of it")
    parser.add_argument("--text", default="", help="its result, for the model")
    options.add_wait(parser)


def run(args: argparse.Namespace) -> int:
    """Does it."""
    from windlass.cli.stores import on_session

    return on_session(args, settle)


async def settle(args: argparse.Namespace, store: Store, key: Key) -> int:
    """Sends what became of the call."""
    from windlass.cli import command_delivery, identity
    from windlass.cli.screen.person_requests import unsettled_lines
    from windlass.cli.terminal.text import Paint, put
    from windlass.cli.terminal.visible_text import spelt
    from windlass.events.errors import UsageError
    from windlass.events.tools.calls import ResultBody, ToolSettled
    from windlass.events.values.blocks import Text
    from windlass.models.tokens import estimate_text
    from windlass.runtime.operate.log_point import read_point
    from windlass.runtime.operate.open_requests import askers, unsettled_in_tree
    from windlass.runtime.trees.tree_rows import key_at

    asking = await askers(store, await read_point(store, key))
    unsettled = {call.name: call for call in unsettled_in_tree(asking)}
    open_now = ", ".join(map(spelt, unsettled)) or "none"
    any_of_them = args.call == options.NEWEST
    if any_of_them and len(unsettled) > 1:
        raise UsageError(f"which call? several have an unknown outcome: {open_now}")
    name = next(iter(unsettled), args.call) if any_of_them else args.call
    if name not in unsettled:
        why = "a person settles the calls of tools that say settle=True; of others the model is told"
        raise UsageError(f"no call {name!r} waits to be settled; there is: {open_now} ({why})")
    call = unsettled[name]
    for line in unsettled_lines(call, Paint()):
        put(line)
    command = ToolSettled(
        command_id=identity.fresh_command_id(),
        actor=identity.actor(),
        call_id=call.call_id,
        outcome=args.outcome,
        tokens=estimate_text(args.text) if args.text else 0,
        body=ResultBody(content=(Text(text=args.text),)) if args.text else None,
    )
    what = f"settled {spelt(name)}: {args.outcome.replace('_', ' ')}"
    return await command_delivery.send(store, key_at(key, call.scope), command, what, args)
