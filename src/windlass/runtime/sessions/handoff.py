"""Handing a session over to another store: it goes on there, and never again here.

The last record of the log here decides: before it is kept the session is only here, from then on it is only there.
All that could refuse it there is asked before. Whatever breaks off is done again by the same call, and taken once.
See decision 056.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from typing import TYPE_CHECKING

import msgspec

from windlass.events.errors import LeaseHeld, NotFound, Refused, UsageError
from windlass.events.sessions import HandoffReceived
from windlass.kernel import parts
from windlass.kernel.parts.children import not_over
from windlass.kernel.phases import Left
from windlass.runtime.host.ports import Ports, SystemPorts
from windlass.runtime.host.steady_clock import SteadyClock
from windlass.runtime.operate import command_delivery
from windlass.runtime.operate.session_import import import_session
from windlass.runtime.owner.owner import Owner
from windlass.runtime.streams.log_reader import LogReader
from windlass.runtime.streams.subscribers import Hub
from windlass.runtime.trees.tree_rows import rows_below
from windlass.store.base import Key, Store
from windlass.store.rules.ids import check_key
from windlass.store.transfer import export_session, read_export, spool

if TYPE_CHECKING:
    from windlass.events.base import Auth

LEASE_MS = 60_000
"""For how long nobody else may write to a session while its last record is."""
WAIT_S = 30.0
"""How long another process that drives it has time to let it go."""
RUNNER = "handoff"
INBOX_MAX = 10_000
AT_WORK = ("running", "asked", "sleeping")
"""What a session below is doing if it has not ended."""


class HandedOver(msgspec.Struct, frozen=True, kw_only=True):
    """Where a session goes on."""

    to: str
    session: str
    """Its id there."""
    before: bool = False
    """Whether it had arrived there before this call."""
    grants: int = 0
    """Standing approvals that were withdrawn."""
    sent_on: int = 0
    """Commands that waited here and wait there now."""


class Mover(msgspec.Struct, frozen=True, kw_only=True):
    """Who hands something over, and how that is known."""

    actor: str
    auth: Auth = "none"


async def hand_over_to_server(
    store: Store, key: Key, url: str, token: str, *, by: Mover, session: str | None = None
) -> HandedOver:
    """Hands a session over to a server, where `token` must have the role `admin`. Raises `UsageError`, and the session
    is where it was; any other error may come in the middle: call it again."""
    from windlass.store.remote.store import RemoteStore

    asking = await RemoteStore.connect(url, token)
    try:
        target = await RemoteStore.open_whole(url, token)
        try:
            await _require_agent(store, key, asking)
            there = Key("default", session or key.session)
            return await hand_over(store, key, target, there, to=_told(target.url), by=by)
        finally:
            await target.close()
    finally:
        await asking.close()


async def hand_over(
    store: Store, key: Key, target: Store, there: Key, *, to: str, by: Mover, ports: Ports | None = None
) -> HandedOver:
    """Hands a session over to another store, which is called `to` from then on. Raises `UsageError` if it cannot be,
    and nothing has happened then."""
    world = ports or SystemPorts()
    left = await where(store, key)
    if left is None:
        await _try(store, key, target, check_key(there))
        command_id = f"handoff-{world.fresh_id()}"
        fact = HandoffReceived(command_id=command_id, actor=by.actor, auth=by.auth, to=to, session=there.session)
        await _leave(store, key, fact, world)
        left = await where(store, key)
    if left is None:
        raise UsageError(
            f"session {key.session!r} has not left yet: the process that drives it was asked to let it go. Try again"
        )
    if (left.to, left.session) != (to, there.session):
        raise UsageError(
            f"session {key.session!r} was handed over to {left.to} before, as {left.session!r}: finish that, or fork "
            "what is here"
        )
    return await _arrive(store, key, target, there, left, by)


async def where(store: Store, key: Key) -> Left | None:
    """Where a session has gone; None if it is here. Raises `NotFound`."""
    if await store.log.head(key) is None:
        raise NotFound(f"there is no session {key.session!r}")
    phase = (await LogReader(store).fold(key)).state.phase
    return phase if isinstance(phase, Left) else None


# --- before: may it go there? --------------------------------------------------------------------------------------


async def _require_agent(store: Store, key: Key, asking: Store) -> None:
    from windlass.store.driven_elsewhere import elsewhere_of

    elsewhere = elsewhere_of(asking)
    row = await store.index.get(key)
    if elsewhere is None or row is None:
        return
    served = await elsewhere.agents("default")
    if row.agent not in served:
        there = ", ".join(served) or "none"
        raise UsageError(f"nobody serves the agent {row.agent!r} there: there are {there}")


async def _try(store: Store, key: Key, target: Store, there: Key) -> None:
    """Asks for all that may refuse the session later, when it is too late: those below it and what they have running
    here, the log, the room, the rights."""
    for row in await rows_below(store, key):  # a detached child, and what it started, may outlive those between
        if row.owed or row.state in AT_WORK:
            raise _stays(key, Refused("busy", not_over(row.session, row.agent)))
        state = (await LogReader(store).fold(Key(key.tenant, row.session))).state
        for words in itertools.chain.from_iterable(behind(state) for behind in parts.TABLES.behind):
            raise _stays(key, Refused("busy", f"in child session {row.session}, {words}"))
    if await target.log.head(there) is not None:
        raise UsageError(f"there is a session {there.session!r} already: choose another id with --as")
    with spool() as room:
        exported = await read_export(export_session(store, key, whole=True), room)
    most = getattr(target, "adopt_bytes_max", None)
    size = sum(len(line.data) for line in exported.lines)
    if most is not None and size > most:
        raise UsageError(f"its log has {size:,} bytes, and a server takes {most:,} at once: use export and import")
    with contextlib.suppress(NotFound):  # it changes nothing, and needs the right to write
        await target.leases.release(there, runner=RUNNER, epoch=0)


# --- the one moment ------------------------------------------------------------------------------------------------


async def _leave(store: Store, key: Key, command: HandoffReceived, world: Ports) -> None:
    """Puts on record that the session goes: by this process, or by the one that drives it."""
    owner = Owner(store, key, world, Hub(closed=True), SteadyClock(world))
    try:
        await owner.lease.claim(world.runner(), LEASE_MS)
    except LeaseHeld:
        await _have_it_leave(store, key, command)
        return
    try:
        await owner.load()
        await owner.take(command, takes=(command.command_id,), waits=False)
    except Refused as refusal:
        raise _stays(key, refusal) from None
    finally:
        await owner.release()


async def _have_it_leave(store: Store, key: Key, command: HandoffReceived) -> None:
    try:
        await command_delivery.deliver(store, key, command, wait_s=WAIT_S)
    except Refused as refusal:
        raise _stays(key, refusal) from None


def _stays(key: Key, refusal: Refused) -> UsageError:
    return UsageError(f"session {key.session!r} cannot be handed over now: {refusal}")


# --- behind it -----------------------------------------------------------------------------------------------------


async def _arrive(store: Store, key: Key, target: Store, there: Key, left: Left, by: Mover) -> HandedOver:
    """Has the session go on there, unless it does. Safe to repeat."""
    grants, before = 0, await _has_arrived(target, there, left)
    if not before:
        try:
            made = await import_session(
                target,
                export_session(store, key, whole=True),
                tenant=there.tenant,
                session=there.session,
                by=by.actor,
                moved=True,
            )
            grants = made.grants
        except UsageError:
            before = await _has_arrived(target, there, left)
            if not before:
                raise
    waiting = await store.inbox.waiting(key, limit=INBOX_MAX)
    for command in waiting:
        await target.inbox.send(there, command)
    return HandedOver(to=left.to, session=there.session, before=before, grants=grants, sent_on=len(waiting))


async def _has_arrived(target: Store, there: Key, left: Left) -> bool:
    if await target.log.head(there) is None:
        return False
    return await LogReader(target).taken_at(there, left.command_id) is not None


def _told(url: str) -> str:
    """An address that means the same wherever it is read on this machine."""
    path = url.removeprefix("unix:")
    return f"unix:{os.path.abspath(path)}" if path != url else url
