"""`windlass interrupt`, `cancel`, `wake`, `queue` and `rewind`: an operator's commands, through the inbox."""

from __future__ import annotations

import argparse
import asyncio

from windlass.events.base import Command
from windlass.events.errors import UsageError
from windlass.events.ids import prompt_id
from windlass.events.runs import CancelReceived, InterruptReceived, PromptReceived, QueueEdited, WakeReceived
from windlass.events.sessions import RewindReceived
from windlass.kernel import log
from windlass.store.base import Store

from . import sending, stores
from .render import in_words
from .text import one_line, tell, tell_json, visible

SAID_MAX = 200


def run(args: argparse.Namespace) -> int:
    """Does it."""
    return asyncio.run(control(args))


async def control(args: argparse.Namespace) -> int:
    async with stores.opened(args) as store:
        key = await stores.session_key(store, args)
        if args.verb == "queue":
            return await queue(store, await stores.folded(store, key), args)
        if args.verb == "rewind":
            command, what = await _rewind(store, await stores.folded(store, key), args)
        else:
            command, what = _simple(args)
        return await sending.send(store, key, command, what, args)


def _simple(args: argparse.Namespace) -> tuple[Command, str]:
    name, who = stores.fresh_command_id(), stores.actor()
    if args.verb == "interrupt":
        stop = InterruptReceived(command_id=name, actor=who, reason=args.reason)
        return stop, "interrupt: what runs is stopped and may go on later"
    if args.verb == "cancel":
        return CancelReceived(command_id=name, actor=who, reason=args.reason), "cancel: the run is closed for good"
    return WakeReceived(command_id=name, actor=who), "wake: what is owed is done now"


async def queue(store: Store, found: stores.Folded, args: argparse.Namespace) -> int:
    """Shows the queue, or changes it."""
    waiting = {prompt_id(seq): seq for seq in found.state.queue}
    if args.json:
        tell_json([{"prompt_id": name, "text": said_at(found, seq)} for name, seq in waiting.items()])
        return 0
    if args.drop is None and args.order is None:
        show_queue(found, waiting)
        return 0
    named = args.order or args.drop
    unknown = [name for name in named if name not in waiting]
    if unknown:
        raise UsageError(f"no prompt {unknown[0]!r} waits in session {found.key.session!r}: {listed(waiting)}")
    order = tuple(args.order) if args.order else tuple(name for name in waiting if name not in args.drop)
    command = QueueEdited(command_id=stores.fresh_command_id(), actor=stores.actor(), order=order)
    return await sending.send(store, found.key, command, f"the queue becomes: {', '.join(order) or 'empty'}", args)


def listed(waiting: dict[str, int]) -> str:
    return f"waiting are {', '.join(waiting)}" if waiting else "none waits at all"


def said_at(found: stores.Folded, seq: int) -> str:
    """What a prompt says."""
    event = found.event(seq)
    return in_words(event.body.content) if isinstance(event, PromptReceived) and event.body is not None else ""


def show_queue(found: stores.Folded, waiting: dict[str, int]) -> None:
    """The prompts that wait, in their order, and what makes them go on."""
    session = visible(found.key.session)
    if not waiting:
        tell(f"no prompt waits in session {session!r}")
    for name, seq in waiting.items():
        said = said_at(found, seq)
        tell(f"{name}  {one_line(said, SAID_MAX)}", indent=" " * (len(name) + 2))
    if waiting and not found.state.active:
        tell(f"they wait for a word: 'windlass wake {session}' lets the session go on")


async def _rewind(store: Store, found: stores.Folded, args: argparse.Namespace) -> tuple[Command, str]:
    if not 0 <= args.to <= found.state.seq:
        raise UsageError(f"--to {args.to}: session {found.key.session!r} has the records 1 to {found.state.seq}")
    earlier = await stores.folded(store, found.key, until=args.to) if args.to else None
    restored = log.visible(earlier.state) if earlier is not None else ()
    command = RewindReceived(
        command_id=stores.fresh_command_id(), actor=stores.actor(), to_seq=args.to, restored=restored
    )
    return command, f"rewind to {args.to}: the model sees {len(restored)} of {len(found.state.history)} items from here"
