"""The delivery of a command: checked against the session as it stands, put in its inbox, watched for a moment.

A command only ever reaches a session through its inbox, so that it works while another process drives it.
"""

from __future__ import annotations

import asyncio
import time
from typing import Literal

import msgspec

from windlass.events.base import Command, Event
from windlass.events.commands import CommandCompleted, CommandRefused
from windlass.events.errors import Refused, UsageError
from windlass.events.runs import CancelReceived, InterruptReceived, WakeReceived
from windlass.events.stored import codec
from windlass.kernel import log
from windlass.kernel.step import step
from windlass.runtime.commands.fitting_answers import check_answer
from windlass.runtime.commands.left_trees import check_is_here
from windlass.runtime.commands.pending_commands import INBOX_MAX, check_behind, pending
from windlass.runtime.streams.log_reader import LogReader
from windlass.store.base import Holder, InboxCommand, Key, Store

from .lease_holder import holder_of
from .log_point import Point, read_point

WAIT_S = 2.0
"""How long a delivery is watched if nobody says how long."""
POLL_S = 0.05

STOPS_AND_WAKES = (InterruptReceived, CancelReceived, WakeReceived)
"""Commands that any session takes, even if there is nothing for them to do."""

Outcome = Literal["needless", "taken", "kept"]
"""It would have changed nothing and was not sent; whoever drives the session took it; it waits in the inbox."""


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a command while it was watched."""

    command_id: str
    outcome: Outcome
    state: str = ""
    """What the session was doing before, in a word."""
    note: str = ""
    """Why the command was needless."""
    events: tuple[Event, ...] = ()
    """What followed in the log of a command that was taken, as far as it was there already."""
    holder: Holder | None = None
    """Who drives the session and has not taken the command yet."""


async def deliver(store: Store, key: Key, command: Command, *, wait_s: float = WAIT_S) -> Delivery:
    """Checks a command, sends it and watches what becomes of it. Raises `UsageError` if the session would refuse it as
    it stands or because of what was sent before it, and `Refused` if it was sent and is, or will be, refused."""
    point = await check(store, key, command)
    note = await needless(store, point, command)
    if note:
        state = point.overview.state
        return Delivery(command_id=command.command_id, outcome="needless", state=state, note=note)
    return await send(store, key, command, wait_s=wait_s)


async def check(store: Store, key: Key, command: Command) -> Point:
    """The session as it stands. Raises `UsageError` if it would refuse the command now, or behind those that wait in
    its inbox."""
    point = await read_point(store, key)
    try:
        await check_is_here(command, store, key)
        decided(point, command)
        await check_answer(command, LogReader(store), key, point.state)
        check_behind(point.state, await pending(store, key), command, later_ms(point))
    except Refused as refusal:
        raise UsageError(f"session {key.session!r} would refuse that now: {refusal}") from None
    return point


async def needless(store: Store, point: Point, command: Command) -> str:
    """Why a command would change nothing; empty if it would change something, or if others wait in the inbox before
    it."""
    if not isinstance(command, STOPS_AND_WAKES) or await store.inbox.waiting(point.key, limit=1):
        return ""
    append = decided(point, command)
    if all(isinstance(event, CommandCompleted) or event is append[0] for event in append):
        return next((event.note for event in append if isinstance(event, CommandCompleted)), "")
    return ""


def decided(point: Point, command: Command) -> list[Event]:
    """What would follow from a command now. Raises `Refused`; the point stays as it is."""
    return step(log.copy(point.state), command, later_ms(point))


async def send(store: Store, key: Key, command: Command, *, wait_s: float = WAIT_S) -> Delivery:
    """Puts a command in the inbox and watches for a moment whether whoever drives the session takes it."""
    head = await store.log.head(key)
    before = head.seq if head is not None else 0
    data = codec.encode_command(command)
    await store.inbox.send(key, InboxCommand(command_id=command.command_id, at_ms=now_ms(), data=data))
    if not await taken(store, key, command.command_id, wait_s):
        await check_race(store, key, command)
        holder = await holder_of(store, key)
        return Delivery(command_id=command.command_id, outcome="kept", holder=holder)
    events = [record.event async for record in LogReader(store).records(key, after=before)]
    for event in events:
        if isinstance(event, CommandRefused) and event.command_id == command.command_id:
            raise Refused(event.code, f"the session refused it: {event.message}")
    return Delivery(command_id=command.command_id, outcome="taken", events=tuple(events))


async def check_race(store: Store, key: Key, command: Command) -> None:
    """Raises `Refused` if somebody else's command came into the inbox first, so that this one will be refused."""
    before = await pending(store, key, before=command.command_id)
    point = await read_point(store, key)
    try:
        check_behind(point.state, before, command, later_ms(point))
    except Refused as refusal:
        raise Refused(refusal.code, f"it was sent, and the session will refuse it: {refusal}") from None


async def taken(store: Store, key: Key, command_id: str, wait_s: float) -> bool:
    """Whether a command leaves the inbox in time."""
    until = time.monotonic() + wait_s
    while any(waiting.command_id == command_id for waiting in await store.inbox.waiting(key, limit=INBOX_MAX)):
        if time.monotonic() >= until:
            return False
        await asyncio.sleep(POLL_S)
    return True


def later_ms(point: Point) -> int:
    """Now, by a session's clock."""
    return max(point.state.now_ms, now_ms())


def now_ms() -> int:
    return time.time_ns() // 1_000_000
