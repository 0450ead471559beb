"""A command on its way to a session: into the inbox, then said plainly what will happen next."""

from __future__ import annotations

import argparse
import sys

from windlass.events.base import Command, name_of
from windlass.events.runs import Terminal
from windlass.store.base import Key, Store

from . import stores
from .text import visible


async def send(store: Store, key: Key, command: Command, what: str, args: argparse.Namespace) -> int:
    """Checks the command against the session as it is, puts it in the inbox, and says what comes of it."""
    await stores.check(store, key, command)
    delivered = await stores.deliver(store, key, command, wait_s=args.wait)
    print(what)
    if delivered.taken:
        after = [event for event in delivered.events if isinstance(event, Terminal)]
        ended = f" and ended: {name_of(after[-1]).replace('.', ' ')}" if after else ""
        print(f"taken by the process that drives the session; it goes on{ended}")
    else:
        row = await stores.row_of(store, key)
        agent = visible(row.agent)
        print(f"kept in the inbox; nobody drives this session now. It goes on when agent {agent!r} is run:")
        print(f"  windlass run --agent FILE.py:{agent} --session {visible(key.session)}{at(args)}")
    sys.stdout.flush()
    return 0


def at(args: argparse.Namespace) -> str:
    """The option that names the store, where it is not the one that is taken by itself."""
    return f" --store {args.store}" if args.store else ""
