"""The runtime: a store, the agents bound to code, and a driver for each session that is owed work.

`drive` is the only way in which work happens: first runs, resumes, timers and commands of other processes all go
through it. One task watches the store, one keeps the leases.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec

from windlass.events import codec
from windlass.events.base import Command
from windlass.events.errors import (
    CommandTaken,
    LeaseHeld,
    NotFound,
    Refused,
    StaleEpoch,
    StoreError,
    StorePoisoned,
    UsageError,
)
from windlass.events.items import HistoryItem
from windlass.events.sessions import SessionForked, SessionResumed, SessionShutDown, SessionStarted
from windlass.kernel import log
from windlass.store.base import Durability, InboxCommand, Key, Origin, Query, Store
from windlass.store.chain import history

from .agent import Agent
from .approvals import Approver
from .binding import Bound, bound_names
from .driver import Driver, Rested, SessionSeat
from .hooks import Hooks
from .hub import Hub
from .imports import refs_of
from .owner import SNAPSHOT_EVERY_RECORDS, Owner
from .performer import Performer
from .ports import Ports, SystemPorts
from .reading import Active, Reading
from .session import Session
from .watching import Watching

LEASE_MS = 15_000
POLL_MS = 100
PARKED_MAX = 1_000
OWED_AT_ONCE = 200
MAIL_NEWEST = 50
LOOKS_AT_ONCE = 32
RESTING_MAX = 128
"""How many sessions at rest are kept open."""


class Runtime(Reading):
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
    ) -> None:
        """`take_up` = sessions that are owed work are gone on with unasked; else only those asked for by name are."""
        self._given = store
        self._durability = durability
        self.tenant = tenant
        self.ports = ports or SystemPorts()
        self.approver = approver
        self.runner = self.ports.runner()
        self.parked: dict[Key, str] = {}
        self._lease_ms = lease_ms
        self._poll_ms = poll_ms
        self._plane = plane
        self._snapshot_every = snapshot_every
        self._take_up = take_up
        self._asked_for: set[Key] = set()
        self._bound: dict[str, Bound] = {}
        self._agents = list(agents)
        self._active: dict[Key, Active] = {}
        self._opening: dict[Key, asyncio.Lock] = {}
        self._hubs: dict[Key, Hub] = {}
        self._wakes: dict[Key, int] = {}
        self._resting: dict[Key, None] = {}
        self._unread = 0
        self._look_at = 0
        self._mail: dict[str, int] = {}
        """How many times the inboxes of an agent's sessions must still be gone through."""
        self._mail_at: dict[str, int] = {}
        self._looked_ms = 0
        self._tasks: list[asyncio.Task[Any]] = []
        self._closed = False

    # --- life ---

    async def start(self) -> Runtime:
        """Opens the store, binds the agents, drives what is owed, and watches the store."""
        if isinstance(self._given, str):
            from windlass.store import open_store

            self.store = await open_store(self._given, durability=self._durability)
        else:
            self.store = self._given
        if self._plane is None:
            from windlass.tools.plane import LocalPlane

            self._plane = LocalPlane()
        for agent in self._agents:
            self.bind(agent)
        self._tasks = [
            self.ports.spawn(self._watch(), "windlass:watch"),
            self.ports.spawn(self._keep_leases(), "windlass:leases"),
        ]
        await self._drive_owed()
        return self

    async def __aenter__(self) -> Runtime:
        return await self.start()

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Stops driving, gives the leases back and closes models and the store it opened. Safe twice. What was under
        way is owed again to whoever opens the store next."""
        if self._closed:
            return
        self._closed = True
        tasks = [*self._tasks, *(a.task for a in self._active.values() if a.task is not None)]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for active in list(self._active.values()):
            await active.owner.release()
        for hub in self._hubs.values():
            hub.close()
        for bound in self._bound.values():
            await bound.close()
        if self._plane is not None:
            await self._plane.close()
        if isinstance(self._given, str):
            await self.store.close()

    def bind(self, agent: Agent) -> Bound:
        """Makes an agent's code known, so that its sessions can be driven here."""
        known = self._bound.get(agent.name)
        if known is not None and known.agent is agent:
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
    ) -> Session:
        """Creates a session or finds it. One that was cut off goes on by itself. A new one may begin with a `history`
        from elsewhere (see `windlass.models.convert`)."""
        bound = self.bind(agent)
        refs_of(history)  # one that no provider would take is refused before anything is made
        key = Key(self.tenant, session_id or self.ports.fresh_id())
        self._asked_for.add(key)
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

    async def get(self, session_id: str) -> Session:
        """A handle on a session that exists. Raises `NotFound` otherwise."""
        key = Key(self.tenant, session_id)
        if await self.store.head(key) is None:
            raise NotFound(f"there is no session {session_id!r}: list them with sessions()")
        self._asked_for.add(key)
        return Session(self, key)

    async def sessions(self, **filters: Any) -> list[Any]:
        """What the index knows of the sessions, newest change first."""
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
            if log.is_new(owner.state):
                fact = self._started(key, owner, bound, title, metadata, imported)
                await owner.take(fact, takes=(fact.command_id,))
            await self._adopt(key, owner, bound)

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
                return owner

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

    # --- driving ---

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
            await owner.take(await self._taken_over(key, owner, bound))
            return await self._adopt(key, owner, bound)
        except (Refused, StaleEpoch):
            raise
        except Exception as error:
            # A session that cannot be opened must not take the others with it.
            if not _passes(error):
                self._park(key, f"{type(error).__name__}: {error}")
            await owner.release()
            raise

    async def _taken_over(self, key: Key, owner: Owner, bound: Bound) -> SessionResumed | SessionForked:
        """A new owner's first fact. Where a fork was made and not begun, it begins now: nothing of its origin's open
        work is its own."""
        if owner.state.epoch >= owner.epoch:
            raise StaleEpoch(f"session {key.session!r} was taken while it was being opened")
        if owner.state.session_id != key.session:
            head = await self.store.head(key)
            if head is not None and head.origin is not None:
                return self._forked(key, head.origin, owner)
        return self._resumed(owner, bound)

    def _resumed(self, owner: Owner, bound: Bound) -> SessionResumed:
        state = owner.state
        specs = bound.specs()
        now = {spec.name: spec.digest for spec in specs}
        recorded = {name: spec.digest for name, spec in state.tools.items()}
        changed = bound.ref.digest != state.agent.digest or now != recorded
        return SessionResumed(
            epoch=owner.epoch,
            runner=self.runner,
            agent=bound.ref if changed else None,
            tools=specs if changed else None,
            body=bound.setup_body() if changed else None,
        )

    async def _adopt(self, key: Key, owner: Owner, bound: Bound) -> Active:
        rendered = bound.instructions(owner.state)
        if rendered is not None:
            await owner.take(rendered)
        if self._closed:
            await owner.release()
            raise UsageError("this runtime is closed: open another one")
        seat = SessionSeat(owner)
        hooks = Hooks(bound.agent.hooks, self.ports)
        performer = Performer(owner, bound, self._plane, seat, bound.agent.approver or self.approver, hooks)
        if bound.agent.hooks:
            owner.on_committed = Watching(performer).committed
        driver = Driver(owner, performer)
        seat.driver = driver
        active = self._active[key] = Active(owner, driver)
        self._run(key, active)
        return active

    def _run(self, key: Key, active: Active) -> None:
        if (active.task is None or active.task.done()) and not self._closed:
            active.task = self.ports.spawn(self._drive(key, active), f"windlass:drive:{key.session}")

    async def _drive(self, key: Key, active: Active) -> Rested:
        try:
            rested = await active.driver.run()
        except asyncio.CancelledError:
            raise
        except Exception as error:
            if _passes(error):
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
            hub = self._hubs.get(oldest)
            if hub is not None and hub.listening:
                hub.look()
            else:
                self._hubs.pop(oldest, None)
            await active.owner.release()

    def _drop(self, key: Key, active: Active) -> None:
        """This process does not drive the session any more; its readers go on with the log."""
        if self._active.get(key) is active:
            del self._active[key]
        self.hub(key).look()

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
        return await asyncio.shield(active.task)

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
        return "another process drives it"

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
            if not _passes(error):
                self._park(key, f"{type(error).__name__}: {error}")

    # --- the two watching tasks ---

    async def _watch(self) -> None:
        """Notices what other processes wrote, timers that have come due, and sessions that nobody drives any more."""
        while True:
            await self.ports.sleep_ms(self._poll_ms)
            try:
                await self._look_round()
            except StoreError:
                continue  # it may answer the next time

    async def _look_round(self) -> None:
        for key in [key for key, at_ms in self._wakes.items() if at_ms <= self._now_of(key)]:
            self._wakes.pop(key, None)
            await self._try_to_drive(key)
        # A lease that runs out changes nothing in the store, so it is looked for now and then in any case.
        overdue = self.ports.monotonic_ms() - self._looked_ms >= self._lease_ms // 3
        if await self.store.changed() or overdue:
            self._looked_ms = self.ports.monotonic_ms()
            await self._notice()
        await self._look_in()
        await self._read_mail()

    def _now_of(self, key: Key) -> int:
        active = self._active.get(key)
        return active.owner.now_ms() if active is not None else self.ports.now_ms()

    async def _notice(self) -> None:
        self._unread = len(self._active)
        now = self.ports.now_ms()
        for name in list(self._bound):
            waiting = [*await self._keys(agent=name, owed=True), *await self._keys(agent=name, wake_before_ms=now)]
            for key in waiting:
                if key not in self._active:
                    await self._try_to_drive(key)
        self._mail = dict.fromkeys(self._bound, 2)

    async def _look_in(self) -> None:
        """Sends the drivers here to their inboxes: all of them where they are few, else a tenth at a time in turn. Our
        own commits look like those of others, so this happens as often as the store is asked."""
        keys = list(self._active)
        share = min(self._unread, max(LOOKS_AT_ONCE, len(keys) // 10), len(keys))
        self._unread -= share
        for key in [keys[(self._look_at + number) % len(keys)] for number in range(share)]:
            active = self._active.get(key)
            if active is None:
                continue
            if active.task is not None and not active.task.done():
                active.driver.look()
            elif active.owner.stale or active.owner.state.active or await self.store.inbox(key, limit=1):
                await self._try_to_drive(key)
        self._look_at += share

    async def _read_mail(self) -> None:
        """Looks into the inboxes of sessions at rest. The newest ones are looked into each time, the others a page at a
        time in turn, twice around: a command to any of them is found, and no round takes long."""
        for name in [name for name, rounds in self._mail.items() if rounds]:
            place = self._mail_at.get(name, 0)
            everyone = Query(tenant=self.tenant, agent=name, limit=MAIL_NEWEST)
            page = Query(tenant=self.tenant, agent=name, limit=OWED_AT_ONCE, offset=place)
            rows = await self.store.find(page)
            over = len(rows) < OWED_AT_ONCE
            self._mail_at[name] = 0 if over else place + OWED_AT_ONCE
            self._mail[name] -= over
            for row in [*rows, *(await self.store.find(everyone) if place else ())]:
                key = Key(row.tenant, row.session)
                if key not in self._active and key not in self.parked and await self.store.inbox(key, limit=1):
                    await self._try_to_drive(key)

    async def _keep_leases(self) -> None:
        while True:
            await self.ports.sleep_ms(self._lease_ms // 3)
            for key, active in list(self._active.items()):
                try:
                    await active.owner.keep()
                except StaleEpoch:
                    self._drop(key, active)
                    if active.task is not None:
                        active.task.cancel()
                except StoreError:
                    continue  # the next round may reach it; until then nothing new is begun without asking

    # --- commands ---

    async def send(self, key: Key, command: Command) -> None:
        """Has a command taken: directly where this process can own the session, through the inbox otherwise. Raises
        `Refused` where it does not fit now. One that was taken before is acknowledged again, and nothing happens."""
        if self._closed:
            raise UsageError("this runtime is closed: open another one")
        active = await self._ensure_driven(key)
        if active is None:
            await self.store.send(
                key,
                InboxCommand(
                    command_id=command.command_id, at_ms=self.ports.now_ms(), data=codec.encode_command(command)
                ),
            )
            await self._make_known(key)
            return
        try:
            await active.driver.submit(command)
        except CommandTaken:
            return
        except Refused:
            if await self._taken_at(key, command.command_id) is None:
                raise
            return
        except StaleEpoch:
            self._drop(key, active)
            await self.send(key, command)
        finally:
            # Also where nobody waits for it any more: the command may have been kept.
            if self._active.get(key) is active:
                self._run(key, active)

    async def _make_known(self, key: Key) -> None:
        """A fork whose maker died before it began is in no index yet; what waits in its inbox would never be seen."""
        if await self.store.get_index(key) is None:
            owner = Owner(self.store, key, self.ports, Hub())
            await owner.load()
            await self.store.put_index(owner.index_row())

    # --- forks ---

    async def fork(self, key: Key, session_id: str | None, *, at_seq: int | None = None) -> Session:
        """A new session that continues another one; O(1), the history is shared."""
        boundary, chain = await self._boundary(key, at_seq)
        branch = Key(key.tenant, session_id or self.ports.fresh_id())
        origin = Origin(session=key.session, seq=boundary, hash=chain)
        if not await self.store.create(branch, origin=origin) and await self._has_begun(branch, origin):
            raise UsageError(f"session {branch.session!r} exists already: give the fork another id")
        owner = self._owner(branch)
        await owner.claim(self.runner, self._lease_ms)
        await owner.insist(owner.load)
        await owner.take(self._forked(branch, origin, owner))
        bound = self._bound.get(owner.state.agent.name)
        if bound is not None:
            await self._adopt(branch, owner, bound)
        return Session(self, branch)

    async def _has_begun(self, branch: Key, origin: Origin) -> bool:
        head = await self.store.head(branch)
        return head is not None and head.seq > origin.seq

    def _forked(self, branch: Key, origin: Origin, owner: Owner) -> SessionForked:
        return SessionForked(
            session_id=branch.session,
            origin_id=origin.session,
            at_seq=origin.seq,
            origin_hash=origin.hash,
            epoch=owner.epoch,
            by=self.runner,
        )

    async def _boundary(self, key: Key, at_seq: int | None) -> tuple[int, str]:
        """The end of the last append at or before a seq, and its hash."""
        found: tuple[int, str] | None = None
        async for sealed in history(self.store, key, until=at_seq):
            found = (sealed.last_seq, sealed.hash)
        if found is None:
            raise UsageError(f"session {key.session!r} has no record at or before {at_seq}")
        return found

    async def shut_down(self, session_id: str, *, reason: str = "") -> None:
        """Puts the sums of a session on record; it may be resumed later."""
        active = await self._ensure_driven(Key(self.tenant, session_id))
        if active is not None:
            await active.owner.take(SessionShutDown(reason=reason))

    def agents(self) -> str:
        """The names of the agents that are bound here."""
        return bound_names(self._bound)


def _passes(error: Exception) -> bool:
    """Whether an error is one that may be gone the next time, and no reason to leave a session alone."""
    return isinstance(error, StoreError) and not isinstance(error, StorePoisoned | NotFound)
