"""Shutting one session down: its sums are put on record, and it is let go. It may be resumed later."""

from __future__ import annotations

import asyncio

from windlass.events.sessions import SessionShutDown, SessionTotalled
from windlass.kernel.phases import Left
from windlass.runtime.host.drive_tasks import DriveTasks
from windlass.runtime.host.opener import Opener
from windlass.runtime.host.slot import Driven
from windlass.runtime.host.slot_table import Slots
from windlass.runtime.streams.log_reader import LogReader
from windlass.store.base import Key

from .idle_wait import Rest

ENDING_S = 10.0
"""How long the ends of background jobs are waited for."""
LOOK_S = 0.02
LETTING_GO_S = 1.0
"""How long whoever shuts a session down waits for its driver to come to rest."""


class Shutdown:
    """Ends sessions in an orderly way."""

    def __init__(self, slots: Slots, log: LogReader, opener: Opener, tasks: DriveTasks, rest: Rest) -> None:
        self._slots = slots
        self._log = log
        self._opener = opener
        self._tasks = tasks
        self._rest = rest

    async def shut_down(self, key: Key, *, reason: str = "", error: bool = False) -> None:
        """Shuts a session down, once it rests. Safe twice: one that was shut down and not touched since is left as it
        is. What another process drives is left to it."""
        if await self._has_left(key):
            return
        await self._rest.wait(key)
        if await self._is_totalled(key):
            return
        driven = await self._opener.ensure_driven(key)
        if driven is None:
            return
        async with self._slots.locked(key) as slot:
            if slot.driven is not driven or await self._is_totalled(key):
                return
            await self._end_jobs(driven)
            await driven.owner.take(SessionShutDown(kind="error" if error else "routine", reason=reason))
            if driven.task is not None:
                await asyncio.wait([driven.task], timeout=LETTING_GO_S)
            if not driven.at_work:
                self._tasks.drop(slot, driven)
                await driven.owner.release()

    async def _has_left(self, key: Key) -> bool:
        """Whether a session goes on in another store: nothing may be put on record here, and whoever drove it lets
        it go."""
        if not isinstance((await self._log.fold(key)).state.phase, Left):
            return False
        async with self._slots.locked(key) as slot:
            driven = slot.driven
            if driven is not None:
                if driven.task is not None:
                    await asyncio.wait([driven.task], timeout=LETTING_GO_S)
                self._tasks.drop(slot, driven)
                await driven.owner.release()
        return True

    async def _end_jobs(self, driven: Driven) -> None:
        """Background jobs end with their session, but for those that are detached; their ends are put on record."""
        for job in driven.owner.state.jobs.open.values():
            if not job.detached:
                await driven.tools.jobs.stop(job.job_id, "session_ended")
        patience_s = ENDING_S
        while patience_s > 0 and any(not job.detached for job in driven.owner.state.jobs.open.values()):
            await asyncio.sleep(LOOK_S)
            patience_s -= LOOK_S

    async def _is_totalled(self, key: Key) -> bool:
        return isinstance(await self._log.last_event(key), SessionTotalled)
