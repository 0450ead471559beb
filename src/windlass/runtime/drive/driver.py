"""Drives one session: performs what is owed until nothing is, and reports each outcome as a fact.

A lone effect is awaited in the driver's own task; tasks are made only for real parallel work. Whoever else adds a fact
(a command, a timer) calls `nudge`, which gives up what is no longer owed and starts what is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Container
from typing import Any, Literal

import msgspec

from windlass.events.base import Command, Event
from windlass.events.errors import CodecError, CommandTaken, Refused, StaleEpoch
from windlass.events.live import UsageReported
from windlass.events.timers import TimerFired
from windlass.events.tools.permissions import ApproverMissed
from windlass.events.turns import ModelFailed, ModelReplied
from windlass.kernel.effects import AnyEffect, AskPerson, AwaitClient, RunTool, SetTimer, StartChild, WatchJob
from windlass.kernel.owed import next_wake_ms, opens, owed, waiting_for
from windlass.kernel.parts.context.context_size import context_tokens
from windlass.kernel.phases import Asked
from windlass.runtime.owner.owner import Owner
from windlass.tools.planes.task_stops import Foreign, stop, stops, take_back

from .effect_outcome import Done, instead_of
from .effects_in_flight import Flights
from .mailbox import Mailbox
from .performer import Performer
from .request_outcomes import RequestOutcome, RequestOutcomes

ASIDE = (SetTimer, AwaitClient, WatchJob, StartChild)
"""Effects that are waited for, and never awaited by the loop itself."""
ANSWERS = (ModelReplied, ModelFailed)
"""What comes of a request."""
TIMER_SLICE_MS = 60_000
"""A timer further away than this is looked at again then, so that a clock that jumps is noticed."""


class Rested(msgspec.Struct, frozen=True, kw_only=True):
    """How a drive ended: nothing to do, waiting for people, asleep until a time, or the session was lost or parked."""

    status: Literal["idle", "waiting", "wake_at", "drained", "lost_epoch", "parked", "outdated"]
    """`outdated`: another agent is to run the session, which is opened anew for that."""
    wake_at_ms: int | None = None
    waiting_for: tuple[str, ...] = ()
    reason: str = ""


class Driver:
    """The one who performs what a session is owed, in this process."""

    def __init__(self, owner: Owner, performer: Performer, *, clients: Container[str] = ()) -> None:
        self.owner = owner
        self.performer = performer
        self.mailbox = Mailbox(owner, performer)
        self.clients = clients
        """The tools that clients in this process run."""
        self.outcomes = RequestOutcomes()
        self._changed = asyncio.Event()
        self.flights = Flights(
            owner.ports, owner.key.session, changed=self._changed.set, landed=self.nudge, lost=self._lose
        )
        self._task: asyncio.Task[Any] | None = None
        self._inline: str | None = None
        self._waiting_inline = False
        self._poked = False
        self._lost: Exception | None = None
        self.ending = False
        """Whether this drive was told to end, whatever the code that it runs makes of that."""
        self.draining = False
        """Whether only what the log says has begun is brought to its end."""
        self._mail = True
        """Whether the inbox must be read: at first, and whenever the store has changed. A read for each effect would
        cost more than the effect's own commit."""
        owner.on_taken = self.nudge

    # --- the loop ---

    async def run(self) -> Rested:
        """Performs what is owed until nothing is. Cancel it at any await: nothing is lost, everything is owed again.
        When it returns, nothing that it began is still under way."""
        self._task = asyncio.current_task()
        self._lost = None
        self._mail = True
        owned = True
        try:
            await self.performer.jobs.sweep()
            return await self._loop()
        except StaleEpoch as error:
            owned = False
            return Rested(status="lost_epoch", reason=str(error))
        finally:
            self._task = None
            await self.flights.stop(self._give_up)
            await self.performer.jobs.give_up_unrecorded(owned=owned)

    async def _loop(self) -> Rested:
        owner = self.owner
        while True:
            if self._lost is not None:
                raise self._lost
            if self.ending:
                raise asyncio.CancelledError("the drive was told to end")
            # Cleared before anything is looked at: what comes after that is seen in the next round.
            self._changed.clear()
            if self._mail:
                self._mail = False
                await self.mailbox.fold_inbox()
            if owner.busy:
                await owner.settled()
            if self.mailbox.outdated:
                return Rested(status="outdated")
            await self.performer.jobs.give_up_unrecorded()
            wanted = owed(owner.state)
            if self.flights:
                self._give_up_stale(wanted)
            todo = [effect for effect in wanted if effect.effect_id not in self.flights and self._may_begin(effect)]
            if self.draining and not todo and not self.flights.working:
                return Rested(status="drained", reason="this process ends: what is owed waits for the next one")
            if not owner.state.active and not self.flights.working and _only_timers(todo):
                rested = await self._rest(wanted)
                if rested is not None:
                    return rested
                continue
            if len(todo) == 1 and not self.flights and type(todo[0]) not in ASIDE:
                await self._perform_inline(todo[0])
                continue
            missed = self._nobody_for(todo)
            if missed:
                await self._report(ApproverMissed(request_ids=missed))
                continue
            for effect in todo:
                self._start(effect)
            await self._changed.wait()

    async def _rest(self, wanted: tuple[AnyEffect, ...]) -> Rested | None:
        """How the session rests; None if it does not after all."""
        for effect in wanted:
            if isinstance(effect, SetTimer) and effect.at_ms <= self.owner.now_ms():
                await self._report(TimerFired(timer_id=effect.timer_id))
                return None
        await self.owner.snapshot()
        if self._changed.is_set():
            return None
        state = self.owner.state
        wake = next_wake_ms(opens(state))
        if isinstance(state.phase, Asked):
            return Rested(status="waiting", waiting_for=waiting_for(state), wake_at_ms=wake)
        return Rested(status="idle" if wake is None else "wake_at", wake_at_ms=wake)

    # --- performing ---

    async def _perform_inline(self, effect: AnyEffect) -> None:
        task = self._task
        assert task is not None, "a driver runs in a task"
        before = stops(task)
        self._inline = effect.effect_id
        self._waiting_inline = True
        done: Done | Command | None = None
        stopped = False
        try:
            async with Foreign(task):
                done = await self.performer.perform(effect)
        except asyncio.CancelledError:
            if not self._poked:
                raise
            stopped = True
        finally:
            poked, self._poked = self._poked, False
            self._waiting_inline = False
            self._inline = None
        if poked:
            take_back(task)
        if stops(task) > before:
            raise asyncio.CancelledError("not only we wanted it to stop")
        if not stopped:
            await self._settle(effect, done)

    async def _settle(self, effect: AnyEffect, done: Done | Command | None) -> None:
        """Reports what came of an effect; an answer that nobody waits for any more is dropped."""
        if isinstance(done, Done):
            fact = done.fact
            try:
                events = await self._report(fact, done.blobs)
            except CodecError as error:
                smaller = instead_of(fact, error)
                if smaller is None:
                    raise
                fact = smaller
                events = await self._report(fact)
            if isinstance(fact, ANSWERS):
                if type(fact) is ModelReplied and self.owner.hub.listening:
                    self.owner.hub.live([usage_notice(self.owner)])
                outcome = RequestOutcome(fact, events) if events is not None else None
                self.outcomes.tell(fact.request_id, outcome)
        elif done is not None:
            taken = await self._report(done, takes=(done.command_id,))
            if taken is None and isinstance(effect, AskPerson):
                # What the approver said does not fit the question: others may answer it, nobody is asked in a circle.
                await self._report(ApproverMissed(request_ids=(effect.ask_id, *effect.also)))
        elif isinstance(effect, AskPerson):
            await self._report(ApproverMissed(request_ids=(effect.ask_id, *effect.also)))

    async def _report(
        self, fact: Any, blobs: dict[str, bytes] | None = None, *, takes: tuple[str, ...] = ()
    ) -> list[Event] | None:
        """Adds a fact to the log; None if nobody waits for it any more."""
        try:
            return await self.owner.take(fact, takes=takes, blobs=blobs)
        except (Refused, CommandTaken):
            return None

    def _start(self, effect: AnyEffect) -> None:
        if isinstance(effect, SetTimer):
            self._start_timer(effect)
        elif isinstance(effect, AwaitClient):
            self.flights.wait_for(effect.effect_id)
        else:
            self.flights.launch(effect.effect_id, lambda: self._perform_aside(effect))

    async def _perform_aside(self, effect: AnyEffect) -> None:
        async with Foreign():
            done = await self.performer.perform(effect)
        await self._settle(effect, done)

    def _lose(self, error: Exception) -> None:
        """Something beside the loop failed: the loop ends with it, whatever it waits for."""
        self._lost = self._lost or error
        self._changed.set()
        self._poke()

    def _poke(self) -> None:
        """Has the loop give up what it awaits."""
        if self._waiting_inline and self._task is not None and not self._poked:
            self._poked = True
            stop(self._task)

    def _start_timer(self, effect: SetTimer) -> None:
        left_ms = effect.at_ms - self.owner.now_ms()
        if left_ms <= 0:
            fact = TimerFired(timer_id=effect.timer_id)
            self.flights.launch(effect.effect_id, lambda: self._report(fact), f"timer:{effect.timer_id}")
            return
        seconds = min(left_ms, TIMER_SLICE_MS) / 1000
        self.flights.after(effect.effect_id, seconds, lambda: self._timer_due(effect))

    def _timer_due(self, effect: SetTimer) -> None:
        self._changed.set()
        if self._inline is not None:
            self._start_timer(effect)

    def _nobody_for(self, todo: list[AnyEffect]) -> tuple[str, ...]:
        """Requests that nobody here can answer."""
        missed: list[str] = []
        for effect in todo:
            if isinstance(effect, AskPerson) and not self.performer.people.may_answer(effect):
                missed += (effect.ask_id, *effect.also)
            elif isinstance(effect, AwaitClient) and effect.tool not in self.clients:
                missed.append(effect.call_id)
        return tuple(missed)

    def clients_changed(self) -> None:
        """A client came or went: a call that nobody here runs any more is not waited for."""
        for call in self.owner.state.calls.by_id.values():
            if call.status == "delegated" and call.tool not in self.clients:
                self._give_up(f"{call.call_id}/client")
        self._changed.set()

    def _give_up_stale(self, wanted: tuple[AnyEffect, ...]) -> None:
        for effect_id in self.flights.unwanted({effect.effect_id for effect in wanted}):
            self._give_up(effect_id)

    def _give_up(self, effect_id: str) -> None:
        if self.flights.give_up(effect_id):
            self.outcomes.tell(effect_id, None)

    # --- what others add ---

    def nudge(self) -> None:
        """Something was added to the log, or was to be: give up what is not owed any more, start what is."""
        self._changed.set()
        if self._inline is None:
            return
        if self.owner.busy:
            # Whoever is adding right now nudges again in the end; if nobody is, the log must be read first.
            if self.owner.left_stale:
                self.flights.do("settle", self.owner.settled)
            return
        wanted = owed(self.owner.state)
        names = {effect.effect_id for effect in wanted}
        self._give_up_stale(wanted)
        if self._inline not in names:
            self._poke()
            return
        for effect in wanted:
            if effect.effect_id != self._inline and effect.effect_id not in self.flights and self._may_begin(effect):
                if isinstance(effect, AskPerson | AwaitClient) and self._nobody_for([effect]):
                    continue
                self._start(effect)

    def drain(self) -> None:
        """From now on nothing is begun but tools that are on record as started: a request to a model can be made again,
        a tool that was never begun could not be told from one that was cut off. Nobody is waited for who may take
        long: people, clients, timers, background jobs."""
        self.draining = True
        for effect in owed(self.owner.state):
            if isinstance(effect, (AskPerson, *ASIDE)):
                self._give_up(effect.effect_id)
                if effect.effect_id == self._inline:
                    self._poke()
        self._changed.set()

    def _may_begin(self, effect: AnyEffect) -> bool:
        """Nothing is begun by the code of another agent than the log says."""
        return not self.mailbox.outdated and (not self.draining or isinstance(effect, RunTool))

    def part(self) -> None:
        """This drive is over for good, and nothing is under way."""
        self.performer.finish_rewind = None
        self.flights.part()

    def look(self) -> None:
        """Somebody wrote to the inbox: read it soon."""
        self._mail = True
        self._changed.set()
        if self._inline is not None:
            self.flights.do("inbox", self.mailbox.fold_inbox)


def _only_timers(effects: list[AnyEffect]) -> bool:
    """Whether there is nothing to do, but perhaps times to wait for."""
    return all(isinstance(effect, SetTimer) for effect in effects)


def usage_notice(owner: Owner) -> UsageReported:
    """How full the context is and what the session has used, for whoever watches."""
    state = owner.state
    return UsageReported(
        usage=state.budget.spent.usage,
        context_tokens=context_tokens(state),
        window_tokens=state.current_model.window_tokens,
        items=len(state.history.items),
        after_seq=owner.hub.seq,
    )
