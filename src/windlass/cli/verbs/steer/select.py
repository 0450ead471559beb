"""`windlass select`: have a session run by one of its agent's specialists, or by its agent itself again."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from windlass.cli import options

if TYPE_CHECKING:
    from windlass.store.base import Key, Store

EXAMPLES = """examples:
  windlass select march              who runs it: its agent, or a specialist
  windlass select march critic       have the specialist 'critic' run it
  windlass select march --own        have its own agent run it again
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Describes the verb."""
    parser.epilog = EXAMPLES + options.NEXT
    options.add_session(parser)
    parser.add_argument("specialist", metavar="SPECIALIST", nargs="?", help="which specialist of its agent")
    parser.add_argument("--own", action="store_true", help="its own agent again")
    options.add_wait(parser)


def run(args: argparse.Namespace) -> int:
    """Does it."""
    from windlass.cli.stores import on_session

    return on_session(args, select)


async def select(args: argparse.Namespace, store: Store, key: Key) -> int:
    """Says who runs a session, or changes it."""
    from windlass.cli import command_delivery, identity
    from windlass.cli.terminal.text import tell
    from windlass.cli.terminal.visible_text import spelt
    from windlass.events.changes import ChangeAgent, ChangeReceived
    from windlass.events.errors import UsageError
    from windlass.runtime.operate.log_point import read_point

    if args.specialist and args.own:
        raise UsageError("name a specialist, or write --own for the session's own agent: not both")
    setup = (await read_point(store, key)).state.setup
    agent, by = spelt(setup.agent.name), setup.options.specialist
    now = f"{agent} itself" if by is None else f"its specialist {spelt(by.name)}"
    if args.specialist is None and not args.own:
        tell(f"session {spelt(key.session)!r} of agent {agent!r} is run by {now}")
        return 0
    wanted = args.specialist or ""
    if wanted == (by.name if by is not None else ""):
        tell(f"session {spelt(key.session)!r} is run by {now} already. Nothing was sent.")
        return 0
    command = ChangeReceived(
        command_id=identity.fresh_command_id(), actor=identity.actor(), change=ChangeAgent(agent=wanted)
    )
    return await command_delivery.send(store, key, command, f"selected: {spelt(wanted) or agent}", args)
