"""The runtime: a store, the agents bound to code, and their sessions: begun, found, commanded, forked.

How they are driven is in `driving`, how the store is watched in `tending`, how they are read in `reading`.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import msgspec

from windlass.events import codec
from windlass.events.base import Command, Event
from windlass.events.calls import MountReceived, ToolBody
from windlass.events.errors import (
    CodecError,
    CommandTaken,
    LeaseHeld,
    NotFound,
    Refused,
    StaleEpoch,
    UsageError,
)
from windlass.events.items import HistoryItem
from windlass.events.runs import CancelReceived, InterruptReceived, PromptReceived
from windlass.events.sessions import (
    ContentErased,
    InstructionsRendered,
    SessionShutDown,
    SessionStarted,
    SessionTotalled,
)
from windlass.kernel import log
from windlass.store.base import Durability, InboxCommand, Key, Origin, Query, Store
from windlass.store.chain import history
from windlass.store.keys import check_ttl
from windlass.tools.threads import Threads

from .admission import check_size
from .agent import Agent
from .approvals import Approver
from .archive import LogArchive
from .attached import Attached, Lent, weighed
from .binding import Bound, bound_names
from .hub import Hub
from .imports import refs_of
from .listing import row_of
from .mounting import tools_of
from .observing import ORPHANS_MAX, THREADS_MAX
from .owner import SNAPSHOT_EVERY_RECORDS, Owner
from .ports import Ports, SystemPorts
from .reading import Active
from .session import Session
from .tending import Tending
from .watching import Watching
from .workspace import FOLDERS_KEPT_MAX, Folder, folder_of

if TYPE_CHECKING:
    from .pages import Page
    from .setup import SetupSummary

LEASE_MS = 15_000
POLL_MS = 100
LETTING_GO_S = 1.0
"""How long whoever shuts a session down waits for its driver to come to rest."""
ENDING_S = 5.0
"""How long somebody who is cancelled waits for what must not be left half done."""


async def to_its_end(work: asyncio.Task[None]) -> None:
    """Waits for work that must not be cut off: what a thread opens cannot be called back, and what is half closed is
    closed by nobody. A cancellation is passed on when it has ended, and to it only where that takes too long."""
    try:
        await asyncio.shield(work)
    except asyncio.CancelledError:
        await asyncio.wait([work], timeout=ENDING_S)
        if not work.done():
            work.cancel()
        elif not work.cancelled():
            work.exception()  # whoever was cancelled is told of that, and of nothing else
        raise


class Runtime(Tending):
    """Runs sessions over one store."""

    def __init__(
        self,
        store: Store | str,
        *,
        durability: Durability = "full",
        agents: Sequence[Agent] = (),
        tenant: str = "default",
        ports: Ports | None = None,
        approver: Approver | None = None,
        lease_ms: int = LEASE_MS,
        poll_ms: int = POLL_MS,
        plane: Any = None,
        snapshot_every: int = SNAPSHOT_EVERY_RECORDS,
        take_up: bool = True,
        tools: Sequence[Any] = (),
    ) -> None:
        """`take_up` = sessions that are owed work are gone on with unasked; else only those asked for by name are.
        `tools` are the code of tools that sessions mounted before, for when such a session is gone on with here."""
        self._given = store
        self._durability = durability
        self.tenant = tenant
        self.ports = ports or SystemPorts()
        self.approver = approver
        self.runner = self.ports.runner()
        self.parked: dict[Key, str] = {}
        self._lease_ms = check_ttl(lease_ms)
        self._poll_ms = poll_ms
        self._plane = plane
        self._hook_threads = Threads(THREADS_MAX, ORPHANS_MAX)
        self._snapshot_every = snapshot_every
        self._take_up = take_up
        self._asked_for: set[Key] = set()
        self._folders: dict[Key, Folder] = {}
        self._attached: dict[Key, Attached] = {}
        self._library = tools_of(tools)
        self._bound: dict[str, Bound] = {}
        self._agents = list(agents)
        self._active: dict[Key, Active] = {}
        self._opening: WeakValueDictionary[Key, asyncio.Lock] = WeakValueDictionary()
        self._hubs: dict[Key, Hub] = {}
        self._posted: dict[Key, str] = {}
        self._wakes: dict[Key, int] = {}
        self._resting: dict[Key, None] = {}
        self._leaving: set[asyncio.Task[Any]] = set()
        self._looked_ms = 0
        self._tasks: list[asyncio.Task[Any]] = []
        self._closed = False
        self._closing: asyncio.Task[None] | None = None

    # --- life ---

    async def start(self) -> Runtime:
        """Opens the store, binds the agents, drives what is owed, and watches the store. Where that fails, or is
        cancelled, nothing is left open."""
        if self._closed or self._tasks:
            raise UsageError("a runtime is started once: open another one")
        try:
            if isinstance(self._given, str):
                loop = asyncio.get_running_loop()
                await to_its_end(loop.create_task(self._open_store(self._given), name="windlass:open"))
            else:
                self.store = self._given
            await self._start()
        except BaseException:
            await self.close()
            raise
        return self

    async def _open_store(self, place: str) -> None:
        from windlass.store import open_store

        self.store = await open_store(place, durability=self._durability)

    async def _start(self) -> None:
        if self._plane is None:
            from windlass.tools.plane import LocalPlane

            self._plane = LocalPlane()
        self._archive = LogArchive(self.store)
        for agent in self._agents:
            self.bind(agent)
        self._tasks = [
            self.ports.spawn(self._watch(), "windlass:watch"),
            self.ports.spawn(self._keep_leases(), "windlass:leases"),
        ]
        await self._drive_owed()

    async def __aenter__(self) -> Runtime:
        return await self.start()

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Stops driving, gives the leases back and closes models and the store it opened. Safe twice. What was under
        way is owed again to whoever opens the store next. Whoever is cancelled meanwhile learns of it once all is
        closed."""
        if self._closing is None:
            self._closed = True
            loop = asyncio.get_running_loop()
            self._closing = loop.create_task(self._close(), name="windlass:close")
        if not self._closing.done():
            await to_its_end(self._closing)

    async def _close(self) -> None:
        tasks = [*self._tasks, *self._leaving, *(a.task for a in self._active.values() if a.task is not None)]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*(active.driver.performer.quiet() for active in self._active.values()))
        self._hook_threads.close()
        for active in list(self._active.values()):
            await active.owner.release()
        for hub in self._hubs.values():
            hub.close()
        try:
            for bound in self._bound.values():
                await bound.close()
            if self._plane is not None:
                await self._plane.close()
        finally:  # a model that cannot be closed must not keep the file open
            if isinstance(self._given, str) and "store" in self.__dict__:
                await self.store.close()

    def __getattr__(self, name: str) -> Any:
        if name == "store":
            raise UsageError("this runtime is not open yet: use it as `async with windlass.open(...) as runtime:`")
        raise AttributeError(name)

    def bind(self, agent: Agent) -> Bound:
        """Makes an agent's code known, so that its sessions can be driven here."""
        known = self._bound.get(agent.name)
        if known is not None and known.agent.is_like(agent):
            return known
        if known is not None:
            raise UsageError(f"another agent named {agent.name!r} is bound already: give one of them another name")
        model = agent.model
        if model is None or isinstance(model, str):
            from windlass.models.catalogue import open_model

            model = open_model(model)
        bound = self._bound[agent.name] = Bound(agent, model)
        return bound

    # --- sessions ---

    async def session(
        self,
        agent: Agent,
        session_id: str | None = None,
        *,
        title: str = "",
        metadata: dict[str, str] | None = None,
        history: Sequence[HistoryItem] = (),
        workspace: str | os.PathLike[str] | None = None,
        trusted: bool = False,
        instruction_files: Sequence[str] | None = None,
    ) -> Session:
        """Creates a session or finds it. One that was cut off goes on by itself. A new one may begin with a `history`
        from elsewhere (see `windlass.models.convert`).

        `workspace` is the folder it works in: its git root, branch and repository are put on record. Where the folder
        is `trusted`, its instruction files (AGENTS.md, or other names) follow the agent's own instructions."""
        bound = self.bind(agent)
        refs_of(history)  # one that no provider would take is refused before anything is made
        key = Key(self.tenant, self._named(session_id))
        await self._work_in(key, folder_of(workspace, trusted=trusted, names=instruction_files))
        self._ask_for(key)
        head = await self.store.head(key)
        if head is None:
            await self.store.create(key)
        if head is None or head.seq == 0:
            await self._begin(key, bound, title, metadata or {}, history)
        else:
            await self._check_agent(key, agent)
            row = await self.store.get_index(key)
            if row is not None and row.owed:
                await self._ensure_driven(key)
        return Session(self, key)

    def _named(self, session_id: str | None) -> str:
        """A session's id. An empty one is no name: whoever forgot it would get another session each time."""
        return self.ports.fresh_id() if session_id is None else session_id

    async def _work_in(self, key: Key, folder: Folder | None) -> None:
        """Notes where a session works from now on; one that is driven here learns of it at once, or with its next run
        where one is going on."""
        if folder is None or self._folders.get(key) == folder:
            return
        self._folders.pop(key, None)
        self._folders[key] = folder
        while len(self._folders) > FOLDERS_KEPT_MAX:
            del self._folders[next(iter(self._folders))]
        active = self._active.get(key)
        if active is not None:
            await active.briefing.move(folder, files=not active.owner.state.active)

    async def get(self, session_id: str) -> Session:
        """A handle on a session that exists. Raises `NotFound` otherwise."""
        key = Key(self.tenant, session_id)
        if await self.store.head(key) is None:
            raise NotFound(f"there is no session {session_id!r}: list them with sessions()")
        self._ask_for(key)
        return Session(self, key)

    def _ask_for(self, key: Key) -> None:
        """Notes what was asked for by name, where nothing else is gone on with."""
        if not self._take_up:
            self._asked_for.add(key)

    async def sessions(self, **filters: Any) -> list[Any]:
        """What the index knows of the sessions, newest change first. The filters are those of
        `windlass.store.base.Query`, such as `states=("asked",)`, `agent="clerk"`, `limit=20`."""
        known = [name for name in Query.__struct_fields__ if name != "tenant"]
        unknown = sorted(set(filters) - set(known))
        if unknown:
            raise UsageError(f"sessions() knows no filter {unknown[0]!r}: there are {', '.join(known)}")
        if isinstance(filters.get("states"), str):
            raise UsageError(f"states are several: write states=({filters['states']!r},)")
        return list(await self.store.find(Query(tenant=self.tenant, **filters)))

    async def _begin(
        self, key: Key, bound: Bound, title: str, metadata: dict[str, str], imported: Sequence[HistoryItem]
    ) -> None:
        lock = self._opening.setdefault(key, asyncio.Lock())
        async with lock:
            if key in self._active:
                return
            owner = await self._owned(key)
            if owner is None:
                return
            place = await self._place(key, None)
            fact = self._started(key, owner, bound, title, metadata, imported)
            if place is not None:
                fact = msgspec.structs.replace(fact, workspace=place.workspace)
            try:
                begun = await owner.take(fact, takes=(fact.command_id,))
            except CodecError as error:
                await owner.release()
                raise UsageError(f"session {key.session!r} cannot begin like this: {error}") from error
            await self._adopt(key, owner, bound, place, begun)

    async def _owned(self, key: Key) -> Owner | None:
        """The owner of a session that has not begun; None where somebody else began it meanwhile."""
        owner = self._owner(key)
        while True:
            try:
                await owner.claim(self.runner, self._lease_ms)
            except LeaseHeld:
                await self.ports.sleep_ms(self._poll_ms)
                head = await self.store.head(key)
                if head is not None and head.seq > 0:
                    return None
            else:
                await owner.insist(owner.load)
                if log.is_new(owner.state):
                    return owner
                # It was begun while this process stood still. Whoever goes on with it must say so first.
                await owner.release()
                return None

    def _started(
        self,
        key: Key,
        owner: Owner,
        bound: Bound,
        title: str,
        metadata: dict[str, str],
        imported: Sequence[HistoryItem],
    ) -> SessionStarted:
        return SessionStarted(
            command_id=f"start:{key.session}",
            session_id=key.session,
            epoch=owner.epoch,
            setup=bound.setup(),
            title=title,
            metadata=metadata,
            knowledge_tokens=bound.knowledge_tokens(),
            imported=refs_of(imported),
            producer=f"kernel {log.KERNEL_VERSION}",
            body=msgspec.structs.replace(bound.setup_body(), imported=tuple(imported)),
        )

    async def _check_agent(self, key: Key, agent: Agent) -> None:
        row = await self.store.get_index(key)
        if row is not None and row.agent and row.agent != agent.name:
            raise UsageError(f"session {key.session!r} belongs to agent {row.agent!r}, not to {agent.name!r}")

    # --- commands ---

    async def send(self, key: Key, command: Command, lent: Lent | None = None) -> None:
        """Has a command taken: directly where this process can own the session, through the inbox otherwise. Raises
        `Refused` where it does not fit now. One that was taken before is acknowledged again, and nothing happens. What
        is `lent` to its run must be of the process that drives the session."""
        if self._closed:
            raise UsageError("this runtime is closed: open another one")
        active = await self._ensure_driven(key)
        if lent:
            await self._lend(key, active, command, lent)
        if active is None:
            await self._post(key, command)
            return
        try:
            await self._look_before(command, active)
            await active.driver.submit(command)
        except CommandTaken:
            return
        except Refused:
            if await self._taken_at(key, command.command_id) is None:
                raise
            return
        except StaleEpoch:
            self._drop(key, active)
            await self.send(key, command, lent)
        finally:
            # Also where nobody waits for it any more: the command may have been kept.
            if self._active.get(key) is active:
                self._run(key, active)

    async def _lend(self, key: Key, active: Active | None, command: Command, lent: Lent) -> None:
        if active is None:
            raise UsageError(
                f"session {key.session!r} is not driven here ({await self._why_not(key)}), so hooks and models of this "
                "process cannot serve its runs: name the model, and give hooks to the agent"
            )
        performer = active.driver.performer
        own = performer.bound.model
        if lent.model is not None and lent.model is not own and lent.model.info.name == own.info.name:
            raise UsageError(f"the agent's own model is called {own.info.name!r} too: give this one another name")
        performer.bound.attached.lend(command.command_id, lent, active.owner.state)
        if lent.hooks and active.owner.on_committed is None:
            active.owner.on_committed = Watching(performer).committed

    async def _post(self, key: Key, command: Command) -> None:
        """Leaves a command for whoever drives the session."""
        check_size(command)
        try:
            data = codec.encode_command(command)
        except CodecError as error:
            raise Refused("malformed", str(error)) from error
        await self.store.send(key, InboxCommand(command_id=command.command_id, at_ms=self.ports.now_ms(), data=data))
        self._note_posted(key, command.command_id)
        await self._make_known(key)

    async def _look_before(self, command: Command, active: Active) -> None:
        """A run begins with what is true of its folder. Whoever wants something stopped waits for no disk; a run that
        is going on keeps its instructions, and learns of another branch with the next prompt."""
        if isinstance(command, InterruptReceived | CancelReceived):
            return
        at_rest = not active.owner.state.active
        if at_rest or isinstance(command, PromptReceived):
            await active.briefing.look(files=at_rest)

    async def mount(self, key: Key, tools: Sequence[Any], *, command_id: str, actor: str) -> None:
        """Offers a session more tools, or newer ones, from its next turn on. Raises `UsageError` where tools of this
        process are to be mounted and another process drives the session."""
        made = tools_of(tools)
        if not made:
            raise UsageError("mount() needs at least one tool")
        here = await self._ensure_driven(key) is not None
        if not here and any(tool.options.runs != "client" for tool in made):
            raise UsageError(
                f"session {key.session!r} is not driven here ({await self._why_not(key)}), so code of this process "
                "cannot run in it: mount an external_tool there, and run it with session.serve(...)"
            )
        attached = self.attached(key)
        if here:
            attached.mounting[command_id] = attached.bring(made)
        body = ToolBody(tools=tuple(tool.text for tool in made))
        specs = tuple(weighed(tool) for tool in made)
        try:
            await self.send(key, MountReceived(command_id=command_id, actor=actor, tools=specs, body=body))
        finally:
            attached.mounting.pop(command_id, None)
            active = self._active.get(key)
            if active is not None and not active.owner.busy:
                attached.forget_code(active.owner.state)

    def clients_came(self, key: Key, tools: Iterable[str]) -> None:
        """Clients in this process run these tools of a session from now on: its calls wait for them."""
        clients = self.attached(key).clients
        for name in tools:
            clients[name] = clients.get(name, 0) + 1

    def clients_went(self, key: Key, tools: Iterable[str]) -> None:
        """They are gone: what they have not done ends the run `asked`, for others to do."""
        attached = self.attached(key)
        clients = attached.clients
        for name in tools:
            clients[name] -= 1
            if not clients[name]:
                del clients[name]
        if not clients:
            attached.handed_on.clear()
        active = self._active.get(key)
        if active is not None:
            active.driver.clients_changed()

    async def _make_known(self, key: Key) -> None:
        """A fork whose maker died before it began is in no index yet; what waits in its inbox would never be seen."""
        if await self.store.get_index(key) is None:
            owner = Owner(self.store, key, self.ports, Hub())
            await owner.load()
            await self.store.put_index(row_of(key, owner.state))

    # --- the archive ---

    async def page_in(self, key: Key, query: str, page_ids: Sequence[str], limit: int) -> tuple[Page, ...]:
        """Brings back what left a session's history, as a note to its model. Raises `UsageError` where this process
        cannot own the session."""
        active = await self._ensure_driven(key)
        if active is None:
            raise UsageError(f"nothing can be paged in from here: {await self._why_not(key)}")
        paging = active.driver.performer.paging
        found = await paging.find(query, page_ids, limit)
        if not found:
            return ()
        fact, there = paging.paged_in(query, found)
        try:
            await active.owner.take(fact)
        except StaleEpoch:
            self._drop(key, active)
            return await self.page_in(key, query, page_ids, limit)
        return there

    # --- erasure ---

    async def erase(self, key: Key, seq: int, *, by: str, why: str) -> None:
        """Replaces the content of an event by a tombstone, and says so in the log. Raises `UsageError` where the
        session is at work or driven elsewhere, `NotFound` where its own log has no such event."""
        active = await self._ensure_driven(key)
        if active is None:
            raise UsageError(f"nothing can be erased from here: {await self._why_not(key)}")
        if seq < 1:
            raise NotFound(f"session {key.session!r} has no event {seq}: they are numbered from 1")
        try:
            await active.owner.erase(seq, by=by, why=why)
            await active.owner.take(ContentErased(seq=seq, by=by, why=why))
        except StaleEpoch:
            self._drop(key, active)
            await self.erase(key, seq, by=by, why=why)

    # --- forks ---

    async def fork(self, key: Key, session_id: str | None, *, at_seq: int | None = None) -> Session:
        """A new session that continues another one; O(1), the history is shared."""
        boundary, chain = await self._boundary(key, at_seq)
        branch = Key(key.tenant, self._named(session_id))
        origin = Origin(session=key.session, seq=boundary, hash=chain)
        if not await self.store.create(branch, origin=origin) and await self._has_begun(branch, origin):
            raise UsageError(f"session {branch.session!r} exists already: give the fork another id")
        async with self._opening.setdefault(branch, asyncio.Lock()):
            await self._begin_fork(key, branch, origin)
        return Session(self, branch)

    async def _begin_fork(self, key: Key, branch: Key, origin: Origin) -> None:
        if branch in self._active:
            return  # it was found and begun while we waited
        owner = self._owner(branch)
        await owner.claim(self.runner, self._lease_ms)
        await owner.insist(owner.load)
        begun = await owner.take(self._forked(branch, origin, owner))
        bound = self._bound.get(owner.state.agent.name)
        if bound is None:
            await owner.release()
            return
        if key in self._folders:
            self._folders.setdefault(branch, self._folders[key])
        self.attached(branch).code.update(self.attached(key).code)
        place = await self._place(branch, owner.state.workspace)
        begun += await self._rebind(branch, owner, bound, place)
        await self._adopt(branch, owner, bound, place, begun)

    async def _has_begun(self, branch: Key, origin: Origin) -> bool:
        head = await self.store.head(branch)
        return head is not None and head.seq > origin.seq

    async def _boundary(self, key: Key, at_seq: int | None) -> tuple[int, str]:
        """The end of the last append at or before a seq, and its hash."""
        found: tuple[int, str] | None = None
        async for sealed in history(self.store, key, until=at_seq):
            found = (sealed.last_seq, sealed.hash)
        if found is None:
            raise UsageError(f"session {key.session!r} has no record at or before {at_seq}")
        return found

    async def shut_down(self, session_id: str, *, reason: str = "") -> None:
        """Puts the sums of a session on record and lets it go, once it rests; it may be resumed later. Safe twice: one
        that was shut down and not touched since is left as it is. What another process drives is left to it."""
        key = Key(self.tenant, session_id)
        await self.wait_idle(key)
        if isinstance(await self._last_event(key), SessionTotalled):
            return
        active = await self._ensure_driven(key)
        if active is None:
            return
        async with self._opening.setdefault(key, asyncio.Lock()):
            if self._active.get(key) is not active or isinstance(await self._last_event(key), SessionTotalled):
                return
            await active.owner.take(SessionShutDown(reason=reason))
            if active.task is not None:
                await asyncio.wait([active.task], timeout=LETTING_GO_S)
            if active.task is None or active.task.done():
                self._drop(key, active)
                self._resting.pop(key, None)
                await active.owner.release()
        self._forget_hub(key)

    async def _last_event(self, key: Key) -> Event | None:
        """What the log ends with."""
        head = await self.store.head(key)
        return await self._event_at(key, head.seq) if head is not None else None

    async def setup(self, key: Key) -> SetupSummary:
        """What a session is set up with: as its log has it, and as its folder is where one was named here."""
        from .setup import recorded_files, summary

        state = await self.state(key)
        bound = self._bound.get(state.agent.name)
        active = self._active.get(key)
        folder = self._folders.get(key)
        place = active.briefing.place if active is not None else await self._place(key, None)
        if place is not None and place.files is not None:
            files = place.files.files
        else:
            rendered = await self._event_at(key, state.instructions_seq)
            files = recorded_files(rendered.sources if isinstance(rendered, InstructionsRendered) else ())
        if place is not None and place.workspace is not None:
            state.workspace = place.workspace
        knowledge = bound.agent.knowledge if bound is not None else ()
        return summary(state, files=files, knowledge=knowledge, trusted=None if folder is None else folder.trusted)

    async def _event_at(self, key: Key, seq: int) -> Event | None:
        if seq > 0:
            async for record in self.records(key, after=seq - 1):
                return record.event
        return None

    def agents(self) -> str:
        """The names of the agents that are bound here."""
        return bound_names(self._bound)
