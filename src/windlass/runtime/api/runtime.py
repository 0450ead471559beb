"""The runtime: the door to a store, to the agents bound to code, and to their sessions.

It does nothing itself: what it is made of is put together in `host.host`, and its methods hand on to those parts.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack

import msgspec

from windlass.events.base import Command
from windlass.events.errors import UsageError
from windlass.events.values.items import HistoryItem
from windlass.events.values.label_words import checked as checked_labels
from windlass.events.values.specs import SessionOptions
from windlass.runtime.bind.agent_registry import BoundAgents
from windlass.runtime.bind.bound_agent import Bound
from windlass.runtime.bind.local_code import Lent
from windlass.runtime.bind.mounted_tools import tools_of
from windlass.runtime.bind.session_options import NO_OPTIONS
from windlass.runtime.drive.children import Children
from windlass.runtime.drive.driver import Rested
from windlass.runtime.drive.tool_runner import ToolRunners
from windlass.runtime.host.first_facts import Beginning
from windlass.runtime.host.host import Host
from windlass.runtime.host.host_settings import HostSettings
from windlass.runtime.host.ports import Ports, SystemPorts
from windlass.runtime.host.shielded_work import to_its_end
from windlass.runtime.host.slot_table import Slots
from windlass.runtime.jobs.local_jobs import JOB_LIFE_MS, jobs_of
from windlass.runtime.owner.owner import SNAPSHOT_EVERY_RECORDS
from windlass.runtime.streams.log_reader import LogReader
from windlass.runtime.streams.subscribers import Told
from windlass.runtime.workspace.folder import folder_of
from windlass.store.base import Durability, IndexRow, Key, Store
from windlass.store.rules.limits import check_ttl
from windlass.tools.files.protected_names import PLACES
from windlass.tools.jobs.job_host import JobHost, JobHosts
from windlass.tools.named_secrets import NamedSecrets, SecretSource
from windlass.tools.planes.plane import PlaneKind
from windlass.tools.sandboxes.choice import resolved, sandbox_named
from windlass.tools.sandboxes.sandbox import SandboxKind

from . import flows
from .agent import Agent
from .approvals import Approver
from .imported_history import refs_of
from .schedules import SCHEDULE, Planned, Schedule, check_same_plan, key_of, planned
from .session import Session
from .termination import Termination

if TYPE_CHECKING:
    from windlass.runtime.flows.flow import Flow

    from .flows import FlowRun

Opening = Callable[[], Awaitable[Store]]
"""Opens a store; whoever opens one closes it."""

LEASE_MS = 15_000
POLL_MS = 100
SHOWN_CHARS_MAX = 80
DRAIN_MS = 10_000
"""How long a process that is asked to stop waits for what has begun."""


def files_of(store: object) -> tuple[str, ...]:
    """The files of a store that is named by its place, which no sandboxed process may see."""
    if not isinstance(store, str) or store == ":memory:":
        return ()
    path = os.path.realpath(store.removeprefix("sqlite:").removeprefix("jsonl:"))
    return (path, f"{path}-wal", f"{path}-shm")


def check_no_child(key: Key) -> None:
    """Raises `UsageError` for an id that only child sessions have."""
    if "~" in key.session:
        raise UsageError(f"session id {key.session!r} is not allowed: '~' is for child sessions, found by get(id)")


def check_begun_elsewhere(
    history: Sequence[HistoryItem],
    workspace: str | os.PathLike[str] | None,
    options: SessionOptions,
    *,
    trusted: bool,
    files: Sequence[str] | None,
) -> None:
    """Raises `UsageError` for what a session of a server cannot be given from outside."""
    given = {
        "history": bool(history),
        "workspace": workspace is not None or trusted or files is not None,
        "options": options != NO_OPTIONS,
    }
    for name, is_given in given.items():
        if is_given:
            raise UsageError(f"a session of a server takes no {name}=...: its agent is set up where it is served")


def named(tenant: str, session_id: str) -> Key:
    """The key of a session by its id. Raises `UsageError` for what is none."""
    if not isinstance(session_id, str):
        raise UsageError(f"the id of a session is a text, not {type(session_id).__name__}: {session_id!r}")
    return Key(tenant, session_id)


class Runtime:
    """Runs sessions over one store."""

    def __init__(
        self,
        store: Store | str | Opening,
        *,
        durability: Durability = "full",
        agents: Sequence[Agent | Flow] = (),
        tenant: str = "default",
        ports: Ports | None = None,
        approver: Approver | None = None,
        lease_ms: int = LEASE_MS,
        poll_ms: int = POLL_MS,
        planes: Mapping[str, PlaneKind] | None = None,
        sandbox: SandboxKind | str | None = None,
        snapshot_every: int = SNAPSHOT_EVERY_RECORDS,
        take_up: bool = True,
        drain_ms: int = DRAIN_MS,
        tools: Sequence[Any] = (),
        children: Children | None = None,
        secrets: Iterable[str] | Mapping[str, SecretSource] = (),
        jobs: str | os.PathLike[str] | JobHosts | None = None,
        job_life_ms: int = JOB_LIFE_MS,
    ) -> None:
        """`take_up` = sessions that are owed work are resumed unasked; else only those asked for by name are. `tools`
        are the code of tools that sessions mounted before. `planes` are where tools may run, by name. `sandbox` is
        where their processes run: a kind, or its name ("auto" is the best that works here); without it, a session has
        the kind that its log names, else processes are not confined. `drain_ms` is how long
        `drain`, and a SIGTERM in `drained_on_sigterm`, wait for what has begun.
        `secrets` are values that this process leaves out of everything it writes; keys of models need not be named. By
        name, with a value or a function that gives it, they can be used: `ctx.secret`, `ctx.run(secrets=...)`.
        `jobs` is the folder for background jobs: one in the user's state folder if the store is a file or directory; if
        it is neither, jobs end with this process. None runs longer than `job_life_ms`, unless it is detached."""
        named = NamedSecrets(secrets)
        self.tenant = tenant
        self.ports = ports or SystemPorts()
        self.runner = self.ports.runner()
        self.slots = Slots()
        self.bound = BoundAgents()
        self._given = store
        self._durability = durability
        if isinstance(agents, Agent):
            raise UsageError("agents is a list: write agents=[...]")
        self._agents = list(agents)
        kind = sandbox_named(sandbox, hidden=files_of(store)) if isinstance(sandbox, str) else sandbox
        self._tools = ToolRunners(planes, kind, jobs_of(jobs, store, tenant, job_life_ms), named, files_of(store))
        self._settings = HostSettings(
            tenant=tenant,
            runner=self.runner,
            lease_ms=check_ttl(lease_ms),
            poll_ms=poll_ms,
            snapshot_every=snapshot_every,
            take_up=take_up,
            drain_ms=drain_ms,
            approver=approver,
            children=children,
            library=tuple(tools_of(tools)),
            sandbox=self._tools.sandbox,
        )
        self._opened: Store | None = None
        self._host: Host | None = None
        self._closing: asyncio.Task[None] | None = None

    # --- life ---

    async def start(self) -> Runtime:
        """Opens the store, binds the agents, drives what is owed, and watches. If that fails, nothing is left open."""
        if self.closed or self._host is not None:
            raise UsageError("a runtime is started once: open another one")
        try:
            if isinstance(self._given, str) or callable(self._given):
                loop = asyncio.get_running_loop()
                await to_its_end(loop.create_task(self._open_store(self._given), name="windlass:open"))
            await self._start(self._opened or self._given)
        except BaseException:
            await self.close()
            raise
        return self

    async def _open_store(self, place: str | Opening) -> None:
        if not isinstance(place, str):
            self._opened = await place()
            return
        from windlass.store import open_store

        self._opened = await open_store(place, durability=self._durability)

    async def _start(self, store: Any) -> None:
        place = getattr(store, "path", None) or getattr(store, "root", None)
        if isinstance(place, os.PathLike):
            PLACES.add(place)  # whatever a tool is allowed, it never writes what its own session is kept in
        for agent in self._agents:
            self.bind(agent)
        self._host = Host(store, self.ports, self._settings, self.slots, self.bound, self._tools)
        await self._host.start()

    async def __aenter__(self) -> Runtime:
        return await self.start()

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Stops driving, gives the leases back, closes what was opened. Safe twice. What was under way is owed again to
        whoever opens the store next; the ends of children that were stopped here are taken first, if they come soon.
        Whoever is cancelled meanwhile learns of it once all is closed."""
        if self._closing is None:
            self.slots.closed = self._host is None or not self._host.trees.ending()
            loop = asyncio.get_running_loop()
            self._closing = loop.create_task(self._close(), name="windlass:close")
        if not self._closing.done():
            await to_its_end(self._closing)

    async def drain(self, timeout_ms: int | None = None) -> tuple[Key, ...]:
        """Begins nothing more, and waits until requests and tools that are under way are on record, for `drain_ms`
        unless told otherwise. Gives the sessions that were still at work then: closing cuts them off, like a crash
        would. Commands are still taken; what is owed goes on when the store is opened again."""
        return await self.host.drain(self._settings.drain_ms if timeout_ms is None else timeout_ms)

    def drained_on_sigterm(self) -> Termination:
        """`with runtime.drained_on_sigterm(): ...` has a SIGTERM drain this runtime and then cancel the task, so that
        the program closes everything and ends with exit code 143. A second SIGTERM ends the process at once."""
        return Termination(self.drain)

    async def _close(self) -> None:
        if self._host is not None:
            if not self.slots.closed:
                await self._host.trees.quiet()
            self.slots.closed = True
            await self._host.close()
        async with contextlib.AsyncExitStack() as closing:  # what cannot be closed must not keep the others open
            if self._opened is not None:
                closing.push_async_callback(self._opened.close)
            closing.push_async_callback(self.bound.close)
            closing.push_async_callback(self._tools.close)

    @property
    def closed(self) -> bool:
        """Whether it has been closed, or is being closed."""
        return self.slots.closed or self._closing is not None

    @property
    def host(self) -> Host:
        """The parts that it consists of while it is open."""
        if self._host is None:
            raise UsageError("this runtime is not open yet: use it as `async with windlass.open(...) as runtime:`")
        return self._host

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
        if not isinstance(agent, Agent) and hasattr(agent, "coordinator"):
            agent = agent.coordinator
        if not isinstance(agent, Agent):
            raise UsageError(
                f"an agent is a windlass.Agent, not {str(agent)[:SHOWN_CHARS_MAX]!r}: a session is made by "
                "session(agent, id), and found without an agent by get(id)"
            )
        self._tools.check(agent.toolset)
        return self.bound.bind(agent)

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
        refs_of(history)  # one that no provider would take is refused before anything is made
        key = self._key(session_id)
        check_no_child(key)
        if self.host.elsewhere is not None:
            check_begun_elsewhere(history, workspace, options, trusted=trusted, files=instruction_files)
            name = agent if isinstance(agent, str) else self.bind(agent).agent.name
            await self.host.elsewhere.begin(key, name, title=title, metadata=metadata or {}, labels=labels)
            return Session(self, key)
        bound = self.bind(agent)
        if options.sandbox is not None:
            options = msgspec.structs.replace(options, sandbox=await asyncio.to_thread(resolved, options.sandbox))
        bound.with_options(options)  # those that mean nothing here are refused, too
        beginning = Beginning(
            bound=bound,
            title=title,
            metadata=metadata or {},
            history=history,
            options=options,
            labels=checked_labels(labels),
        )
        folder = folder_of(workspace, trusted=trusted, names=instruction_files)
        await self.host.directory.open(key, beginning, folder)
        return Session(self, key)

    async def schedule(self, agent: Agent, schedule_id: str, **plan: Unpack[Planned]) -> Schedule:
        """Creates a schedule or finds it: a session that begins others of this agent at its times, or tells one
        something. `cron="0 2 * * *"` with a `timezone`, or `every` so many seconds; `prompt` is what is said, to a new
        session each time or to `session`. Raises `UsageError` that names what is wrong with a plan, or in what it
        differs from that of the schedule which has this name."""
        key = key_of(self, schedule_id)
        made = planned(now_ms=self.ports.now_ms(), **plan)
        beginning = Beginning(bound=self.bind(agent), title=schedule_id, metadata=SCHEDULE, schedule=made)
        await self.host.directory.open(key, beginning, None)
        session = Session(self, key)
        check_same_plan(schedule_id, (await session.state()).schedule, made)
        return Schedule(session)

    async def flow(
        self, flow: Flow, flow_id: str | None = None, *, input: Any = None, metadata: dict[str, str] | None = None
    ) -> FlowRun:
        """Begins a workflow, or finds the one of this id: a session of its own that carries out the graph. One that was
        cut off goes on by itself, and what is done stays. `input` is what its nodes know as `{input}`. Raises
        `UsageError` if it was begun with another one."""
        key = flows.key_of(self, flow_id)
        beginning = Beginning(bound=self.bind(flow), title=flow.name, metadata={**(metadata or {}), **flows.FLOW})
        head = await self.store.log.head(key)
        await self.host.directory.open(key, beginning, None)
        run = flows.FlowRun(Session(self, key), since=head.seq if head is not None else 0)
        await run.check_input(input)
        await run.start(input, command_id=f"flow:{key.session}")
        return run

    async def get(self, session_id: str) -> Session:
        """A handle on a session that exists. Raises `NotFound` otherwise."""
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
        return self._tools.jobs.for_session(key.session, functools.partial(LogReader(self.store).born, key))

    async def send(self, key: Key, command: Command, lent: Lent | None = None) -> None:
        """Has a command taken: directly if this process can own the session, through the inbox otherwise."""
        await self.host.sender.send(key, command, lent)

    def follow(self, key: Key, command: Command, lent: Lent | None = None) -> AsyncIterator[Told]:
        """Sends a command and gives what follows, until its terminal; of one that was taken before, what followed."""
        return self.host.streams.follow(key, command.command_id, lambda: self.send(key, command, lent))

    def tail(self, key: Key, *, after: str | int | None = None) -> AsyncIterator[Told]:
        """The log behind a place, then what happens, live. Raises `CursorMismatch` for a cursor of another log."""
        return self.host.streams.tail(key, after=after)
