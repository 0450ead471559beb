"""A command on its way to a session: delivered, then said plainly what will happen next."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

import msgspec

from windlass.cli.screen.lease_holders import driver
from windlass.cli.terminal.text import put, tell
from windlass.cli.terminal.visible_text import spelt
from windlass.events.base import Command, name_of
from windlass.events.runs import Terminal
from windlass.runtime.operate import command_delivery
from windlass.runtime.operate.command_delivery import Delivery
from windlass.runtime.trees.tree_rows import root_of
from windlass.store.base import Key, Store

from . import identity, shell_lines, stores

Resume = Callable[[str, str, argparse.Namespace], str]
"""The command that drives a session of an agent."""


async def send(
    store: Store, key: Key, command: Command, what: str, args: argparse.Namespace, resume: Resume = shell_lines.run_of
) -> int:
    """Delivers a command and says what comes of it; `what` says what it does, `resume` how its session continues."""
    command = msgspec.structs.replace(command, auth=identity.AUTH)
    delivered = await command_delivery.deliver(store, key, command, wait_s=args.wait)
    if delivered.outcome == "needless":
        needless(key, delivered)
        return 0
    tell(what)
    if delivered.outcome == "taken":
        ends = [event for event in delivered.events if isinstance(event, Terminal)]
        ended = f"; then {name_of(ends[-1]).replace('.', ' ')}" if ends else ""
        tell(f"taken by the process that drives the session{ended}")
    elif delivered.holder is not None:
        tell(f"kept in the inbox; {driver(delivered.holder)} drives the session and has not taken it yet")
    else:
        root = Key(key.tenant, root_of(key.session))
        agent = (await stores.row_of(store, root)).agent
        tell(f"kept in the inbox; nobody drives this session now. It continues when agent {spelt(agent)!r} is run:")
        is_flow = await stores.flow_of(store, root)
        put(f"  {shell_lines.flow_of(root.session, args) if is_flow else resume(agent, root.session, args)}")
    sys.stdout.flush()
    return 0


def needless(key: Key, delivered: Delivery) -> None:
    """Says why nothing was sent."""
    asked = delivered.state == "asked"
    more = f"; 'windlass show {shell_lines.word(key.session)}' says for what" if asked else ""
    name = spelt(key.session)
    tell(f"session {name!r} is {delivered.state}: {delivered.note}{more}. Nothing was sent.")
