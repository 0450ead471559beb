"""One simulated world: a disk, one or two processes that run sessions, people, and everything that can go wrong.

The world itself never fails: whatever breaks a rule ends the simulation at that moment.
"""

from __future__ import annotations

import asyncio
import functools
from collections import Counter
from collections.abc import Callable
from typing import Any, Literal

from windlass.events.errors import StorePoisoned
from windlass.events.stored.codec import Appended
from windlass.runtime.api.agent import Agent
from windlass.store.base import Key
from windlass.tools.tool import AnyTool

from .agents import versions_of
from .chance import CALM, Chance, Rates
from .disk import Disk
from .disk_watch import Log, Watch
from .flows.graphs import flow_of
from .jobs import Machine
from .loop import ACTOR, Actor, Crashed, Planned, SimLoop, Stuck
from .machines.definitions import agent_of
from .people import People
from .readers import Reader
from .runner import LEASE_MS, Runner
from .store import FULL_MS, LATENCY_MS
from .tools import EXTRAS
from .trees.agents import TIGHT, rates_of, tree_of

CHAOS_MS = (100, 500, 2_000)
RESTART_MS = (1, 200, 5_000, 20_000)
STALL_MS = (500, 5_000, 40_000)
JUMPS_MS = (-600_000, -5_000, 3_000, 90_000, 600_000)
RUNS_MIN = 3
CRASHES_MIN = 1
CRASHES_MAX = 12
STALLS_MAX = 12
FULL_MAX = 6
"""More often than this none of it happens by chance: a world in which all die young gets nowhere."""
TROUBLE_S_MAX = 3_600.0
"""How long, in simulated seconds, a world may take to get somewhere while things go wrong."""
SETTLE_S_MAX = 3_600.0
"""How long, in simulated seconds, everything may take to come to an end once nothing goes wrong any more."""

UNSETTLED_SHOWN_MAX = 12


Kind = Literal["plain", "trees", "grants", "talks", "flows", "machines"]
"""What the sessions of a world do: talk to people; have others work for them; give those more; tell each other things
and read what their parents saw; carry out workflows; go through state machines."""
AGENTS: dict[Kind, Callable[[World], list[Agent]]] = {
    "plain": versions_of,
    "trees": lambda world: [tree_of(world)],
    "flows": lambda world: [flow_of(world).coordinator],
    "grants": lambda world: [tree_of(world, TIGHT, asks=True)],
    "talks": lambda world: [tree_of(world, talks=True)],
    "machines": lambda world: [agent_of(world)],
}


class World:
    """All that one seed decides."""

    def __init__(self, seed: int, *, steps: int, tracing: bool = False, kind: Kind = "plain") -> None:
        self.seed = seed
        self.kind = kind
        self.chance = Chance(seed)
        self.rates: Rates = self.chance.rates() if kind == "plain" else rates_of(self.chance.rates())
        self.loop = SimLoop(self.chance, shuffles=self.chance.hit(0.8))
        self.loop.set_exception_handler(functools.partial(_fault, self))
        self.outside = Actor("people", self)
        self.tenant = "sim"
        self.steps_wanted = steps
        self.steps = 0
        self.runs = 0
        self.crashes = 0
        self.stalls = 0
        self.fills = 0
        self.numbers = 0
        self.places: Counter[str] = Counter()
        self.failure: BaseException | None = None
        self.lines: list[str] = []
        self._tracing = tracing
        self.healed = asyncio.Event()
        self.is_full = False
        self.appending: dict[Actor, bool] = {}
        self.read_to: dict[Actor, dict[Key, int]] = {}
        self.watch = Watch(self)
        self.disk = Disk(self)
        self.machine = Machine(self)
        self.poll_ms = self.chance.one((100, 1_000, 3_000))
        self.has_approver = self.chance.hit(0.4)
        self.agents = AGENTS[kind](self)
        self.agent = self.agents[0]
        self.library: tuple[AnyTool, ...] = (self.chance.one(EXTRAS),) if self.chance.hit(0.5) else ()
        self.codes: dict[Actor, Agent] = {}
        self.runners: list[Runner] = []
        self.clients: list[Runner] = []
        self.readers: list[Reader] = []
        self.people = People(self)
        self._wanted_runners = 1 + self.chance.below(2)
        self._has_client = self.rates.serves > 0.0

    def code(self) -> Agent:
        """The version of the agent's code that a process starts with now."""
        return self.chance.one(self.agents) if self.chance.hit(self.rates.recodes) else self.agent

    # --- what parts of the world call ---

    def fresh(self) -> int:
        self.numbers += 1
        return self.numbers

    def reached(self, place: str) -> None:
        self.places[place] += 1

    def step(self, actor: Actor, what: str) -> None:
        """Counts one act of the world."""
        self.steps += 1
        self.trace(actor, what)

    def trace(self, actor: Actor, what: str, log: Log | None = None, sealed: Any = None) -> None:
        if not self._tracing:
            return
        more = ""
        if log is not None and log.appends:
            append: Appended = log.appends[-1]
            more = " " + " ".join(str(event.__struct_config__.tag) for event in append.events)
        self.lines.append(f"{self.loop.time():10.3f} {actor.name:8} {what}{more}")

    def fail(self, error: BaseException) -> None:
        """A rule is broken: the first one counts, and nothing goes on after it."""
        if self.failure is None:
            self.failure = error
            self.loop.stop()

    def task_died(self, actor: Actor, name: str, error: BaseException) -> None:
        if actor.dead or isinstance(error, Crashed) or self.loop.over:
            return
        failure = AssertionError(f"task {name!r} of {actor.name} died: {type(error).__name__}: {error}")
        failure.__cause__ = error
        self.fail(failure)

    async def pause(self, actor: Actor, where: str, *, risk: float = 1.0, stalls: float = 1.0) -> None:
        """A moment in which anything may happen, the death of the process included: `risk` times as often as
        elsewhere. `stalls` says the same of standing still."""
        chance, rates = self.chance, self.rates
        if self.may_crash(rates.crash_await * risk):
            self.crash(actor, where)
        if actor.dead:
            await self.loop.create_future()
        if chance.hit(rates.stall_await * stalls):
            self._stall(actor, STALL_MS[-1])
            await asyncio.sleep(0)
        sample = chance.random()
        if sample < rates.latency:
            await asyncio.sleep(chance.one(LATENCY_MS) / 1000)
        elif sample < 0.5 + rates.latency / 2:
            await asyncio.sleep(0)

    def after(self, ms: int, actor: Actor, act: Callable[[], None]) -> None:
        self.loop.call_later(ms / 1000, act, context=actor.context())

    def started(self) -> list[Key]:
        """The sessions that have begun."""
        return [key for key, log in self.watch.logs.items() if log.lines]

    def compare(self, actor: Actor) -> None:
        """After an append: what owners believe is what the log says."""
        runner = next((each for each in self.runners if each.actor is actor), None)
        if runner is None:
            return
        for slot in runner.runtime.slots.driven:
            owner = slot.driven.owner if slot.driven is not None else None
            if owner is not None and not owner.stale and owner.state.seq == self.watch.logs[slot.key].state.seq:
                self.watch.compare(slot.key, owner.state)

    # --- trouble ---

    def may_crash(self, rate: float) -> bool:
        """Whether a process dies now."""
        return self.chance.hit(rate) and self.crashes < CRASHES_MAX

    def crash(self, actor: Actor, where: str) -> None:
        """A process dies, here and now."""
        if actor.dead:
            return
        self.trace(actor, f"DIES at {where}")
        self.crashes += 1
        self._note_crash(actor, where)
        actor.dead = True
        self._remove(actor)
        self.after(self.chance.one(RESTART_MS), self.outside, self.fill_up)

    def _remove(self, actor: Actor) -> None:
        for among in (self.runners, self.clients):
            runner = next((each for each in among if each.actor is actor), None)
            if runner is not None:
                among.remove(runner)
                runner.died()

    def agent_of(self, actor: Actor) -> Agent:
        """The version of the agent's code that a process runs, or ran when it died."""
        return self.codes[actor]

    def _note_crash(self, actor: Actor, where: str) -> None:
        self.reached(f"crash_at_{where}")
        if actor in self.appending:
            self.reached("crash_in_append_kept" if self.appending.pop(actor) else "crash_in_append_lost")
        for key, owner in self.watch.owners.items():
            if owner is not actor:
                continue
            state = self.watch.logs[key].state
            phase = str(state.phase.__struct_config__.tag)
            name = _CRASH_PHASES.get(phase)
            if name is not None:
                self.reached(name)
            running = [call for call in state.calls.by_id.values() if call.status == "started"]
            if running:
                self.reached("crash_tool_open")
                if any(call.status == "closed" for call in state.calls.by_id.values()):
                    self.reached("crash_mid_batch")

    def fill_up(self) -> None:
        """Starts processes until there are as many as there should be."""
        while len(self.runners) < self._wanted_runners:
            runner = Runner(self, self.fresh())
            self.runners.append(runner)
            self.trace(runner.actor, "starts")
            runner.start()
        if self._has_client and not self.clients:
            client = Runner(self, self.fresh(), agents=())
            self.clients.append(client)
            self.trace(client.actor, "starts")
            client.start()

    async def chaos(self) -> None:
        """What happens to processes from outside."""
        chance, rates = self.chance, self.rates
        while True:
            await asyncio.sleep(chance.one(CHAOS_MS) / 1000)
            if not self.runners:
                continue
            runner = chance.one([*self.runners, *self.clients])
            if runner.store.poisoned and runner.alive:
                await self._close(runner)  # only opening it again helps
            elif self.may_crash(rates.crash_any):
                self.crash(runner.actor, "any")
            elif chance.hit(rates.stall):
                self._stall(runner.actor, chance.one(STALL_MS))
            elif chance.hit(rates.clock_jump):
                self._jump(runner.actor, chance.one(JUMPS_MS))
            elif chance.hit(rates.full) and not self.is_full and self.fills < FULL_MAX:
                self.is_full = True
                self.fills += 1
                self.after(chance.one(FULL_MS), self.outside, self._empty)
            elif chance.hit(rates.close) and runner.alive:
                await self._close(runner)

    def _empty(self) -> None:
        self.is_full = False

    def _stall(self, actor: Actor, ms: int) -> None:
        if actor.stalled or self.stalls >= STALLS_MAX:
            return
        self.stalls += 1
        self.trace(actor, f"stalls for {ms} ms")
        actor.stalled = True
        if ms > LEASE_MS:
            self.reached("stalled_past_lease")
        self.after(ms, self.outside, lambda: self.loop.resume(actor))

    def _jump(self, actor: Actor, ms: int) -> None:
        self.trace(actor, f"clock jumps by {ms} ms")
        if ms < 0:
            self.reached("clock_jump_back")
        elif any(log.state.timers.open for log in self.watch.logs.values()):
            self.reached("clock_jump_over_timer")
        actor.clock_ms = ms

    async def _close(self, runner: Runner) -> None:
        """A process that ends in an orderly way leaves nothing running."""
        from .runner import RunnerDied

        if any(self.watch.logs[slot.key].state.active for slot in runner.runtime.slots.driven):
            self.reached("closed_while_running")
        runner.ready, runner.closing = False, True
        self.trace(runner.actor, "closes")
        try:
            await runner.call(runner.runtime.close)
        except RunnerDied:
            return
        await asyncio.sleep(5.0)
        left = [task.get_name() for task in self.loop.tasks_of(runner.actor)]
        left = [name for name in left if not name.endswith((":call", ":reader"))]
        if left and not runner.actor.dead and not runner.actor.stalled:
            self.fail(AssertionError(f"{runner.actor.name} was closed and still runs {left}"))
        self._retire(runner)

    def _retire(self, runner: Runner) -> None:
        runner.actor.dead = True
        self._remove(runner.actor)
        self.after(self.chance.one(RESTART_MS), self.outside, self.fill_up)

    # --- the course of things ---

    async def main(self, *, settles: bool) -> None:
        """Trouble first; then, if asked for, peace, in which everything must come to an end."""
        self.fill_up()
        start = self.loop.start
        troubles = [start(self.chaos(), self.outside, "chaos")]
        troubles += [start(self.people.live(), self.outside, f"person{n}") for n in range(2)]
        for task in troubles:
            task.add_done_callback(self.trouble_died)
        while not self._had_enough():
            await asyncio.sleep(0.5)
            self.check()
            if self.loop.time() > TROUBLE_S_MAX:
                raise Stuck(f"{self.steps} steps and {self.runs} runs in {TROUBLE_S_MAX:g} s\n{self.loop.dump()}")
        for task in troubles:
            task.remove_done_callback(self.trouble_died)
            task.cancel()
        if settles:
            await self._settle()
            self.watch.trees.at_peace()
            self.watch.flows.at_peace()
            self.watch.machines.at_peace()
        self.watch.nothing_lost()
        self.watch.verify()

    def trouble_died(self, task: asyncio.Task[Any]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self.fail(error)

    def _had_enough(self) -> bool:
        if self.steps < self.steps_wanted or self.runs < RUNS_MIN:
            return False
        if self.crashes < CRASHES_MIN and self.runners:
            self.crash(self.chance.one(self.runners).actor, "any")
        return self.crashes >= CRASHES_MIN

    def check(self) -> None:
        """What can be seen of processes at any time."""
        self.watch.nothing_lost()
        for runner in self.runners:
            for key, reason in runner.runtime.parked.items():
                if not reason.startswith("StorePoisoned"):
                    self.fail(AssertionError(f"{runner.actor.name} parked {key.session}: {reason}"))

    async def _settle(self) -> None:
        """Nothing goes wrong any more, people answer everything: whatever is owed must come to its end."""
        self.rates = CALM
        self.is_full = False
        self.healed.set()
        self.trace(self.outside, "PEACE")
        for runner in [*self.runners, *self.clients]:
            if runner.actor.stalled:
                self.loop.resume(runner.actor)
            if runner.store.poisoned or runner.closing:
                self._retire(runner)
        deadline = self.loop.time() + SETTLE_S_MAX
        while self.loop.time() < deadline:
            await asyncio.sleep(2.0)
            self.check()
            for key in self.started():
                if await self.people.grants(key):
                    continue
                command = self.people.commands.settle(key)
                if command is not None:
                    await self.people.deliver(key, command)
            if not self.watch.unfinished():
                break
        else:
            words = "\n  ".join(self.watch.unfinished()[:UNSETTLED_SHOWN_MAX])
            self.fail(
                AssertionError(f"not at an end after {SETTLE_S_MAX:g} s of peace:\n  {words}\n{self.loop.dump()}")
            )
            return
        stray = self.machine.unknown()
        if stray:
            self.fail(AssertionError(f"jobs run that no session knows of: {stray[:UNSETTLED_SHOWN_MAX]}"))
        await self._readers_catch_up()

    async def _readers_catch_up(self) -> None:
        await asyncio.sleep(20.0)
        for reader in self.readers:
            end = self.watch.logs[reader.key].state.seq
            if reader.seq != end:
                told = f"a reader of {reader.key.session} went on to {reader.seq} by its cursor, the log ends at {end}"
                self.fail(AssertionError(told))
        for runner in self.runners:
            for key, seq in self.read_to.get(runner.actor, {}).items():
                end = self.watch.logs[key].state.seq
                if seq != end:
                    self.fail(AssertionError(f"a reader of {key.session} stands at {seq}, the log ends at {end}"))


_CRASH_PHASES = {
    "awaiting_model": "crash_model_open",
    "backing_off": "crash_in_back_off",
    "compacting": "crash_while_compacting",
    "asked": "crash_while_asked",
}


def _fault(world: World, _: asyncio.AbstractEventLoop, told: dict[str, Any]) -> None:
    """What a process reports of itself. Drivers that die are replaced, so nothing else would show that one did."""
    error = told.get("exception")
    died = "driver of session" in told.get("message", "")
    if died and error is not None and not isinstance(error, Planned | StorePoisoned):
        world.task_died(ACTOR.get(), told["message"], error)
