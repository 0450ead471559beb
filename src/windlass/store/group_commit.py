"""One writer for many callers: jobs queue up while a commit runs, the next commit takes them all, and the event loop is
woken once for the whole group. It knows nothing of what the jobs do.

Commits that may wait for a disk run in the writer's thread. If commits are quick (`inline`), those of one pass of
the loop run at its end on the loop itself: two hops between threads cost more than the commit. As long as nobody else
writes, they run at once: there is no group to wait for, and two passes of the loop cost more than the commit too. Then
the thread only syncs, if somebody asked for that, and later commits do not wait for it.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from windlass.events.errors import StoreError, UsageError, WindlassError

GROUP_JOBS_MAX = 512
"""How many jobs one commit takes: it bounds how long the first of them waits for the last."""
AT_ONCE_MAX = 8
"""How many jobs are committed at once after one that had a pass of the loop for itself. The next waits for the end of
its pass again: to see whether others have begun to write, and so that whoever writes without end lets others run."""

CLOSE_WAIT_S = 60.0
"""How long closing waits for what is queued: longer than a write waits for another process."""

Target = TypeVar("Target")
Work = Callable[..., Any]
"""What is done to the target, given it and the job's arguments."""


class Job(msgspec.Struct, Generic[Target], gc=False):
    """One piece of work and whom to tell. The commit function fills in the result or the error."""

    work: Work
    # Not a closure: that is eight objects more for the garbage collector, for each append that is under way.
    args: tuple[Any, ...]
    barrier: bool
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]
    done: bool = False
    result: Any = None
    error: BaseException | None = None


class Committer(Protocol[Target]):
    """What a group writer writes through."""

    sync_apart: Callable[[], WindlassError | None] | None
    """Syncs all that was committed without a sync before, in the writer's thread, and says what went wrong. None if
    only a commit can sync what it writes."""

    def commit(self, jobs: list[Job[Target]], *, wait: bool) -> bool:
        """Does the jobs in one transaction and fills in what became of each. Without `wait`, syncs nothing that can be
        synced apart, and returns False and has done nothing if it would have to wait for another process."""
        ...

    def rest_is_due(self) -> bool:
        """Whether there is work for `rest`."""
        ...

    def rest(self) -> None:
        """What nobody waits for, in the writer's thread."""
        ...

    def end(self) -> None:
        """The last thing in the writer's thread."""
        ...


class GroupWriter(Generic[Target]):
    """Feeds groups of jobs to an owner. All methods but the thread's own are called on the event loop."""

    def __init__(self, owner: Committer[Target], *, inline: bool) -> None:
        self._owner = owner
        self._inline = inline
        self._tick: list[Job[Target]] = []
        self._at_once = 0
        """How many jobs may still be committed without waiting for others."""
        self._outstanding = 0
        self._busy = threading.Lock()
        self._queue: queue.SimpleQueue[Job[Target] | None] = queue.SimpleQueue()
        """Jobs to do; those that are done already, to be synced; None at the end."""
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="windlass-store", daemon=True)
        self._thread.start()

    def submit(self, work: Work, *args: Any, barrier: bool = False, heavy: bool = False) -> asyncio.Future[Any]:
        """Queues the work with its arguments; the future is resolved after the commit that held it. `barrier` asks for
        a sync to disk, `heavy` says that the work is too long for the loop."""
        if self._closed:
            raise UsageError("the store is closed: open it again")
        loop = asyncio.get_running_loop()
        job: Job[Target] = Job(work, args, barrier, loop, loop.create_future())
        if self._inline and not heavy and (not barrier or self._owner.sync_apart is not None):
            if not self._tick:
                if self._at_once:
                    self._at_once -= 1
                    self._commit_here([job])
                    return job.future
                loop.call_soon(self._flush)
            self._tick.append(job)
        else:
            self._enqueue([*self._taken_tick(), job])
        return job.future

    def if_idle(self, look: Callable[[], None], *, wait_s: float = 0.0) -> bool:
        """Has something looked at here, unless the thread is at work and does not come to rest in time."""
        if not self._busy.acquire(blocking=wait_s > 0, timeout=wait_s if wait_s > 0 else -1):
            return False
        try:
            look()
        finally:
            self._busy.release()
        return True

    async def close(self) -> None:
        """Finishes what is queued, lets the owner clean up in the writer's thread, and ends the thread."""
        if not self._closed:
            self._closed = True
            self._enqueue(self._taken_tick())
            self._queue.put(None)
        await asyncio.to_thread(self._thread.join, CLOSE_WAIT_S)
        if self._thread.is_alive():
            raise StoreError(
                f"the store was not closed within {CLOSE_WAIT_S:.0f} s: the disk does not answer, or another process "
                "writes without an end; what was acknowledged is kept"
            )

    def _taken_tick(self) -> list[Job[Target]]:
        jobs, self._tick = self._tick, []
        return jobs

    def _flush(self) -> None:
        """The end of a pass of the loop: commit what it asked for."""
        jobs = self._taken_tick()
        if jobs:
            self._at_once = AT_ONCE_MAX if len(jobs) == 1 else 0
            self._commit_here(jobs)

    def _commit_here(self, jobs: list[Job[Target]]) -> None:
        """Commits on the loop, unless the thread is at work or must be."""
        # Behind jobs of the thread, later ones queue up too: nobody is overtaken.
        if self._outstanding or not self._busy.acquire(blocking=False):
            self._enqueue(jobs)
            return
        try:
            done = self._commit(jobs, wait=False)
        finally:
            self._busy.release()
        if not done:
            self._enqueue(jobs)
            return
        resolve([job for job in jobs if not job.barrier or job.error is not None])
        for job in jobs:
            if job.barrier and job.error is None:
                job.done = True
                self._queue.put(job)
        if self._owner.rest_is_due():
            loop = jobs[0].loop
            self._enqueue([Job(_nothing, (), False, loop, loop.create_future())])

    def _enqueue(self, jobs: list[Job[Target]]) -> None:
        self._outstanding += len(jobs)
        for job in jobs:
            self._queue.put(job)

    def _run(self) -> None:
        last = False
        while not last:
            jobs, last = self._next_group()
            if jobs:
                self._perform(jobs)
        self._owner.end()

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
        done = [job for job in jobs if job.done]
        if done:
            self._sync(done)
            jobs = [job for job in jobs if not job.done]
            if not jobs:
                return
        with self._busy:
            self._commit(jobs, wait=True)
            tell(jobs, self._told)
            if self._owner.rest_is_due():
                self._owner.rest()

    def _sync(self, done: list[Job[Target]]) -> None:
        sync = self._owner.sync_apart
        assert sync is not None, "only what can be synced apart is done before it is synced"
        error = sync()
        for job in done:
            job.error = error
        tell(done, resolve)

    def _commit(self, jobs: list[Job[Target]], *, wait: bool) -> bool:
        try:
            return self._owner.commit(jobs, wait=wait)
        except Exception as error:  # a bug below must reach the callers instead of ending the thread
            for job in jobs:
                job.error = job.error or error
            return True

    def _told(self, jobs: list[Job[Any]]) -> None:
        self._outstanding -= len(jobs)
        resolve(jobs)


def _nothing(target: Any) -> None:
    """A job that only wakes the writer's thread."""


def tell(jobs: list[Job[Any]], callback: Callable[[list[Job[Any]]], None]) -> None:
    """Wakes each event loop once for all of its jobs."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Job[Any]]] = {}
    for job in jobs:
        by_loop.setdefault(job.loop, []).append(job)
    for loop, group in by_loop.items():
        try:
            loop.call_soon_threadsafe(callback, group)
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
