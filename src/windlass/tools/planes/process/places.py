"""How many workers there are: for a runtime, and for each of its sessions. A session keeps its own for its next calls,
and gives them up, the longest idle first, if another one has none."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from windlass.tools.context import ToolContext
from windlass.tools.sandboxes.sandbox import Launch

from .worker_process import WorkerProcess

WORKERS_MAX = 16
"""Workers of a runtime, those which wait for their session's next call included."""
SESSION_WORKERS_MAX = 4
IDLE_S = 300.0
"""How long a worker waits for its next call."""
SATURATED_S = 1.0
"""How long a call waits for a worker before that is put on record."""


class Places:
    """The workers of a runtime."""

    def __init__(self, workers_max: int, session_max: int) -> None:
        self.workers_max = workers_max
        self.session_max = session_max
        self.count = 0
        self.idle: dict[WorkerProcess, SessionWorkers] = {}
        """Those without a call, and whose they are; who waits longest stands first."""
        self._sessions: set[SessionWorkers] = set()
        self._waiting: list[asyncio.Future[None]] = []

    def joined(self, session: SessionWorkers) -> None:
        """A session has workers."""
        self._sessions.add(session)

    def left(self, session: SessionWorkers) -> None:
        """It has none any more."""
        self._sessions.discard(session)

    def changed(self) -> None:
        """There may be room: whoever waits looks again."""
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)

    async def change(self) -> None:
        """Waits until there may be room."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        await future

    async def close(self) -> None:
        """Ends all that are left."""
        for session in tuple(self._sessions):
            await session.close()


class SessionWorkers:
    """The workers of one session."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self._all: set[WorkerProcess] = set()
        self._starting = 0
        self._timers: dict[WorkerProcess, asyncio.TimerHandle] = {}
        self._ending: set[asyncio.Task[None]] = set()

    async def worker(
        self, place: object, launch: Callable[[], Awaitable[Launch]], context: ToolContext
    ) -> WorkerProcess:
        """A worker in a place: one that is idle, or a new one. Waits for it if there are too many."""
        loop = asyncio.get_running_loop()
        told = f"{context.tool!r} waits for a worker: all of them are busy"
        timer = loop.call_later(SATURATED_S, context.notice, "workers_saturated", told)
        try:
            while True:
                worker = self._idle(place)
                if worker is not None:
                    return worker
                if len(self._all) + self._starting < self._places.session_max:
                    if self._places.count < self._places.workers_max:
                        timer.cancel()
                        return await self._started(place, launch)
                    if await self._took_one():
                        continue
                elif await self._took_one(self):
                    continue
                await self._places.change()
        finally:
            timer.cancel()

    async def give_back(self, worker: WorkerProcess, *, keep: bool) -> None:
        """A call has ended: its worker waits for the next one, or is ended."""
        if not keep or not worker.alive or worker not in self._all:
            await self._end(worker)
            return
        self._places.idle[worker] = self
        loop = asyncio.get_running_loop()
        self._timers[worker] = loop.call_later(IDLE_S, self._end_soon, worker)
        self._places.changed()

    async def close(self) -> None:
        """Ends all of them. Safe twice."""
        for worker in tuple(self._all):
            await self._end(worker)
        if self._ending:
            await asyncio.wait(tuple(self._ending))
        self._places.left(self)

    def _idle(self, place: object) -> WorkerProcess | None:
        for worker, session in tuple(self._places.idle.items()):
            if session is self and worker.place is place and worker.alive:
                self._busy(worker)
                return worker
        return None

    def _busy(self, worker: WorkerProcess) -> None:
        self._places.idle.pop(worker, None)
        timer = self._timers.pop(worker, None)
        if timer is not None:
            timer.cancel()

    async def _took_one(self, only: SessionWorkers | None = None) -> bool:
        """Ends the worker that was idle for longest, if there is one, so that another can be started."""
        for worker, session in tuple(self._places.idle.items()):
            if only is None or session is only:
                await session._end(worker)
                return True
        return False

    async def _started(self, place: object, launch: Callable[[], Awaitable[Launch]]) -> WorkerProcess:
        self._places.count += 1
        self._starting += 1
        self._places.joined(self)
        try:
            worker = await WorkerProcess.start(await launch())
        except BaseException:
            self._places.count -= 1
            self._places.changed()
            raise
        finally:
            self._starting -= 1
        worker.place = place
        self._all.add(worker)
        return worker

    def _end_soon(self, worker: WorkerProcess) -> None:
        task: asyncio.Task[Any] = asyncio.get_running_loop().create_task(self._end(worker))
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def _end(self, worker: WorkerProcess) -> None:
        """Ends a worker, and frees its place when it is gone."""
        self._busy(worker)
        try:
            await worker.end()
        finally:
            if worker in self._all:
                self._all.discard(worker)
                self._places.count -= 1
                self._places.changed()
