"""Opens sessions in this process: claims one, puts on record who has it now, and has it driven.

Every session that is driven here came this way: begun, resumed, forked, woken by a timer or by a command.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec

from windlass.events.base import Event
from windlass.events.errors import CodecError, LeaseHeld, Refused, StaleEpoch, StorageFull, UsageError
from windlass.events.sessions import SessionForked, SessionResumed
from windlass.events.values.setup import SessionOptions, Workspace
from windlass.kernel import log
from windlass.runtime.bind.agent_registry import BoundAgents
from windlass.runtime.bind.bound_agent import Bound
from windlass.runtime.bind.mounted_tools import recall_clients
from windlass.runtime.bind.session_options import merged, recorded
from windlass.runtime.drive.driver import Rested
from windlass.runtime.owner.owner import Owner
from windlass.runtime.streams.log_reader import LogReader
from windlass.runtime.workspace.folder import Place, recorded_folder
from windlass.runtime.workspace.session_instructions import SessionInstructions
from windlass.store.base import Key, Origin, Store

from . import first_facts, first_task, liveness
from .drive_tasks import DriveTasks, passes, told
from .first_facts import Beginning
from .fork_restraints import held_since
from .host_settings import HostSettings
from .ports import Ports
from .session_assembly import Assembly
from .slot import Driven, Slot
from .slot_table import Slots
from .steady_clock import SteadyClock

LOGGER = logging.getLogger("windlass.store")


class Opener:
    """Makes this process the one that drives a session, if it can be."""

    def __init__(
        self,
        store: Store,
        ports: Ports,
        settings: HostSettings,
        slots: Slots,
        agents: BoundAgents,
        tasks: DriveTasks,
        assembly: Assembly,
        clock: SteadyClock,
    ) -> None:
        self._store = store
        self._ports = ports
        self._settings = settings
        self._slots = slots
        self._agents = agents
        self._tasks = tasks
        self._assembly = assembly
        self._clock = clock

    async def ensure_driven(self, key: Key) -> Driven | None:
        """What drives a session, which is opened and resumed if it was not; None if somebody else has it or its agent
        is not bound here."""
        async with self._slots.locked(key) as slot:
            if slot.driven is not None:
                self._tasks.run(slot, slot.driven)
                return slot.driven
            if self._slots.draining:
                return None
            try:
                return await self._open(slot)
            except (LeaseHeld, StaleEpoch):
                return None

    async def drive(self, key: Key) -> Rested:
        """Drives a session until it rests, and says how."""
        while True:
            rested = await self._drive_once(key)
            slot = self._slots.get(key)
            if rested.status == "outdated":
                continue
            if slot is None or not slot.died or rested.wake_at_ms is None:
                return rested
            await self._ports.sleep_ms(self._settings.poll_ms)  # another driver takes the place of one that died

    async def _drive_once(self, key: Key) -> Rested:
        try:
            driven = await self.ensure_driven(key)
        except Exception:
            if not self._slots.why_parked(key):
                raise
            driven = None
        if driven is None or driven.task is None:
            return Rested(status="parked", reason=self._slots.why_parked(key) or await self.why_not(key))
        try:
            return await asyncio.shield(driven.task)
        except asyncio.CancelledError:
            if not driven.task.cancelled() or self._slots.driven_at(key) is driven:
                raise  # the caller was stopped, or this runtime is closed
            return Rested(status="lost_epoch", reason="the session belongs to another process now")

    async def try_to_drive(self, key: Key) -> None:
        """Has a session driven that was not asked for just now. One bad session must not stop the rest."""
        slot = self._slots.get(key)
        if not self._settings.take_up and not self._slots.asked_for(key):
            return
        if slot is not None and slot.parked:
            return
        try:
            await self.ensure_driven(key)
        except StorageFull as error:
            self._hold_up(key, str(error))
        except Exception as error:
            if not passes(error):
                self._slots.park(key, told(error))

    async def is_of_other_code(self, key: Key) -> bool:
        """Whether a session was last bound to another version of its agent than the one that is here."""
        setup = (await LogReader(self._store).fold(key)).state.setup
        bound = self._agents.get(setup.agent.name)
        if bound is None:
            return False
        return bound.agent.digest != setup.agent.digest or bound.agent.mode != setup.terms.mode

    def _hold_up(self, key: Key, reason: str) -> None:
        """A session cannot be resumed as long as there is no room to say so. It is tried again with every look."""
        if self._slots.at(key).held_up != reason:
            LOGGER.warning("session %r is not resumed, and tried again: %s", key.session, reason)
        self._slots.at(key).held_up = reason

    async def why_not(self, key: Key) -> str:
        """Why a session is not driven here."""
        row = await self._store.index.get(key)
        if row is not None and row.agent not in self._agents:
            return f"waiting for agent {row.agent!r}, which is not bound here: name it in open(agents=[...])"
        return f"{await self.holder(key) or 'another process'} drives it"

    async def holder(self, key: Key) -> str:
        """Who has a session now, in words; empty if nobody has, or only a process that is certainly gone."""
        holder = await self._store.leases.holder(key, now_ms=self._ports.now_ms())
        return liveness.told(holder.runner) if holder is not None and not liveness.gone(holder.runner) else ""

    async def place(self, slot: Slot | None, recorded: Workspace | None) -> Place | None:
        """Where a session works, looked at: as it was named here, else as its log has it; None if it has none."""
        folder = (slot.folder if slot is not None else None) or recorded_folder(recorded)
        if folder is None:
            return None
        place = Place(folder)
        await place.look()
        return place

    # --- a session that exists ---

    async def _open(self, slot: Slot) -> Driven | None:
        async with self._claimed(slot) as owner:
            try:
                return await self._take_up(slot, owner)
            except (Refused, StaleEpoch):
                raise
            except Exception as error:
                # A session that cannot be opened must not take the others with it.
                if not passes(error):
                    self._slots.park(slot.key, told(error))
                raise

    async def _take_up(self, slot: Slot, owner: Owner) -> Driven | None:
        await owner.insist(owner.load)
        bound = await self._bound(slot, owner)
        if bound is None:
            return None
        place = await self.place(slot, owner.state.workspace.folder)
        await self._bring(slot, owner, bound, place)
        first = await self._taken_over(slot, owner, bound, place)
        begun = await owner.take(first)
        slot.died = ""
        if isinstance(first, SessionForked):
            begun += await self._rebind(slot, owner, bound, place)
        return await self._adopt(slot, owner, bound, place, begun)

    async def _bound(self, slot: Slot, owner: Owner) -> Bound | None:
        """The agent of a session with its options; None if it is not bound here."""
        setup = owner.state.setup
        bound = self._agents.get(setup.agent.name)
        if bound is None:
            return None
        before = recorded(setup.options, await owner.event(setup.seq))
        return bound.with_options(merged(before, self._with_sandbox(slot.options)))

    def _with_sandbox(self, options: SessionOptions) -> SessionOptions:
        """Options with the sandbox that this runtime was given, unless they name one."""
        return merged(SessionOptions(sandbox=self._settings.sandbox), options)

    async def _taken_over(
        self, slot: Slot, owner: Owner, bound: Bound, place: Place | None
    ) -> SessionResumed | SessionForked:
        """A new owner's first fact. A fork that was made and not begun begins now: nothing of its origin's open work
        is its own."""
        key = slot.key
        if owner.state.epoch >= owner.epoch:
            raise StaleEpoch(f"session {key.session!r} was taken while it was being opened")
        if owner.state.session_id != key.session:
            head = await self._store.log.head(key)
            if head is not None and head.origin is not None:
                came_from = Key(key.tenant, head.origin.session)
                held = await held_since(self._store, came_from, owner.state, self._slots.get(came_from))
                return first_facts.forked(key, head.origin, owner, self._settings.runner, held=held)
        return self._resumed(slot, owner, bound, place)

    def _resumed(self, slot: Slot, owner: Owner, bound: Bound, place: Place | None) -> SessionResumed:
        return first_facts.resumed(owner, self._settings.runner, bound, slot.local_code, place, slot.died)

    async def _bring(self, slot: Slot, owner: Owner, bound: Bound, place: Place | None) -> None:
        """Brings the code of mounted tools that this process was opened with, and what the log has of those of MCP
        servers."""
        tools = owner.state.toolset.tools
        names = {name for name, spec in tools.items() if name not in bound.tools and spec.runs != "client"}
        slot.local_code.bring(tool for tool in self._settings.library if tool.name in names)
        if bound.agent.mcp_config is not None:
            from windlass.runtime.mcp import opened_session

            await opened_session.recall_tools(bound, owner, slot.local_code, place)

    @asynccontextmanager
    async def _claimed(self, slot: Slot) -> AsyncIterator[Owner]:
        """The owner of a session, which is claimed. Unless it drives the session in the end the session is given back,
        whatever happened: also if whoever opens it is cancelled. One whose loop is gone can only see its lease run
        out."""
        owner = self._owner(slot)
        await self._claim(owner)
        try:
            yield owner
        except GeneratorExit:
            raise
        except BaseException:
            await self._give_back(slot, owner)
            raise
        else:
            await self._give_back(slot, owner)

    async def _give_back(self, slot: Slot, owner: Owner) -> None:
        if slot.driven is None or slot.driven.owner is not owner:
            await owner.release()

    def _owner(self, slot: Slot) -> Owner:
        every = self._settings.snapshot_every
        owner = Owner(self._store, slot.key, self._ports, slot.hub, self._clock, snapshot_every=every)
        owner.on_kept = self._settings.on_kept
        return owner

    async def _claim(self, owner: Owner) -> None:
        await owner.lease.claim(self._settings.runner, self._settings.lease_ms)

    async def _adopt(self, slot: Slot, owner: Owner, bound: Bound, place: Place | None, begun: list[Event]) -> Driven:
        """Has a session driven that is ours now. `begun` is what was put on record when it was taken."""
        await recall_clients(bound, owner.state, slot.local_code, owner.log, slot.key)
        bound = bound.for_session(slot.local_code)
        if bound.agent.skills_config is not None:
            from windlass.runtime.skills.session_skills import SessionSkills

            bound.skills = SessionSkills(bound.agent.skills_config, owner)
        instructions = SessionInstructions(owner, bound, place)
        await instructions.begin()
        driven = self._assembly.driven(owner, bound, instructions, begun)
        if bound.agent.mcp_config is not None:
            from windlass.runtime.mcp import opened_session

            await opened_session.begin(driven, bound, lambda: self._slots.closed)
        self._require_open()
        owner.drives()
        self._slots.seat(slot, driven)
        self._tasks.run(slot, driven)
        return driven

    def _require_open(self) -> None:
        if self._slots.closed:
            raise UsageError("this runtime is closed: open another one")

    # --- a new one ---

    async def begin(self, key: Key, beginning: Beginning) -> None:
        """Begins a session that has no record yet, unless somebody else does."""
        options = self._with_sandbox(beginning.options)
        beginning = msgspec.structs.replace(beginning, options=options, bound=beginning.bound.with_options(options))
        async with self._slots.locked(key) as slot:
            if slot.driven is not None:
                return
            while not await self._begun(slot, beginning):
                await self._ports.sleep_ms(self._settings.poll_ms)
                self._require_open()
                head = await self._store.log.head(key)
                if head is not None and head.seq > 0:
                    return

    async def _begun(self, slot: Slot, beginning: Beginning) -> bool:
        """Begins a session, unless it was begun meanwhile: whoever resumes it must say so first. False if somebody else
        has it."""
        try:
            async with self._claimed(slot) as owner:
                await owner.insist(owner.load)
                if log.is_new(owner.state):
                    await self._start(slot, owner, beginning)
        except LeaseHeld:
            return False
        return True

    async def _start(self, slot: Slot, owner: Owner, beginning: Beginning) -> None:
        bound = beginning.bound
        place = await self.place(slot, None)
        task = await first_task.first_task(self._store, slot.key, bound) if beginning.birth is not None else None
        if task is not None:
            owner.follows(task.at_ms)
        along = functools.partial(first_task.along, bound, place, task)
        fact = first_facts.started(slot.key, owner, beginning, place)
        try:
            begun = await owner.take(fact, takes=(fact.command_id,), along=along)
            await self._adopt(slot, owner, bound, place, begun)
        except CodecError as error:
            raise UsageError(f"session {slot.key.session!r} cannot begin like this: {error}") from error

    # --- a fork ---

    async def begin_fork(self, key: Key, branch: Key, origin: Origin, *, keeps_open: bool) -> None:
        """Begins a fork of a session, unless it was found and begun meanwhile. It works where its origin works, with
        the code that was mounted there; what people were asked stays open if it is to."""
        async with self._slots.locked(branch) as slot:
            if slot.driven is not None:
                return
            async with self._claimed(slot) as owner:
                await self._fork(slot, owner, key, origin, keeps_open)

    async def _fork(self, slot: Slot, owner: Owner, key: Key, origin: Origin, keeps_open: bool) -> None:
        await owner.insist(owner.load)
        runner, held = self._settings.runner, await held_since(self._store, key, owner.state, self._slots.get(key))
        begun = await owner.take(first_facts.forked(slot.key, origin, owner, runner, keeps_open=keeps_open, held=held))
        bound = await self._bound(slot, owner)
        if bound is None:
            return
        self._carry_over(key, slot)
        place = await self.place(slot, owner.state.workspace.folder)
        begun += await self._rebind(slot, owner, bound, place)
        await self._adopt(slot, owner, bound, place, begun)

    def _carry_over(self, key: Key, branch: Slot) -> None:
        source = self._slots.get(key)
        if source is None:
            return
        if source.folder is not None and branch.folder is None:
            self._slots.place(branch.key, source.folder)
        branch.local_code.code.update(source.local_code.code)

    async def _rebind(self, slot: Slot, owner: Owner, bound: Bound, place: Place | None) -> list[Event]:
        """A fork begins with the tools of its origin; if the code here is not theirs, that is put on record."""
        await self._bring(slot, owner, bound, place)
        differs = self._resumed(slot, owner, bound, None)
        if differs.tools is not None or differs.terms is not None:
            await self._claim(owner)
            return await owner.take(self._resumed(slot, owner, bound, place))
        return []
