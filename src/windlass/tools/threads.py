"""Threads for sync tools: bounded, never joined, and replaceable when a tool will not come back.

A thread cannot be stopped from outside. One whose tool was given up is left behind, counted, and its place filled.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

THREADS_MAX = 32
ORPHANS_MAX = 64
"""Tools given up that still run. Beyond this, no more sync tools are started."""
IDLE_S = 10.0


class TooManyOrphans(Exception):
    """So many given-up tools still run that starting more would exhaust the process."""


class Job:
    """One piece of work. `work` must not raise."""

    __slots__ = ("given_up", "started", "work")

    def __init__(self, work: Callable[[], None]) -> None:
        self.work = work
        self.started = False
        self.given_up = False


class Threads:
    """A pool of daemon threads, started when needed and ended when idle; a hung tool never keeps the process alive."""

    def __init__(self, limit: int = THREADS_MAX, orphans_max: int = ORPHANS_MAX) -> None:
        self._limit = limit
        self._orphans_max = orphans_max
        self._wake = threading.Condition()
        self._queue: deque[Job] = deque()
        self._workers = 0
        self._idle = 0
        self._orphans = 0
        self._started = 0
        self._closed = False

    @property
    def orphans(self) -> int:
        """How many given-up tools still run."""
        return self._orphans

    @property
    def workers(self) -> int:
        """How many threads work or wait for work, orphans aside."""
        return self._workers

    def submit(self, work: Callable[[], None]) -> Job:
        """Runs work in a thread, after what was submitted before. Raises `TooManyOrphans`."""
        job = Job(work)
        with self._wake:
            if self._orphans >= self._orphans_max:
                raise TooManyOrphans(f"{self._orphans} tools that were given up still run")
            self._queue.append(job)
            self._fill()
        return job

    def give_up(self, job: Job) -> None:
        """Leaves a job behind: one that has not begun never will, one that runs goes on unheard."""
        with self._wake:
            if job.given_up:
                return
            job.given_up = True
            if job.started:
                self._orphans += 1
                self._workers -= 1
                self._fill()
            elif job in self._queue:
                self._queue.remove(job)

    def close(self) -> None:
        """Lets the idle threads end. Work that was submitted is still done."""
        with self._wake:
            self._closed = True
            self._wake.notify_all()

    def _fill(self) -> None:
        """Sees to it that somebody takes what is queued. Called with the lock held."""
        if self._idle >= len(self._queue):
            self._wake.notify(len(self._queue))
            return
        if self._workers < self._limit and self._queue:
            self._workers += 1
            self._started += 1
            threading.Thread(target=self._serve, name=f"windlass-tool-{self._started}", daemon=True).start()
        self._wake.notify(self._idle)

    def _serve(self) -> None:
        while (job := self._next()) is not None:
            job.work()
            with self._wake:
                job.started = False
                if job.given_up:
                    self._orphans -= 1  # its place was filled when it was given up
                    return

    def _next(self) -> Job | None:
        with self._wake:
            while not self._queue:
                self._idle += 1
                woken = not self._closed and self._wake.wait(IDLE_S)
                self._idle -= 1
                if not (woken or self._queue):
                    self._workers -= 1
                    return None
            job = self._queue.popleft()
            job.started = True
            return job
