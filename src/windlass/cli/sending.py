"""A command on its way to a session: into the inbox, then said plainly what will happen next."""

from __future__ import annotations

import argparse
import sys

from windlass.events.base import Command, name_of
from windlass.events.runs import CancelReceived, CommandCompleted, InterruptReceived, Terminal, WakeReceived
from windlass.kernel import log
from windlass.kernel.decide import step
from windlass.kernel.owed import overview
from windlass.store.base import Key, Store

from . import commands, stores
from .text import tell, visible

STOPS_AND_WAKES = (InterruptReceived, CancelReceived, WakeReceived)
"""Commands that any session takes, also where there is nothing for them to do."""


async def send(store: Store, key: Key, command: Command, what: str, args: argparse.Namespace) -> int:
    """Checks the command against the session as it is, puts it in the inbox, and says what comes of it."""
    found = await stores.check(store, key, command)
    idle = await for_nothing(store, key, found, command)
    if idle:
        name, state = visible(key.session), overview(found.state).state
        more = f"; 'windlass show {commands.word(key.session)}' says for what" if state == "asked" else ""
        tell(f"session {name!r} is {state}: {idle}{more}. Nothing was sent.")
        return 0
    delivered = await stores.deliver(store, key, command, wait_s=args.wait)
    tell(what)
    if delivered.taken:
        after = [event for event in delivered.events if isinstance(event, Terminal)]
        ended = f"; then {name_of(after[-1]).replace('.', ' ')}" if after else ""
        tell(f"taken by the process that drives the session{ended}")
    elif (holder := await stores.holder_of(store, key)) is not None:
        tell(f"kept in the inbox; {stores.driver(holder)} drives the session and has not taken it yet")
    else:
        agent = (await stores.row_of(store, key)).agent
        tell(f"kept in the inbox; nobody drives this session now. It goes on when agent {visible(agent)!r} is run:")
        print(f"  {commands.run_of(agent, key.session, args)}")
    sys.stdout.flush()
    return 0


async def for_nothing(store: Store, key: Key, found: stores.Folded, command: Command) -> str:
    """Why a command would change nothing; empty where it would, or where others wait in the inbox before it."""
    if not isinstance(command, STOPS_AND_WAKES) or await store.inbox(key, limit=1):
        return ""
    append = step(log.copy(found.state), command, max(found.state.now_ms, stores.now_ms()))
    if all(isinstance(event, CommandCompleted) or event is append[0] for event in append):
        return next((event.note for event in append if isinstance(event, CommandCompleted)), "")
    return ""
