"""One process of the simulated world that runs sessions: the real runtime on simulated ports, until it dies."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any

from windlass.events.errors import StoreError, UsageError
from windlass.runtime.api.agent import Agent
from windlass.runtime.api.approvals import Approve, Deny, PermissionAsk, QuestionAsk, Reply, Verdict
from windlass.runtime.api.runtime import Runtime
from windlass.runtime.api.session import Session
from windlass.runtime.streams.record import Record
from windlass.store.base import Key
from windlass.tools.planes.local import LocalPlanes
from windlass.tools.tool import LOCAL

from .commands import answer_body
from .flows.graphs import INPUT
from .jobs import SimJobs
from .loop import ACTOR, Actor
from .ports import SimPorts
from .store import SimStore
from .tools import SERVED

if TYPE_CHECKING:
    from .world import World

THINKING_MS = (10, 1_000, 30_000)
NOBODY_S = 90.0
LEASE_MS = 15_000
SNAPSHOT_EVERY_RECORDS = 60
SERVES_NEW_S = 2.0
"""How soon a client finds a new session to serve."""


class RunnerDied(Exception):
    """The process that was asked is no more."""


class Runner:
    """A process: an actor, its way to the disk, and its runtime."""

    def __init__(self, world: World, number: int, *, agents: Sequence[Agent] | None = None) -> None:
        """`agents` = none for a process that only sends, reads and serves; the world's agent unless given."""
        self.world = world
        self.actor = Actor(f"{'client' if agents == () else 'runner'}{number}", world)
        self.agents = tuple(agents) if agents is not None else (world.code(),)
        self.store = SimStore(world, world.disk, self.actor)
        self.runtime = Runtime(
            self.store,
            agents=self.agents,
            tenant=world.tenant,
            ports=SimPorts(world, self.actor),
            approver=self._approve if world.has_approver else None,
            lease_ms=LEASE_MS,
            poll_ms=world.poll_ms,
            planes={LOCAL: LocalPlanes(threads_max=0)},
            snapshot_every=SNAPSHOT_EVERY_RECORDS,
            tools=world.library,
            jobs=SimJobs(world, self.actor),
        )
        if self.agents:
            world.codes[self.actor] = self.agent
        self.ready = self.closing = False
        self._asked: dict[asyncio.Future[Any], asyncio.Task[Any]] = {}

    @property
    def agent(self) -> Agent:
        """The version of the agent's code that this process was started with."""
        return self.agents[0]

    async def begin(self, name: str) -> None:
        """Begins a session of the world, or finds the one of this name."""
        if self.agent.flow is not None:
            await self.runtime.flow(self.agent.flow, name, input=INPUT)
        else:
            await self.runtime.session(self.agent, name)

    @property
    def alive(self) -> bool:
        return self.ready and not self.actor.dead and not self.actor.stalled

    def start(self) -> None:
        self.world.loop.start(self._start(), self.actor, f"{self.actor.name}:start")

    async def _start(self) -> None:
        try:
            await self.runtime.start()
        except StoreError:
            # A process that cannot open its store ends; somebody starts it again.
            self.world.crash(self.actor, "start")
            return
        self.ready = True
        if not self.agents:
            self.world.loop.start(self._serve(), self.actor, f"{self.actor.name}:call")

    async def _serve(self) -> None:
        """Runs the clients' tools of every session that there is, as long as this process lives."""
        served: set[Key] = set()
        while not self.closing:
            for key in self.world.started():
                if key not in served:
                    served.add(key)
                    await Session(self.runtime, key).serve(*SERVED).__aenter__()
            await asyncio.sleep(SERVES_NEW_S)

    def died(self) -> None:
        self.store.died()
        self.world.machine.died(self.actor)
        for answer in self._asked:
            if not answer.done():
                answer.set_exception(RunnerDied(self.actor.name))
        self._asked.clear()

    async def call(self, work: Callable[[], Coroutine[Any, Any, Any]], *, patience_s: float | None = None) -> Any:
        """Has this process do something for somebody outside, who may lose patience."""
        loop = self.world.loop
        if self.actor.dead:
            raise RunnerDied(self.actor.name)
        answer: asyncio.Future[Any] = loop.create_future()
        task = loop.start(work(), self.actor, f"{self.actor.name}:call")
        self._asked[answer] = task
        task.add_done_callback(lambda done: self._settle(answer, done), context=self.world.outside.context())
        if patience_s is not None:
            loop.call_later(patience_s, task.cancel)
        return await answer

    def _settle(self, answer: asyncio.Future[Any], task: asyncio.Task[Any]) -> None:
        self._asked.pop(answer, None)
        if answer.done():
            return
        if task.cancelled():
            answer.set_exception(RunnerDied("gave up"))
        elif (error := task.exception()) is not None:
            closed = isinstance(error, UsageError) and not self.ready
            answer.set_exception(RunnerDied("closed") if closed else error)
        else:
            answer.set_result(task.result())

    # --- what goes on inside ---

    async def _approve(self, asked: PermissionAsk | QuestionAsk) -> Verdict:
        world = self.world
        world.step(self.actor, "approver")
        if world.chance.hit(0.15):
            await asyncio.sleep(NOBODY_S)
        await asyncio.sleep(world.chance.one(THINKING_MS) / 1000)
        choice = world.chance.below(6)
        if choice == 0:
            return None
        if isinstance(asked, QuestionAsk):
            return Reply(body=answer_body(), action="approve" if asked.kind == "plan" else None)
        if choice == 1:
            return Deny(feedback="no", stop=world.chance.hit(0.2))
        return Approve(scope="session" if choice == 2 else "once")

    async def read_along(self, key: Key) -> None:
        """A reader of this process: it must see every record once, in order, and only what is kept. One whose store
        did not answer goes on from where it was."""
        while True:
            try:
                async for told in self.runtime.tail(key, after=self.read_to.get(key, 0)):
                    if isinstance(told, Record):
                        self.world.watch.published(ACTOR.get(), key, told, self.read_to.get(key, 0))
                        self.read_to[key] = told.seq
            except StoreError:
                await asyncio.sleep(1.0)
            else:
                return

    @property
    def read_to(self) -> dict[Key, int]:
        return self.world.read_to.setdefault(self.actor, {})
