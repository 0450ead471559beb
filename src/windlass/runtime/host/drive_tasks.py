"""The tasks that drive sessions: started, let go when there are too many at rest, given up when a session is lost."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from windlass.events.errors import NotFound, StoreError, StorePoisoned
from windlass.kernel.parts.losses import got_further
from windlass.runtime.drive.driver import Rested
from windlass.store.base import Key
from windlass.tools.planes.task_stops import stop

from .fault_report import FaultReport
from .ports import Ports
from .slot import Driven, Slot
from .slot_table import Slots
from .steady_clock import SteadyClock

LOG = logging.getLogger("windlass.owner")
RESTING_MAX = 128
"""How many sessions at rest are kept open."""
RESTART_MS = 100
"""How long after the death of a driver another one takes its place; twice as long after each further one in a row."""
DEATHS_MAX = 5
"""So many drivers of a session at rest died in a row: none takes their place, and their waits grow no longer. A run
that loses owners is parked on record (`Settings.losses_max`)."""


class DriveTasks:
    """One task for each session that is driven here and not at rest."""

    def __init__(self, slots: Slots, ports: Ports, clock: SteadyClock, faults: FaultReport) -> None:
        self._slots = slots
        self._ports = ports
        self._faults = faults
        self._clock = clock
        self._leaving: set[asyncio.Task[Any]] = set()
        """Drives that were given up and have not ended yet, and the closing of what their tools had open."""

    def run(self, slot: Slot, driven: Driven) -> None:
        """Has a session driven, unless it is."""
        if not driven.at_work and not self._slots.closed:
            driven.driver.draining = self._slots.draining
            driven.task = self._ports.spawn(self._drive(slot, driven), f"windlass:drive:{slot.key.session}")

    async def _drive(self, slot: Slot, driven: Driven) -> Rested:
        try:
            if not driven.owner.state.active:
                await driven.instructions.look(files=True)
                if driven.mcp is not None:
                    await driven.mcp.start()
            rested = await driven.driver.run()
        except asyncio.CancelledError as error:
            if slot.driven is driven and not driven.driver.ending and not self._slots.closed:
                await self._died(slot, driven, error)
            raise
        except GeneratorExit:
            raise
        except BaseException as error:  # also one that a model, a hook or an approver made to pass every handler
            if not passes(error):
                return await self._died(slot, driven, error)
            # The store did not answer for long: whoever finds it owed takes it up again.
            rested = Rested(status="lost_epoch", reason=str(error))
        slot.deaths = 0
        if rested.status == "outdated":
            await self.let_go(slot.key, driven)
            self._slots.wake(self._slots.at(slot.key), self._clock.now_ms())
            return rested
        if slot.driven is driven:
            self._slots.wake(slot, rested.wake_at_ms)
        if rested.status == "lost_epoch":
            self.drop(slot, driven)
        elif slot.driven is driven:
            await self._make_room(slot)
        return rested

    async def _died(self, slot: Slot, driven: Driven, error: BaseException) -> Rested:
        """A driver ended as none may: it is let go, and another one opens the session anew after a while, as a new
        owner would, so that nothing which may have begun is begun again. After too many the session is parked."""
        state = driven.owner.state
        slot.deaths = 1 if state.active and got_further(state) else slot.deaths + 1
        bounded = state.active  # by the log itself, which counts lost owners
        parked = isinstance(error, StorePoisoned | NotFound) or (slot.deaths >= DEATHS_MAX and not bounded)
        if parked:
            self._slots.park(slot.key, told(error))
        else:
            slot.died = f"its driver died: {told(error)}"
        what = "is parked" if parked else "is taken up again"
        self._faults.tell(f"the driver of session {slot.key.session!r} died; the session {what}", error)
        self.drop(slot, driven)
        await driven.owner.release()
        if parked:
            return Rested(status="parked", reason=str(error))
        wake_at_ms = self._clock.now_ms() + RESTART_MS * 2 ** min(slot.deaths, DEATHS_MAX)
        self._slots.wake(slot, wake_at_ms)
        return Rested(status="wake_at", wake_at_ms=wake_at_ms, reason=slot.died)

    async def _make_room(self, slot: Slot) -> None:
        """Sessions at rest are kept open for their next command, but not all of them: the one that has rested longest
        is let go, with its lease. The log has everything; it is opened again when something is owed."""
        resting = self._slots.resting
        resting.put(slot)
        if len(resting) > RESTING_MAX:
            await asyncio.sleep(0)  # whoever waited for the end of one looks at it first
        for oldest in resting.beyond(RESTING_MAX):
            await self._let_go(oldest)
            return

    async def _let_go(self, oldest: Slot) -> None:
        async with self._slots.locked(oldest.key) as slot:
            driven = slot.driven
            if driven is None or driven.task is None or driven.at_work or driven.owner.busy:
                return
            if driven.owner.state.active:
                return
            self._unseat(slot, driven)
            slot.hub.look()
            await self._given_back(driven)

    async def _given_back(self, driven: Driven) -> None:
        """What its tools have open is closed, and the session is given back. Nothing of it is under way."""
        try:
            await driven.tools.close()
        finally:
            await driven.owner.release()
            driven.part()

    async def let_go(self, key: Key, driven: Driven) -> None:
        """Gives back a session that is to be opened anew here, because another agent is to run it. It is at rest."""
        async with self._slots.locked(key) as slot:
            if slot.driven is not driven:
                return
            self._unseat(slot, driven)
            task = driven.task
            if task is not None and not task.done() and task is not asyncio.current_task():
                self.end(driven)
                await asyncio.wait([task])
            slot.hub.look()
            await self._given_back(driven)

    def drop(self, slot: Slot, driven: Driven) -> None:
        """This process does not drive the session any more, nor waits for anything of it; its readers go on with the
        log."""
        if slot.driven is driven:
            LOG.warning("session %s is not driven here any more, epoch %d", slot.key.session, driven.owner.epoch)
            self._unseat(slot, driven)
        task = driven.task
        if task is not None and not task.done() and task is not asyncio.current_task():
            self.end(driven)
            self._leaves(task)
        if driven.tools.is_open:
            self._leaves(self._ports.spawn(_close_tools(driven), f"windlass:close:{slot.key.session}"))
        driven.owner.rest.tell()
        driven.owner.hub.look()
        self._slots.forget(slot)

    def _unseat(self, slot: Slot, driven: Driven) -> None:
        """Its own clock goes with its owner, and may be ahead: from now on it is woken by that of the process."""
        if slot.wake_at_ms is not None:
            left_ms = slot.wake_at_ms - driven.owner.now_ms()
            self._slots.wake(slot, self._clock.now_ms() + max(0, left_ms))
        self._slots.unseat(slot)

    def end(self, driven: Driven) -> None:
        """Stops the task that drives a session."""
        driven.driver.ending = True
        if driven.task is not None:
            stop(driven.task)

    def _leaves(self, task: asyncio.Task[Any]) -> None:
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)

    def end_all(self) -> list[asyncio.Task[Any]]:
        """Stops every task, for whoever closes the runtime, and gives those that are to be waited for."""
        for task in self._leaving:
            stop(task)
        driven = [slot.driven for slot in self._slots.driven if slot.driven is not None]
        for each in driven:
            self.end(each)
        return [*self._leaving, *(each.task for each in driven if each.task is not None)]


async def _close_tools(driven: Driven) -> None:
    """Closes what a session's tools had open, once none of them runs."""
    if driven.task is not None and not driven.task.done():
        await asyncio.wait([driven.task])
    await driven.tools.close()


def passes(error: BaseException) -> bool:
    """Whether an error is one that may be gone the next time, and no reason to leave a session alone."""
    return isinstance(error, StoreError) and not isinstance(error, StorePoisoned | NotFound)


def told(error: BaseException) -> str:
    """An error as the reason for which a session is parked."""
    return f"{type(error).__name__}: {error}"
