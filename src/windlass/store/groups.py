"""One thread that writes for many: jobs queue up while a commit runs, the next commit takes them all, and the event
loop is woken once for the whole group. It knows nothing of what the jobs do."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from windlass.events.errors import UsageError, WindlassError

GROUP_JOBS_MAX = 512
"""How many jobs one commit takes: it bounds how long the first of them waits for the last."""

Target = TypeVar("Target")
Work = Callable[[Target], Any]


class Job(Generic[Target]):
    """One piece of work and whom to tell. The commit function fills in the result or the error."""

    __slots__ = ("barrier", "error", "future", "loop", "result", "work")

    def __init__(self, work: Work[Target], barrier: bool, loop: asyncio.AbstractEventLoop) -> None:
        self.work = work
        self.barrier = barrier
        self.loop = loop
        self.future: asyncio.Future[Any] = loop.create_future()
        self.result: Any = None
        self.error: BaseException | None = None


class GroupWriter(Generic[Target]):
    """Feeds groups of jobs to `commit` in its own thread. After each group, `rest` may do what nobody waits for."""

    def __init__(
        self, commit: Callable[[list[Job[Target]]], None], rest: Callable[[], None], end: Callable[[], None]
    ) -> None:
        self._commit = commit
        self._rest = rest
        self._end = end
        self._queue: queue.SimpleQueue[Job[Target] | None] = queue.SimpleQueue()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="windlass-store", daemon=True)
        self._thread.start()

    def submit(self, work: Work[Target], *, barrier: bool = False) -> asyncio.Future[Any]:
        """Queues the work; the future is resolved after the commit that held it."""
        if self._closed:
            raise UsageError("the store is closed: open it again")
        job = Job(work, barrier, asyncio.get_running_loop())
        self._queue.put(job)
        return job.future

    async def close(self) -> None:
        """Finishes what is queued, lets the owner clean up in the writer's thread, and ends the thread."""
        if not self._closed:
            self._closed = True
            self._queue.put(None)
        await asyncio.to_thread(self._thread.join)

    def _run(self) -> None:
        last = False
        while not last:
            jobs, last = self._next_group()
            if jobs:
                self._perform(jobs)
        self._end()

    def _next_group(self) -> tuple[list[Job[Target]], bool]:
        jobs: list[Job[Target]] = []
        job = self._queue.get()
        while job is not None:
            jobs.append(job)
            if len(jobs) >= GROUP_JOBS_MAX:
                return jobs, False
            try:
                job = self._queue.get_nowait()
            except queue.Empty:
                return jobs, False
        return jobs, True

    def _perform(self, jobs: list[Job[Target]]) -> None:
        try:
            self._commit(jobs)
        except Exception as error:  # a bug below must reach the callers instead of ending the thread
            for job in jobs:
                job.error = job.error or error
        tell(jobs)
        self._rest()


def tell(jobs: list[Job[Any]]) -> None:
    """Wakes each event loop once for all of its jobs."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Job[Any]]] = {}
    for job in jobs:
        by_loop.setdefault(job.loop, []).append(job)
    for loop, group in by_loop.items():
        try:
            loop.call_soon_threadsafe(resolve, group)
        except RuntimeError:
            # The loop is closed: nobody is left to be told.
            continue


def resolve(jobs: list[Job[Any]]) -> None:
    """Hands results and errors to the waiting callers. Runs on their loop."""
    for job in jobs:
        if job.future.done():
            continue
        if job.error is None:
            job.future.set_result(job.result)
        else:
            job.future.set_exception(_own(job.error))


def _own(error: BaseException) -> BaseException:
    """An exception instance for one caller alone: a shared one would collect the tracebacks of all."""
    if isinstance(error, WindlassError) and error.__traceback__ is not None:
        return error.with_traceback(None)
    return error
