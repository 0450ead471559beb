"""Taking a session from a file. A file says what happened, never what may happen here: the session comes under the
tenant of whoever imports it, with an empty inbox; what was open is closed, what was allowed is withdrawn."""

from __future__ import annotations

from collections.abc import AsyncIterable, Sequence

import msgspec

from windlass.events.base import Command
from windlass.events.commands import CommandRefused
from windlass.events.errors import CodecError, Damaged, KernelError, Refused, UsageError
from windlass.events.runs import RunInterrupted
from windlass.events.sessions import SessionImported
from windlass.events.stored import codec
from windlass.events.stored.codec import Appended
from windlass.events.tools.permissions import GrantsChanged
from windlass.kernel import log
from windlass.kernel.state import State
from windlass.kernel.step import step
from windlass.runtime.host.ports import Ports, SystemPorts
from windlass.runtime.owner.index_row import row_of
from windlass.runtime.streams.log_reader import LogReader
from windlass.store.base import Key, Store
from windlass.store.transfer import Exported, adopt_export, read_export, spool


class Imported(msgspec.Struct, frozen=True, kw_only=True):
    """A session that came in a file, and what of it does not hold here."""

    key: Key
    records: int
    """How many it had."""
    grants: int = 0
    """Standing approvals that were withdrawn."""
    closed: bool = False
    """Whether something was open in it that is closed now."""


async def import_session(
    store: Store,
    source: AsyncIterable[bytes],
    *,
    tenant: str = "default",
    session: str | None = None,
    by: str = "",
    ports: Ports | None = None,
    moved: bool = False,
) -> Imported:
    """Writes an exported session into a store, under its own id or another. It is there as a whole or not at all.
    `moved` is for `windlass.runtime.sessions.handoff`: the session was handed over, and is no copy. Raises `Damaged`
    for a file that is not whole or holds no log, `UsageError` if there is such a session."""
    with spool() as room:
        exported = await read_export(source, room)
        key = Key(tenant, session or exported.session)
        return await _brought_in(store, exported, key, by, ports or SystemPorts(), moved=moved)


async def _brought_in(store: Store, exported: Exported, key: Key, by: str, world: Ports, *, moved: bool) -> Imported:
    state = await _state(store, key, exported)
    seq, digest = exported.end
    epoch = max([state.epoch, *(sealed.epoch for sealed in exported.lines)]) + 1
    fact = SessionImported(session_id=key.session, epoch=epoch, by=by, source=exported.session, moved=moved)
    try:
        events = step(state, fact, max(state.now_ms, world.now_ms()))
    except Refused as refusal:
        raise UsageError(f"session {exported.session!r} has nothing in it that could go on: {refusal}") from refusal
    sealed = codec.encode(events, prev_hash=digest, seq=seq + 1, at_ms=state.now_ms, epoch=epoch, salt=world.salt)
    await adopt_export(store, exported, key, behind=[sealed], index=row_of(key, state))
    grants = sum(len(event.revoked) for event in events if isinstance(event, GrantsChanged))
    closed = any(isinstance(event, RunInterrupted) for event in events)
    return Imported(key=key, records=seq, grants=grants, closed=closed)


async def _state(store: Store, key: Key, exported: Exported) -> State:
    """What the log in the file adds up to. Raises `Damaged` for one that no kernel can have written."""
    state = State()
    if exported.origin is not None:
        state = await LogReader(store).state_at(Key(key.tenant, exported.origin.session), exported.origin.seq)
    taken: dict[int, list[str]] = {}
    for take in exported.takes:
        taken.setdefault(take.seq, []).append(take.command_id)
    try:
        for sealed in exported.lines:
            append = codec.decode(sealed.data)
            _require_taken(append, taken.get(append.first_seq, ()))
            log.fold_append(state, append)
    except CodecError as error:
        raise UsageError(f"the session cannot be read by this version of windlass: {error}") from error
    except KernelError as error:
        raise Damaged(f"the lines are no log of a session: {error}") from error
    return state


def _require_taken(append: Appended, taken: Sequence[str]) -> None:
    """Raises `Damaged` for an append that does not hold what it took: a command that comes later under such an id would
    be acknowledged and never carried out."""
    held = {event.command_id for event in append.events if isinstance(event, Command | CommandRefused)}
    for command_id in taken:
        if command_id not in held:
            raise Damaged(f"append {append.first_seq} holds no command {command_id!r}", seq=append.first_seq)
