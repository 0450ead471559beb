"""The store that a command works on: which one, which session in it, what its log adds up to, and its inbox.

Commands only ever reach a session through its inbox, so that they work while another process drives it.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import secrets
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from windlass.events import codec
from windlass.events.base import Command, Event
from windlass.events.errors import NotFound, Refused, UsageError
from windlass.events.runs import CommandRefused
from windlass.kernel import log
from windlass.kernel.decide import step
from windlass.kernel.evolve import evolve, tick
from windlass.kernel.state import State
from windlass.runtime import liveness
from windlass.store import open_store, runners
from windlass.store.base import Holder, InboxCommand, IndexRow, Key, Query, Store
from windlass.store.chain import history

from .options import NEWEST, STORE_VARIABLE, WAIT_S, is_there, place_of
from .text import one_line

PREFIX_MIN = 3
FIND_MAX = 10_000
POLL_S = 0.05
DRIVER_CHARS_MAX = 40
"""How much of whoever drives a session is shown."""


@asynccontextmanager
async def opened(args: argparse.Namespace, *, make: bool = False) -> AsyncIterator[Store]:
    """The store, open. Raises `UsageError` where there is none and none is to be made."""
    place = place_of(args)
    if not make and not is_there(place):
        raise UsageError(
            f"there is no store at {place!r}: name one with --store or {STORE_VARIABLE}, "
            "or begin one with 'windlass run' or 'windlass demo'"
        )
    store = await open_store(place)
    try:
        yield store
    finally:
        await store.close()


async def session_key(store: Store, args: argparse.Namespace, name: str | None = None) -> Key:
    """The session of a name: its id, the only one that begins so, or the newest. Raises `UsageError` otherwise."""
    wanted = name if name is not None else args.session
    if wanted != NEWEST:
        exact = await _there(store, args.tenant, wanted)
        if exact is not None:
            return exact
    rows = await store.find(Query(tenant=args.tenant, limit=1 if wanted == NEWEST else FIND_MAX))
    found = [row.session for row in rows if wanted == NEWEST or row.session.startswith(wanted)]
    if len(found) == 1 and (wanted == NEWEST or len(wanted) >= PREFIX_MIN):
        return Key(args.tenant, found[0])
    if len(found) > 1:
        raise UsageError(f"{wanted!r} begins {len(found)} session ids ({', '.join(found[:3])} …): write more of it")
    if wanted == NEWEST:
        raise UsageError(f"there is no session in {place_of(args)!r} yet: begin one with 'windlass run'")
    raise UsageError(f"no session {wanted!r} in {place_of(args)!r}: 'windlass ps' lists them")


async def _there(store: Store, tenant: str, session: str) -> Key | None:
    key = Key(tenant, session)
    try:
        return key if await store.head(key) is not None else None
    except UsageError:  # no id of ours, so nobody has it
        return None


class Folded(msgspec.Struct, kw_only=True):
    """A log up to some record: its state, and its events with their content."""

    key: Key
    state: State
    events: dict[int, Event]
    at_seq: int

    def event(self, seq: int) -> Event:
        found = self.events.get(seq)
        if found is None:
            raise NotFound(f"session {self.key.session!r} has no event {seq}")
        return found


async def folded(store: Store, key: Key, *, until: int | None = None) -> Folded:
    """Folds a log up to and with the record `until`, also in the middle of an append."""
    state, events = State(), {}
    async for sealed in history(store, key):
        append = codec.decode(sealed.data)
        if until is not None and append.first_seq > until:
            break
        wanted = append.events if until is None else append.events[: until - append.first_seq + 1]
        tick(state, append.at_ms, type(append.events[0]))
        for event in wanted:
            known = codec.require_known(event, state.seq + 1)
            if known is None:
                state.seq += 1
                continue
            evolve(state, known)
            events[state.seq] = known
    return Folded(key=key, state=state, events=events, at_seq=state.seq)


class Delivered(msgspec.Struct, kw_only=True):
    """What became of a command while one watched."""

    command_id: str
    taken: bool
    events: list[Event] = []
    """What followed in the log, as far as it was there already."""


def fresh_command_id() -> str:
    """An id for a command from this terminal."""
    return f"cli-{secrets.token_hex(8)}"


def actor() -> str:
    """Who gives commands here."""
    return os.environ.get("USER") or os.environ.get("LOGNAME") or "operator"


async def check(store: Store, key: Key, command: Command) -> Folded:
    """Raises `UsageError` where the session would refuse the command as it stands now."""
    found = await folded(store, key)
    try:
        step(log.copy(found.state), command, max(found.state.now_ms, now_ms()))
    except Refused as refusal:
        raise UsageError(f"session {key.session!r} would refuse that now: {refusal}") from None
    return found


async def deliver(store: Store, key: Key, command: Command, *, wait_s: float = WAIT_S) -> Delivered:
    """Puts a command in the inbox and watches for a moment whether whoever drives the session takes it."""
    head = await store.head(key)
    before = head.seq if head is not None else 0
    data = codec.encode_command(command)
    await store.send(key, InboxCommand(command_id=command.command_id, at_ms=now_ms(), data=data))
    until = time.monotonic() + wait_s
    while any(waiting.command_id == command.command_id for waiting in await store.inbox(key, limit=10_000)):
        if time.monotonic() >= until:
            return Delivered(command_id=command.command_id, taken=False)
        await asyncio.sleep(POLL_S)
    events: list[Event] = []
    async for sealed in history(store, key, after=before):
        events += [event for event in codec.decode(sealed.data).events if isinstance(event, Event)]
    for event in events:
        if isinstance(event, CommandRefused) and event.command_id == command.command_id:
            raise Refused(event.code, f"the session refused it: {event.message}")
    return Delivered(command_id=command.command_id, taken=True, events=events)


async def holder_of(store: Store, key: Key) -> Holder | None:
    """Who has a session now; None where nobody has, or a process that is certainly gone."""
    found = await store.holder(key, now_ms=now_ms())
    return found if found is not None and not liveness.gone(found.runner) else None


async def holders_of(store: Store, rows: list[IndexRow]) -> dict[str, Holder]:
    """The same for the sessions of many rows, by their ids; those that nobody has are not in it."""
    found = {}
    for row in rows:
        try:
            holder = await holder_of(store, Key(row.tenant, row.session))
        except NotFound:  # deleted meanwhile
            continue
        if holder is not None:
            found[row.session] = holder
    return found


def driver(holder: Holder) -> str:
    """Who drives a session, in words: a process of this machine by its number, one of another with its host."""
    return one_line(liveness.told(holder.runner), DRIVER_CHARS_MAX)


def plain_holder(holder: Holder | None) -> dict[str, Any] | None:
    """The same for programs."""
    if holder is None:
        return None
    where = runners.whereabouts(holder.runner)
    known = {"host": where.host or None, "pid": where.pid, "here": liveness.is_here(where)}
    return {**msgspec.to_builtins(holder), **known}


async def row_of(store: Store, key: Key) -> IndexRow:
    """What the index knows of a session."""
    return await store.get_index(key) or IndexRow(session=key.session, tenant=key.tenant, state="new")


def now_ms() -> int:
    return time.time_ns() // 1_000_000
