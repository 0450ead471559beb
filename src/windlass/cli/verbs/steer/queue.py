"""`windlass queue`: show the prompts that wait, drop some, or put them in another order."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from windlass.cli import options

if TYPE_CHECKING:
    from windlass.runtime.operate.log_point import Point
    from windlass.store.base import Key, Store

EXAMPLES = """examples:
  windlass queue march               the prompts that wait, in their order
  windlass queue march --drop P      drop one
  windlass queue march --order P Q   put them in this order; those not named are dropped
"""
SAID_MAX = 200


def configure(parser: argparse.ArgumentParser) -> None:
    """Describes the verb."""
    parser.epilog = EXAMPLES + options.NEXT
    options.add_session(parser)
    change = parser.add_mutually_exclusive_group()
    change.add_argument("--drop", metavar="PROMPT", action="append", help="drop this one (repeatable)")
    change.add_argument("--order", metavar="PROMPT", nargs="+", help="the new order; others are dropped")
    change.add_argument("--json", action="store_true", help="print the prompts that wait as JSON")
    options.add_wait(parser)


def run(args: argparse.Namespace) -> int:
    """Does it."""
    from windlass.cli.stores import on_session

    return on_session(args, queue)


async def queue(args: argparse.Namespace, store: Store, key: Key) -> int:
    """Shows the queue, or changes it."""
    from windlass.cli.terminal.text import tell_json
    from windlass.events.values.ids import prompt_id
    from windlass.runtime.operate.log_point import read_point

    point = await read_point(store, key)
    waiting = {prompt_id(seq): seq for seq in point.state.queue.waiting}
    if args.json:
        tell_json([{"prompt_id": name, "text": prompt_text(point, seq)} for name, seq in waiting.items()])
        return 0
    if args.drop is None and args.order is None:
        show(point, waiting)
        return 0
    return await change(args, store, point, waiting)


def show(point: Point, waiting: dict[str, int]) -> None:
    """The prompts that wait, in their order, and what makes them go on."""
    from windlass.cli.terminal.text import one_line, tell
    from windlass.cli.terminal.visible_text import spelt

    session = spelt(point.key.session)
    if not waiting:
        tell(f"no prompt waits in session {session!r}")
    for name, seq in waiting.items():
        tell(f"{name}  {one_line(prompt_text(point, seq), SAID_MAX)}", indent=" " * (len(name) + 2))
    if waiting and not point.state.active:
        tell(f"the queue is held: 'windlass wake {session}' lets the session go on with it")


async def change(args: argparse.Namespace, store: Store, point: Point, waiting: dict[str, int]) -> int:
    """Drops prompts, or puts them in another order."""
    from windlass.cli import command_delivery, identity
    from windlass.events.commands import QueueEdited
    from windlass.events.errors import UsageError

    unknown = [name for name in args.order or args.drop if name not in waiting]
    if unknown:
        listed = f"waiting are {', '.join(waiting)}" if waiting else "none waits at all"
        raise UsageError(f"no prompt {unknown[0]!r} waits in session {point.key.session!r}: {listed}")
    order = tuple(args.order) if args.order else tuple(name for name in waiting if name not in args.drop)
    command = QueueEdited(command_id=identity.fresh_command_id(), actor=identity.actor(), order=order)
    what = f"the queue becomes: {', '.join(order) or 'empty'}"
    return await command_delivery.send(store, point.key, command, what, args)


def prompt_text(point: Point, seq: int) -> str:
    """What a prompt says."""
    from windlass.events.commands import PromptReceived
    from windlass.runtime.operate.item_text import prompt_text

    event = point.event(seq)
    return prompt_text(event.body, whole=False) if isinstance(event, PromptReceived) and event.body is not None else ""
