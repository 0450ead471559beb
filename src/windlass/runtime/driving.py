"""Driving sessions: who owns one here, how it is opened, gone on with, let go and parked.

`drive` is the only way in which work happens: first runs, resumes, timers and commands of other processes all go
through it.
"""

from __future__ import annotations

import asyncio
import functools
from typing import Any

from windlass.events.base import Event
from windlass.events.errors import (
    LeaseHeld,
    NotFound,
    Refused,
    StaleEpoch,
    StoreError,
    StorePoisoned,
    UsageError,
)
from windlass.events.sessions import SessionForked, SessionResumed
from windlass.events.specs import Workspace
from windlass.kernel.state import State
from windlass.store.base import Key, Origin, Query
from windlass.tools.threads import Threads
from windlass.tools.tool import AnyTool

from . import liveness
from .approvals import Approver
from .archive import LogArchive
from .attached import Attached
from .binding import Bound
from .briefing import Briefing, Hands
from .driver import Driver, Rested
from .ending import Ending
from .hooks import Hooks
from .mounting import present, recall_clients
from .observing import Observing
from .owner import Owner
from .paging import Paging
from .performer import Performer
from .reading import Active, closed_meanwhile
from .seat import SessionSeat
from .watching import Watching
from .workspace import Folder, Place, recorded_folder

PARKED_MAX = 1_000
OWED_AT_ONCE = 200
RESTING_MAX = 128
"""How many sessions at rest are kept open."""


class Driving(Ending):
    """The driving side of a runtime."""

    tenant: str
    runner: str
    approver: Approver | None
    _archive: LogArchive
    _lease_ms: int
    _plane: Any
    _hook_threads: Threads
    _snapshot_every: int
    _take_up: bool
    _asked_for: set[Key]
    _folders: dict[Key, Folder]
    """Where sessions work, as somebody said in this process."""
    _attached: dict[Key, Attached]
    _library: list[AnyTool]
    """The tools that this process was opened with: code for whatever sessions have mounted."""
    _wakes: dict[Key, int]
    _resting: dict[Key, None]
    _leaving: set[asyncio.Task[Rested]]
    """Drives that were given up and have not ended yet."""
    _closed: bool

    def _owner(self, key: Key) -> Owner:
        return Owner(self.store, key, self.ports, self.hub(key), snapshot_every=self._snapshot_every)

    async def _ensure_driven(self, key: Key) -> Active | None:
        """The active session, opened and resumed where it was not; None where somebody else has it or its agent is
        not bound here."""
        lock = self._opening.setdefault(key, asyncio.Lock())
        async with lock:
            active = self._active.get(key)
            if active is not None:
                self._run(key, active)
                return active
            try:
                return await self._open(key)
            except (LeaseHeld, StaleEpoch):
                return None

    async def _open(self, key: Key) -> Active | None:
        owner = self._owner(key)
        await owner.claim(self.runner, self._lease_ms)
        try:
            await owner.insist(owner.load)
            bound = self._bound.get(owner.state.agent.name)
            if bound is None:
                await owner.release()
                return None
            place = await self._place(key, owner.state.workspace)
            self._bring(key, owner.state, bound)
            first = await self._taken_over(key, owner, bound, place)
            begun = await owner.take(first)
            if isinstance(first, SessionForked):
                begun += await self._rebind(key, owner, bound, place)
            return await self._adopt(key, owner, bound, place, begun)
        except (Refused, StaleEpoch):
            raise
        except Exception as error:
            # A session that cannot be opened must not take the others with it.
            if not passes(error):
                self._park(key, f"{type(error).__name__}: {error}")
            await owner.release()
            raise

    async def _place(self, key: Key, recorded: Workspace | None) -> Place | None:
        """Where a session works, looked at: as it was named here, else as its log has it; None where it has none."""
        folder = self._folders.get(key) or recorded_folder(recorded)
        if folder is None:
            return None
        place = Place(folder)
        await place.look()
        return place

    async def _taken_over(
        self, key: Key, owner: Owner, bound: Bound, place: Place | None
    ) -> SessionResumed | SessionForked:
        """A new owner's first fact. Where a fork was made and not begun, it begins now: nothing of its origin's open
        work is its own."""
        if owner.state.epoch >= owner.epoch:
            raise StaleEpoch(f"session {key.session!r} was taken while it was being opened")
        if owner.state.session_id != key.session:
            head = await self.store.head(key)
            if head is not None and head.origin is not None:
                return self._forked(key, head.origin, owner)
        return self._resumed(owner, bound, place.workspace if place is not None else None)

    def _forked(self, branch: Key, origin: Origin, owner: Owner) -> SessionForked:
        return SessionForked(
            session_id=branch.session,
            origin_id=origin.session,
            at_seq=origin.seq,
            origin_hash=origin.hash,
            epoch=owner.epoch,
            by=self.runner,
        )

    def attached(self, key: Key) -> Attached:
        """What this process adds to a session."""
        found = self._attached.get(key)
        if found is None:
            found = self._attached[key] = Attached()
        return found

    def _bring(self, key: Key, state: State, bound: Bound) -> None:
        """Brings the code of mounted tools that this process was opened with."""
        names = {name for name, spec in state.tools.items() if name not in bound.tools and spec.runs != "client"}
        self.attached(key).bring(tool for tool in self._library if tool.name in names)

    def _resumed(self, owner: Owner, bound: Bound, workspace: Workspace | None) -> SessionResumed:
        state = owner.state
        specs = present(bound, state, self.attached(owner.key))
        now = {spec.name: spec.digest for spec in specs}
        recorded = {name: spec.digest for name, spec in state.tools.items()}
        changed = bound.ref.digest != state.agent.digest or now != recorded
        terms = bound.terms
        return SessionResumed(
            epoch=owner.epoch,
            runner=self.runner,
            workspace=workspace,
            agent=bound.ref if changed else None,
            tools=specs if changed else None,
            terms=terms if terms != state.terms else None,
            knowledge_tokens=bound.knowledge_tokens() if changed else None,
            body=bound.setup_body() if changed else None,
        )

    async def _rebind(self, key: Key, owner: Owner, bound: Bound, place: Place | None) -> list[Event]:
        """A fork begins with the tools of its origin; where the code here is not theirs, that is put on record."""
        self._bring(key, owner.state, bound)
        found = self._resumed(owner, bound, None)
        if found.tools is not None or found.terms is not None:
            await owner.claim(self.runner, self._lease_ms)
            return await owner.take(self._resumed(owner, bound, place.workspace if place is not None else None))
        return []

    async def _adopt(self, key: Key, owner: Owner, bound: Bound, place: Place | None, begun: list[Event]) -> Active:
        """Has a session driven here. `begun` is what was put on record when it was taken: its hooks hear of it too."""
        attached = self.attached(key)
        await recall_clients(bound, owner.state, attached, self.store, key)
        bound = bound.for_session(attached)
        briefing = Briefing(owner, bound, place)
        await briefing.begin()
        if self._closed:
            await owner.release()
            raise UsageError("this runtime is closed: open another one")
        seat = SessionSeat(owner)
        observing = Observing(self.ports, self._hook_threads)
        hooks = Hooks(bound.agent.hooks, self.ports, observing, functools.partial(seat.consult, "judge"))
        hands = Hands(self._plane, briefing)
        paging = Paging(owner, bound.agent.archive, self._archive)
        performer = Performer(owner, bound, hands, seat, bound.agent.approver or self.approver, hooks, paging)
        if bound.agent.hooks or attached.hooks:
            owner.on_committed = Watching(performer).committed
            owner.on_committed(begun)
        driver = Driver(owner, performer, clients=attached.clients)
        seat.driver = driver
        active = self._active[key] = Active(owner, driver, briefing)
        self._run(key, active)
        return active

    def _run(self, key: Key, active: Active) -> None:
        if (active.task is None or active.task.done()) and not self._closed:
            active.task = self.ports.spawn(self._drive(key, active), f"windlass:drive:{key.session}")

    async def _drive(self, key: Key, active: Active) -> Rested:
        try:
            if not active.owner.state.active:
                await active.briefing.look(files=True)
            rested = await active.driver.run()
        except asyncio.CancelledError:
            raise
        except Exception as error:
            if passes(error):
                # The store did not answer for long: whoever finds it owed takes it up again.
                rested = Rested(status="lost_epoch", reason=str(error))
            else:
                self._park(key, f"{type(error).__name__}: {error}")
                rested = Rested(status="parked", reason=str(error))
        if rested.status in ("lost_epoch", "parked"):
            self._drop(key, active)
        if rested.wake_at_ms is not None:
            self._wakes[key] = rested.wake_at_ms
        else:
            self._wakes.pop(key, None)
        await self._make_room(key)
        return rested

    async def _make_room(self, key: Key) -> None:
        """Sessions at rest are kept open for their next command, but not all of them: the one that has rested longest
        is let go, with its lease. The log has everything; it is opened again when something is owed."""
        self._resting.pop(key, None)
        self._resting[key] = None
        if len(self._resting) > RESTING_MAX:
            await asyncio.sleep(0)  # whoever waited for the end of one looks at it first
        if len(self._resting) <= RESTING_MAX:
            return
        oldest = next(iter(self._resting))
        del self._resting[oldest]
        async with self._opening.setdefault(oldest, asyncio.Lock()):
            active = self._active.get(oldest)
            if active is None or active.task is None or not active.task.done() or active.owner.busy:
                return
            if active.owner.state.active:
                return
            del self._active[oldest]
            active.owner.hub.look()
            self._forget_attached(oldest)
            await active.owner.release()
        self._forget_hub(oldest)

    def _drop(self, key: Key, active: Active) -> None:
        """This process does not drive the session any more, nor waits for anything of it; its readers go on with the
        log."""
        if self._active.get(key) is active:
            del self._active[key]
            self._forget_attached(key)
        task = active.task
        if task is not None and not task.done() and task is not asyncio.current_task():
            task.cancel()
            self._leaving.add(task)
            task.add_done_callback(self._leaving.discard)
        active.owner.tell_waiters()
        active.owner.hub.look()
        self._forget_hub(key)

    async def _idle(self, key: Key) -> None:
        """What is driven here says itself when it rests; nobody has to hear every record for that."""
        while (active := self._active.get(key)) is not None and key not in self.parked and await self._works(key):
            await active.owner.at_rest()
            if self._closed and await self._works(key):
                raise closed_meanwhile(key)
        await super()._idle(key)

    def _forget_attached(self, key: Key) -> None:
        found = self._attached.get(key)
        if found is not None and found.empty:
            del self._attached[key]

    async def drive(self, session_id: str) -> Rested:
        """Drives one session until it rests, and says how."""
        key = Key(self.tenant, session_id)
        try:
            active = await self._ensure_driven(key)
        except Exception:
            if key not in self.parked:
                raise
            active = None
        if active is None or active.task is None:
            return Rested(status="parked", reason=self.parked.get(key) or await self._why_not(key))
        try:
            return await asyncio.shield(active.task)
        except asyncio.CancelledError:
            if not active.task.cancelled() or self._active.get(key) is active:
                raise  # whoever asked was stopped, or this runtime is closed
            return Rested(status="lost_epoch", reason="the session belongs to another process now")

    def _park(self, key: Key, reason: str) -> None:
        if self._closed:
            return  # it ends with this process, not because of itself
        self.parked[key] = reason
        while len(self.parked) > PARKED_MAX:
            del self.parked[next(iter(self.parked))]

    async def _why_not(self, key: Key) -> str:
        """Why a session is not driven here."""
        row = await self.store.get_index(key)
        if row is not None and row.agent not in self._bound:
            return f"waiting for agent {row.agent!r}, which is not bound here: name it in open(agents=[...])"
        holder = await self.store.holder(key, now_ms=self.ports.now_ms())
        return f"{liveness.told(holder.runner) if holder is not None else 'another process'} drives it"

    async def _drive_owed(self) -> None:
        """Takes up the sessions that are owed work and whose agent is bound here."""
        for name in list(self._bound):
            for key in await self._keys(agent=name, owed=True):
                await self._try_to_drive(key)

    async def _keys(self, **which: Any) -> list[Key]:
        """Every session that fits, however many there are, asked for a page at a time."""
        found: list[Key] = []
        while True:
            query = Query(tenant=self.tenant, limit=OWED_AT_ONCE, offset=len(found), **which)
            rows = await self.store.find(query)
            found += [Key(row.tenant, row.session) for row in rows]
            if len(rows) < OWED_AT_ONCE:
                return found

    async def _try_to_drive(self, key: Key) -> None:
        if not self._take_up and key not in self._asked_for:
            return
        if key in self.parked:
            return
        try:
            await self._ensure_driven(key)
        except Exception as error:  # one bad session must not stop the rest
            if not passes(error):
                self._park(key, f"{type(error).__name__}: {error}")


def passes(error: Exception) -> bool:
    """Whether an error is one that may be gone the next time, and no reason to leave a session alone."""
    return isinstance(error, StoreError) and not isinstance(error, StorePoisoned | NotFound)
