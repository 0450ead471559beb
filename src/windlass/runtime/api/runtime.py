"""The runtime: the door to a store, to the agents bound to code, and to their sessions.

It does nothing itself: what it is made of is put together in `host.host`, and its methods hand on to those parts.
"""

from __future__ import annotations

import functools
import os
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any, Unpack

from windlass.events.base import Command
from windlass.events.errors import UsageError
from windlass.events.values.items import HistoryItem
from windlass.events.values.setup import SessionOptions
from windlass.runtime.bind.bound_agent import Bound
from windlass.runtime.bind.local_code import Lent
from windlass.runtime.bind.session_options import NO_OPTIONS
from windlass.runtime.drive.driver import Rested
from windlass.runtime.host.host import Host
from windlass.runtime.host.host_life import Opening
from windlass.runtime.streams.log_reader import LogReader
from windlass.runtime.streams.subscribers import Told
from windlass.runtime.workspace.folder import folder_of
from windlass.store.base import IndexRow, Key, Store
from windlass.tools.jobs.job_host import JobHost

from . import flows, schedules
from .agent import Agent
from .new_sessions import NewSession, check_no_child, create_or_find, named
from .runtime_options import RuntimeOptions, host_life
from .schedules import Planned, Schedule
from .session import Session
from .termination import Termination

if TYPE_CHECKING:
    from windlass.runtime.flows.flow import Flow

    from .flows import FlowRun


class Runtime:
    """Runs sessions over one store."""

    def __init__(
        self,
        store: Store | str | Opening,
        *,
        agents: Sequence[Agent | Flow] = (),
        **options: Unpack[RuntimeOptions],
    ) -> None:
        """The options are listed under "Opening a runtime" of the settings."""
        if isinstance(agents, Agent):
            raise UsageError("agents is a list: write agents=[...]")
        self._agents = list(agents)
        self.life = host_life(store, **options)
        self.tenant = self.life.settings.tenant
        self.runner = self.life.settings.runner
        self.ports = self.life.ports
        self.slots = self.life.slots
        self.bound = self.life.agents

    # --- life ---

    async def start(self) -> Runtime:
        """Opens the store, binds the agents, drives what is owed, and watches. If that fails, nothing is left open."""
        await self.life.start(self._agents)
        return self

    async def __aenter__(self) -> Runtime:
        return await self.start()

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Stops driving, gives the leases back, closes what was opened. Safe twice. What was under way is owed again to
        whoever opens the store next; the ends of children that were stopped here are taken first, and the worktrees of
        those that have ended removed, if that takes no more than 5 s. Whoever is cancelled meanwhile learns of it once
        all is closed."""
        await self.life.close()

    async def drain(self, timeout_ms: int | None = None) -> tuple[Key, ...]:
        """Begins nothing more, and waits until requests and tools that are under way are on record, for `drain_ms`
        unless told otherwise. Gives the sessions that were still at work then: closing cuts them off, like a crash
        would. Commands are still taken; what is owed goes on when the store is opened again."""
        return await self.life.drain(timeout_ms)

    def drained_on_sigterm(self) -> Termination:
        """`with runtime.drained_on_sigterm(): ...` has a SIGTERM drain this runtime and then cancel the task, so that
        the program closes everything and ends with exit code 143. A second SIGTERM ends the process at once."""
        return Termination(self.drain)

    @property
    def closed(self) -> bool:
        """Whether it has been closed, or is being closed."""
        return self.life.closed

    @property
    def host(self) -> Host:
        """The parts that it consists of while it is open."""
        return self.life.host

    @property
    def store(self) -> Store:
        """Where its sessions are kept."""
        return self.host.store

    @property
    def parked(self) -> dict[Key, str]:
        """The sessions that nothing here can resume, each with the reason."""
        return {slot.key: slot.parked for slot in self.slots.parked}

    @property
    def paused(self) -> dict[Key, str]:
        """The sessions that wait because the store has no room, each with what it says. They go on by themselves."""
        return self.slots.paused()

    def bind(self, agent: Agent | Flow | str) -> Bound:
        """Makes the code of an agent or a workflow known, so that its sessions can be driven here."""
        return self.bound.bind_given(agent, self.life.tools)

    def agents(self) -> str:
        """The names of the agents that are bound here."""
        return self.bound.names()

    # --- sessions ---

    async def session(
        self,
        agent: Agent | str,
        session_id: str | None = None,
        *,
        title: str = "",
        metadata: dict[str, str] | None = None,
        history: Sequence[HistoryItem] = (),
        workspace: str | os.PathLike[str] | None = None,
        trusted: bool = False,
        instruction_files: Sequence[str] | None = None,
        options: SessionOptions = NO_OPTIONS,
        labels: Sequence[str] = (),
    ) -> Session:
        """Creates a session or finds it. One that was cut off goes on by itself. A new one may begin with a `history`
        from elsewhere (see `windlass.models.convert`).

        `workspace` is the folder it works in: its git root, branch and repository are put on record. If the folder is
        `trusted`, its instruction files (AGENTS.md, or other names) follow the agent's own instructions.

        `options` are what this session has otherwise than the agent says: a model, a policy, limits, instructions. They
        are kept in the log and hold whoever resumes it; for a session that is there, they change what it had. Raises
        `UsageError` if it is open elsewhere, or here with others. `labels` are what a new one's history is marked
        with.

        Of a server (`windlass.connect`) the agent is named by what it is called there."""
        key = self._key(session_id)
        new = NewSession(
            title=title,
            metadata=metadata,
            history=history,
            workspace=workspace,
            trusted=trusted,
            instruction_files=instruction_files,
            options=options,
            labels=labels,
        )
        await create_or_find(self, key, agent, new)
        return Session(self, key)

    async def schedule(self, agent: Agent, schedule_id: str, **plan: Unpack[Planned]) -> Schedule:
        """Creates a schedule or finds it: a session that begins others of this agent at its times, or tells one
        something. `cron="0 2 * * *"` with a `timezone`, or `every` so many seconds; `prompt` is what is said, to a new
        session each time or to `session`. Raises `UsageError` that names what is wrong with a plan, or in what it
        differs from that of the schedule which has this name."""
        return await schedules.begin(self, agent, schedule_id, plan)

    async def flow(
        self,
        flow: Flow,
        flow_id: str | None = None,
        *,
        input: Any = None,
        metadata: dict[str, str] | None = None,
        workspace: str | os.PathLike[str] | None = None,
        trusted: bool = False,
    ) -> FlowRun:
        """Begins a workflow, or finds the one of this id: a session of its own that carries out the graph. One that was
        cut off goes on by itself, and what is done stays. `input` is what its nodes know as `{input}`. Raises
        `UsageError` if it was begun with another one.

        `workspace` is the folder that it works in, and its child sessions with it, as `session` has one; if it is
        `trusted`, its instruction files follow the instructions of their agents."""
        folder = folder_of(workspace, trusted=trusted)
        return await flows.begin(self, flow, flow_id, input, metadata, folder)

    async def get(self, session_id: str) -> Session:
        """A handle on a session that exists. Raises `NotFound` (of `windlass.events.errors`) otherwise."""
        key = named(self.tenant, session_id)
        await self.host.directory.find(key)
        return Session(self, key)

    async def sessions(self, **filters: Any) -> list[IndexRow]:
        """What the index knows of the sessions, newest change first. The filters are those of
        `windlass.store.base.Query`, such as `states=("asked",)`, `agent="clerk"`, `limit=20`."""
        return await self.host.directory.list(filters)

    async def fork(
        self, key: Key, session_id: str | None, *, at_seq: int | None = None, reopen: str | None = None
    ) -> Session:
        """A new session that continues another one; O(1), the history is shared."""
        branch = Key(key.tenant, self._key(session_id).session)
        check_no_child(branch)
        await self.host.forks.fork(key, branch, at_seq=at_seq, reopen=reopen)
        return Session(self, branch)

    async def drive(self, session_id: str) -> Rested:
        """Drives one session until it rests, and says how."""
        return await self.host.opener.drive(Key(self.tenant, session_id))

    async def shut_down(self, session_id: str, *, reason: str = "", error: bool = False) -> None:
        """Puts the sums of a session on record and lets it go, once it rests; it may be resumed later. Safe twice."""
        await self.host.shutdown.shut_down(Key(self.tenant, session_id), reason=reason, error=error)

    def _key(self, session_id: str | None) -> Key:
        """A session's key, with a fresh id if none is given. An empty id is one too: it is refused where it is used."""
        return Key(self.tenant, self.ports.fresh_id()) if session_id is None else named(self.tenant, session_id)

    # --- one session ---

    def job_host(self, key: Key) -> JobHost:
        """What runs the background jobs of a session, on this machine."""
        return self.life.tools.jobs.for_session(key.session, functools.partial(LogReader(self.store).born, key))

    async def send(self, key: Key, command: Command, lent: Lent | None = None) -> None:
        """Has a command taken: directly if this process can own the session, through the inbox otherwise."""
        await self.host.sender.send(key, command, lent)

    def follow(self, key: Key, command: Command, lent: Lent | None = None) -> AsyncIterator[Told]:
        """Sends a command and gives what follows, until its terminal; of one that was taken before, what followed."""
        return self.host.streams.follow(key, command.command_id, lambda: self.send(key, command, lent))

    def tail(self, key: Key, *, after: str | int | None = None) -> AsyncIterator[Told]:
        """The log behind a place, then what happens, live. Raises `CursorMismatch` for a cursor of another log."""
        return self.host.streams.tail(key, after=after)
