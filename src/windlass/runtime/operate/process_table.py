"""The process table of a tree: what each session does and what it waits for, told from logs, index and leases alone.

ready ──▶ running ──┬──▶ blocked     somebody must do something first: a person, a client, a child
  ▲                 ├──▶ suspended   until a time, or until somebody wakes it
  └─────────────────┴──▶ done        nothing is open
"""

from __future__ import annotations

from typing import Literal

import msgspec

from windlass.events.base import name_of
from windlass.events.errors import CodecError, KernelError, StoreError
from windlass.events.runs import RunFailed, Terminal
from windlass.kernel.owed import opens, waiting_for
from windlass.kernel.parts.trees import child_side
from windlass.kernel.state import State
from windlass.runtime.streams.log_reader import LogReader
from windlass.runtime.trees.tree_rows import place_of, rows_below, scope_of
from windlass.store.base import IndexRow, Key, Store

from .lease_holder import holders_of

ProcessState = Literal["ready", "running", "blocked", "suspended", "done", "damaged"]
"""`ready`: it has something to do and no process does it; `damaged`: its log cannot be read."""


class Wait(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that a session waits for."""

    kind: str
    """permission, question, client, settle, child, timer, model, tool, job, credentials, wake, or process: one that
    runs its agent."""
    name: str
    """The id of it; of a child its place below the session; of a process the agent."""
    tool: str = ""
    at_ms: int | None = None

    def __str__(self) -> str:
        return f"{self.kind} {self.name}{f' ({self.tool})' if self.tool and self.kind != 'child' else ''}"


class Process(msgspec.Struct, frozen=True, kw_only=True):
    """One session of a tree."""

    session: str
    parent: str | None
    scope: str
    """Its place below the session that the table is of; empty for that one."""
    depth: int
    agent: str
    state: ProcessState
    waits_for: tuple[Wait, ...] = ()
    ended: str = ""
    """How its last run ended, if nothing is open: completed, failed, cancelled, interrupted."""
    why: str = ""
    """Why it failed, if it did."""
    machine: str = ""
    """The state that its machine is in, if it has one that has not ended."""
    driver: str = ""
    """The runner that has it now."""
    tokens: int = 0
    cost_nanos: int = 0
    updated_ms: int = 0


async def process_table(store: Store, key: Key) -> list[Process]:
    """A session and all below it, each behind the one that started it, the oldest call first. Nothing is opened,
    claimed or changed."""
    own = await store.index.get(key) or IndexRow(session=key.session, tenant=key.tenant, state="new", root=key.session)
    rows = [own, *await rows_below(store, key)]
    drivers = {name: holder.runner for name, holder in (await holders_of(store, rows)).items()}
    processes: dict[str, Process] = {}
    for row in rows:
        process, state = await _process(store, key, row, drivers.get(row.session, ""))
        processes[row.session] = process
        for child in state.children.open.values() if state is not None else ():
            processes.setdefault(child.child_id, _not_begun(key, row, child.child_id, child.agent))
    return sorted(processes.values(), key=lambda process: place_of(process.scope))


async def _process(store: Store, top: Key, row: IndexRow, driver: str) -> tuple[Process, State | None]:
    key, log = Key(row.tenant, row.session), LogReader(store)
    scope = scope_of(top.session, row.session)
    process = Process(
        session=row.session,
        parent=row.parent,
        scope=scope,
        depth=len(place_of(scope)),
        agent=row.agent,
        state="damaged",
        driver=driver,
        tokens=row.input_tokens + row.output_tokens,
        cost_nanos=row.cost_nanos,
        updated_ms=row.updated_ms,
    )
    try:
        state = (await log.fold(key)).state
        unread = bool(await store.inbox.waiting(key, limit=1))
        word, waits = _judged(state, driven=bool(driver), unread=unread)
        last = await log.newest(key, Terminal, until=state.seq, bodies=False) if word == "done" else None
    except (KernelError, StoreError, CodecError):
        return process, None
    ended = name_of(last).partition(".")[2] if last is not None else ""
    why = last.failure.message if isinstance(last, RunFailed) and last.failure is not None else ""
    here = state.machine.current if state.machine.status not in ("none", "ended") else ""
    return msgspec.structs.replace(process, state=word, waits_for=waits, ended=ended, why=why, machine=here), state


def _judged(state: State, *, driven: bool, unread: bool) -> tuple[ProcessState, tuple[Wait, ...]]:
    """What a session does, and what it waits for."""
    waits = _waits(state)
    agent = Wait(kind="process", name=state.setup.agent.name)
    if state.losses.parked and not state.active and not child_side.has_ended(state):
        return "suspended", (Wait(kind="wake", name=state.session_id), *waits)
    waits_only = bool(waits) and all(thing.by != "us" for thing in opens(state))
    if unread or (state.active and not waits_only):
        return ("running", waits) if driven else ("ready", (agent, *waits))
    if any(wait.kind != "timer" for wait in waits):
        return "blocked", waits
    if waits or state.schedule.next_ms is not None:
        return "suspended", waits or (Wait(kind="timer", name="schedule", at_ms=state.schedule.next_ms),)
    if not state.run.run_id and state.parent_id is not None:
        return "ready", (agent,)
    return "done", ()


def _waits(state: State) -> tuple[Wait, ...]:
    """What is open, each once; a child stands for all that it waits for itself."""
    waits: dict[tuple[str, str], Wait] = {}
    for thing in opens(state):
        name = _place(state, thing.open_id) if thing.kind == "child" else thing.open_id
        wait = Wait(kind=thing.kind, name=name, tool=thing.tool or thing.model, at_ms=thing.at_ms)
        waits.setdefault((wait.kind, wait.name), wait)
    if waiting_for(state) == ("credentials",):
        waits["credentials", ""] = Wait(kind="credentials", name=state.setup.model.name)
    return tuple(waits.values())


def _place(state: State, open_id: str) -> str:
    """The call that a child carries out."""
    return scope_of(state.session_id, open_id).partition("/")[0].partition("~")[0]


def _not_begun(top: Key, parent: IndexRow, session: str, agent: str) -> Process:
    """A child whose log is empty: its task is in its inbox."""
    scope = scope_of(top.session, session)
    return Process(
        session=session,
        parent=parent.session,
        scope=scope,
        depth=len(place_of(scope)),
        agent=agent,
        state="ready",
        waits_for=(Wait(kind="process", name=agent),),
    )
