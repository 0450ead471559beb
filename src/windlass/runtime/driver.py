"""Drives one session: performs what is owed until nothing is, and reports each outcome as a fact.

A lone effect is awaited in the driver's own task; tasks are made only for real parallel work. Whoever else adds a fact
(a command, a timer) calls `nudge`, which gives up what is no longer owed and starts what is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container, Coroutine
from typing import Any, Literal

import msgspec

from windlass.events.base import Command, Event
from windlass.events.codec import decode_command
from windlass.events.errors import CodecError, CommandTaken, Refused, StaleEpoch
from windlass.events.live import UsageReported
from windlass.events.permissions import ApproverMissed
from windlass.events.runs import CancelReceived, CommandRefused, InterruptReceived, PartialBody, TimerFired
from windlass.events.turns import ModelFailed, ModelReplied
from windlass.kernel import state as st
from windlass.kernel.context import context_tokens
from windlass.kernel.effects import (
    AnyEffect,
    AskPerson,
    AwaitClient,
    CallModel,
    PageOut,
    PrepareCall,
    RunTool,
    SetTimer,
)
from windlass.kernel.owed import owed, waiting_for
from windlass.models.tokens import estimate_text
from windlass.store.base import InboxCommand

from .admission import admitted, check_size
from .owner import Owner
from .performer import Done, Performer, instead_of
from .preview import apart
from .watching import hooked

INBOX_AT_ONCE = 100
PARTIAL_CHARS_MAX = 160_000
"""How much of an unfinished answer is kept with the command that stopped it: it must fit one event, however written."""
TIMER_SLICE_MS = 60_000
"""A timer further away than this is looked at again then, so that a clock that jumps is noticed."""


class Rested(msgspec.Struct, frozen=True, kw_only=True):
    """How a drive ended: nothing to do, waiting for people, asleep until a time, or the session was lost or parked."""

    status: Literal["idle", "waiting", "wake_at", "lost_epoch", "parked", "slice_over"]
    wake_at_ms: int | None = None
    waiting_for: tuple[str, ...] = ()
    reason: str = ""


class Outcome:
    """What came of a request, and what the log says follows from it."""

    __slots__ = ("events", "fact")

    def __init__(self, fact: ModelReplied | ModelFailed, events: list[Event]) -> None:
        self.fact = fact
        self.events = events


class Driver:
    """The one who performs what a session is owed, in this process."""

    def __init__(self, owner: Owner, performer: Performer, *, clients: Container[str] = ()) -> None:
        self.owner = owner
        self.performer = performer
        self.clients = clients
        """The tools that clients in this process run."""
        self._task: asyncio.Task[Any] | None = None
        self._flying: dict[str, asyncio.Task[Any] | asyncio.TimerHandle] = {}
        self._chores: dict[str, asyncio.Task[Any]] = {}
        """What is done beside the effects: reading the inbox, reading the log again."""
        self._outcomes: dict[str, asyncio.Future[Outcome | None]] = {}
        """Who waits for what comes of a request that was made aside from the conversation."""
        self._inline: str | None = None
        self._waiting_inline = False
        self._poked = False
        self._changed = asyncio.Event()
        self._lost: Exception | None = None
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
        try:
            return await self._loop()
        except StaleEpoch as error:
            return Rested(status="lost_epoch", reason=str(error))
        finally:
            self._task = None
            await self._stop()

    async def _stop(self) -> None:
        """Gives up all that is under way, and waits until it has ended: a tool gets its grace, not more."""
        while self._flying or self._chores:
            under_way = [flying for flying in self._flying.values() if isinstance(flying, asyncio.Task)]
            under_way += self._chores.values()
            for name in list(self._flying):
                self._give_up(name)
            for chore in self._chores.values():
                chore.cancel()
            if under_way:
                await asyncio.wait(under_way)
            # One that was given up before it began does not say so itself.
            self._chores = {name: chore for name, chore in self._chores.items() if not chore.done()}

    async def _loop(self) -> Rested:
        owner = self.owner
        while True:
            if self._lost is not None:
                raise self._lost
            # Cleared before anything is looked at: what comes after that is seen in the next round.
            self._changed.clear()
            if self._mail:
                self._mail = False
                await self.fold_inbox()
            await owner.settled()
            wanted = owed(owner.state)
            self._give_up_stale(wanted)
            todo = [effect for effect in wanted if effect.effect_id not in self._flying]
            pages = any(isinstance(effect, PageOut) for effect in todo)
            if not owner.state.active and not pages and not self._working():
                rested = await self._rest(wanted)
                if rested is not None:
                    return rested
                continue
            if len(todo) == 1 and not self._flying and not isinstance(todo[0], SetTimer | AwaitClient):
                await self._perform_inline(todo[0])
                continue
            missed = self._nobody_for(todo)
            if missed:
                await self._report(ApproverMissed(request_ids=missed))
                continue
            for effect in todo:
                self._start(effect)
            await self._changed.wait()

    def _working(self) -> bool:
        return bool(self._chores) or any(isinstance(flying, asyncio.Task) for flying in self._flying.values())

    async def _rest(self, wanted: tuple[AnyEffect, ...]) -> Rested | None:
        """How the session rests; None where it does not after all."""
        for effect in wanted:
            if isinstance(effect, SetTimer) and effect.at_ms <= self.owner.now_ms():
                await self._report(TimerFired(timer_id=effect.timer_id))
                return None
        await self.owner.snapshot()
        if self._changed.is_set():
            return None
        state = self.owner.state
        wake = state.next_wake_ms
        match state.phase:
            case st.Asked():
                return Rested(status="waiting", waiting_for=waiting_for(state), wake_at_ms=wake)
            case _:
                return Rested(status="idle" if wake is None else "wake_at", wake_at_ms=wake)

    # --- performing ---

    async def _perform_inline(self, effect: AnyEffect) -> None:
        task = self._task
        assert task is not None
        self._inline = effect.effect_id
        self._waiting_inline = True
        done: Done | Command | None = None
        stopped = False
        try:
            done = await self._perform(effect)
        except asyncio.CancelledError:
            if not self._poked:
                raise
            stopped = True
        finally:
            poked, self._poked = self._poked, False
            self._waiting_inline = False
            self._inline = None
        if poked and task.uncancel() > 0:
            raise asyncio.CancelledError  # not only we wanted it to stop
        if not stopped:
            await self._settle(effect, done)

    async def _perform(self, effect: AnyEffect) -> Done | Command | None:
        if isinstance(effect, CallModel):
            return await self.performer.call_model(effect)
        if isinstance(effect, RunTool):
            return await self.performer.run_tool(effect)
        if isinstance(effect, PrepareCall):
            return await self.performer.prepare(effect)
        if isinstance(effect, AskPerson):
            return await self.performer.ask(effect)
        if isinstance(effect, PageOut):
            return await self.performer.page_out(effect)
        raise AssertionError(f"{type(effect).__name__} is not performed, it is waited for")

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
            if isinstance(fact, ModelReplied) and self.owner.hub.listening:
                self.owner.hub.live([usage_notice(self.owner)])
            if isinstance(fact, ModelReplied | ModelFailed):
                self._tell(fact.request_id, Outcome(fact, events) if events is not None else None)
        elif done is not None:
            taken = await self._report(done, takes=(done.command_id,))
            if taken is None and isinstance(effect, AskPerson):
                # What the approver said does not fit the question: others may answer it, nobody is asked in a circle.
                await self._report(ApproverMissed(request_ids=(effect.ask_id,)))
        elif isinstance(effect, AskPerson):
            await self._report(ApproverMissed(request_ids=(effect.ask_id,)))

    async def _report(
        self, fact: Any, blobs: dict[str, bytes] | None = None, *, takes: tuple[str, ...] = ()
    ) -> list[Event] | None:
        """Adds a fact to the log; None where nobody waits for it any more."""
        try:
            return await self.owner.take(fact, takes=takes, blobs=blobs)
        except (Refused, CommandTaken):
            return None

    def outcome(self, request_id: str) -> asyncio.Future[Outcome | None]:
        """What comes of a request that was just decided on; None where it is given up before it ends."""
        found = self._outcomes[request_id] = asyncio.get_running_loop().create_future()
        return found

    def _tell(self, request_id: str, outcome: Outcome | None) -> None:
        waiter = self._outcomes.pop(request_id, None)
        if waiter is not None and not waiter.done():
            waiter.set_result(outcome)

    def _start(self, effect: AnyEffect) -> None:
        name = effect.effect_id
        if isinstance(effect, SetTimer):
            self._start_timer(effect)
        elif isinstance(effect, AwaitClient):
            self._flying[name] = asyncio.get_running_loop().call_later(3600 * 24, lambda: None)
        else:
            self._flying[name] = self.owner.ports.spawn(self._fly(effect), f"{self.owner.key.session}:{name}")

    async def _fly(self, effect: AnyEffect) -> None:
        name = effect.effect_id
        try:
            done = await self._perform(effect)
            await self._settle(effect, done)
        except Exception as error:
            self._lose(error)
        finally:
            if self._flying.get(name) is asyncio.current_task():
                del self._flying[name]
            self._changed.set()
        self.nudge()

    def _lose(self, error: Exception) -> None:
        """Something beside the loop failed: the loop ends with it, whatever it waits for."""
        self._lost = self._lost or error
        self._changed.set()
        self._poke()

    def _poke(self) -> None:
        """Has the loop give up what it awaits."""
        if self._waiting_inline and self._task is not None and not self._poked:
            self._poked = True
            self._task.cancel()

    def _start_timer(self, effect: SetTimer) -> None:
        left = effect.at_ms - self.owner.now_ms()
        if left <= 0:
            name = f"timer:{effect.timer_id}"
            self._flying[effect.effect_id] = self.owner.ports.spawn(self._fire(effect), name)
            return
        delay = min(left, TIMER_SLICE_MS) / 1000
        self._flying[effect.effect_id] = asyncio.get_running_loop().call_later(delay, self._timer_due, effect)

    def _timer_due(self, effect: SetTimer) -> None:
        self._flying.pop(effect.effect_id, None)
        self._changed.set()
        if self._inline is not None:
            self._start_timer(effect)

    async def _fire(self, effect: SetTimer) -> None:
        name = effect.effect_id
        try:
            await self._report(TimerFired(timer_id=effect.timer_id))
        except Exception as error:
            self._lose(error)
        finally:
            if self._flying.get(name) is asyncio.current_task():
                del self._flying[name]
            self._changed.set()
        self.nudge()

    def _nobody_for(self, todo: list[AnyEffect]) -> tuple[str, ...]:
        """Requests that nobody here can answer."""
        missed: list[str] = []
        for effect in todo:
            if isinstance(effect, AskPerson) and not self.performer.answers(effect):
                missed.append(effect.ask_id)
            elif isinstance(effect, AwaitClient) and effect.tool not in self.clients:
                missed.append(effect.call_id)
        return tuple(missed)

    def clients_changed(self) -> None:
        """A client came or went: a call that nobody here runs any more is not waited for."""
        for call in self.owner.state.calls.values():
            if call.status == "delegated" and call.tool not in self.clients:
                self._give_up(f"{call.call_id}/client")
        self._changed.set()

    def _give_up_stale(self, wanted: tuple[AnyEffect, ...]) -> None:
        names = {effect.effect_id for effect in wanted}
        for name in [name for name in self._flying if name not in names]:
            self._give_up(name)

    def _give_up(self, name: str) -> None:
        flying = self._flying.pop(name, None)
        if flying is not None and flying is not asyncio.current_task():
            flying.cancel()
            self._tell(name, None)

    # --- what others add ---

    async def submit(self, command: Command) -> list[Event]:
        """Takes a command now. Raises `Refused` where it does not fit, `CommandTaken` where it was taken before."""
        command, blobs = apart(self._with_partial(await self._admitted(command)), self.owner.state)
        return await self.owner.take(command, takes=(command.command_id,), blobs=blobs)

    async def _admitted(self, command: Command) -> Command:
        owner = self.owner
        known = self.performer.bound
        check_size(command)
        command = await admitted(command, store=owner.store, key=owner.key, state=owner.state, bound=known)
        ruled = await hooked(command, self.performer)
        if ruled is not command:
            check_size(ruled)
        return ruled

    def _with_partial(self, command: Command) -> Command:
        """What the model had written when it was stopped goes into the log with the command that stopped it."""
        if not isinstance(command, InterruptReceived | CancelReceived) or not self.performer.partial_text:
            return command
        if not isinstance(self.owner.state.phase, st.AwaitingModel):
            return command
        text = "".join(self.performer.partial_text)[:PARTIAL_CHARS_MAX]
        return msgspec.structs.replace(command, tokens=estimate_text(text), body=PartialBody(text=text))

    def nudge(self) -> None:
        """Something was added to the log, or was to be: give up what is not owed any more, start what is."""
        self._changed.set()
        if self._inline is None:
            return
        if self.owner.busy:
            # Whoever is adding right now nudges again in the end; where nobody is, the log must be read first.
            if self.owner.left_stale:
                self.do("settle", self.owner.settled)
            return
        wanted = owed(self.owner.state)
        names = {effect.effect_id for effect in wanted}
        self._give_up_stale(wanted)
        if self._inline not in names:
            self._poke()
            return
        for effect in wanted:
            if effect.effect_id != self._inline and effect.effect_id not in self._flying:
                if isinstance(effect, AskPerson | AwaitClient) and self._nobody_for([effect]):
                    continue
                self._start(effect)

    def look(self) -> None:
        """Somebody wrote to the inbox: read it soon."""
        self._mail = True
        self._changed.set()
        if self._inline is not None:
            self.do("inbox", self.fold_inbox)

    def do(self, name: str, work: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        """Does something beside what the loop awaits."""
        if name not in self._chores:
            self._chores[name] = self.owner.ports.spawn(self._chore(name, work), f"{self.owner.key.session}:{name}")

    async def _chore(self, name: str, work: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        try:
            await work()
        except Exception as error:
            self._lose(error)
        finally:
            self._chores.pop(name, None)
            self.nudge()

    async def fold_inbox(self) -> int:
        """Takes the commands that other processes sent, in their order; one that does not fit is refused on record."""
        owner, count, last = self.owner, 0, 0
        while True:
            waiting = await owner.insist(lambda: owner.store.inbox(owner.key, limit=INBOX_AT_ONCE))
            for command in waiting:
                await self._fold_command(command)
            count += len(waiting)
            # Nobody says again that there are more; one that stays is not waited for.
            if len(waiting) < INBOX_AT_ONCE or waiting[0].position <= last:
                return count
            last = waiting[0].position

    async def _fold_command(self, waiting: InboxCommand) -> None:
        try:
            command = self._with_partial(await self._admitted(decode_command(waiting.data)))
            command, blobs = apart(command, self.owner.state)
            await self.owner.take(command, takes=(waiting.command_id,), blobs=blobs)
        except CommandTaken:
            return
        except (Refused, CodecError) as error:
            code = error.code if isinstance(error, Refused) else "unreadable"
            refusal = CommandRefused(command_id=waiting.command_id, code=code, message=str(error))
            await self._report(refusal, takes=(waiting.command_id,))


def usage_notice(owner: Owner) -> UsageReported:
    """How full the context is and what the session has used, for whoever watches."""
    state = owner.state
    return UsageReported(
        usage=state.spent.usage,
        context_tokens=context_tokens(state),
        window_tokens=state.current_model.window_tokens,
        items=len(state.history),
        after_seq=owner.hub.seq,
    )
