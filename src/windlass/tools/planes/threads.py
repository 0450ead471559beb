"""Threads for sync tools: bounded, shared fairly, never joined, and replaceable when a tool will not come back.

A thread cannot be stopped from outside. One whose tool was given up is left behind, counted, and its place filled.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable

THREADS_MAX = 32
"""How many threads those may have together that have more than one."""
FIRSTS_FACTOR = 4
"""By how much there may be more threads in all: a group that has none gets its first beyond the limit, so that those
who hang, or want many, do not keep the others waiting."""
ORPHANS_MAX = 16
"""Calls of one tool that were given up and still run. Beyond this, no more of that tool are started."""
IDLE_S = 10.0


class TooManyOrphans(Exception):
    """So many given-up calls of a tool still run that starting more would exhaust the process."""


class Job:
    """One piece of work. `work` must not raise. `waits` says whether there was no thread for it at first."""

    __slots__ = ("given_up", "group", "name", "started", "waits", "work")

    def __init__(self, work: Callable[[], None], group: str, name: str) -> None:
        self.work = work
        self.group = group
        self.name = name
        self.started = False
        self.given_up = False
        self.waits = False


class Threads:
    """A pool of daemon threads, started when needed and ended when idle; a hung tool never keeps the process alive.
    Jobs of different groups take turns."""

    def __init__(self, limit: int = THREADS_MAX, orphans_max: int = ORPHANS_MAX) -> None:
        self._limit = limit
        self._firsts_max = limit * FIRSTS_FACTOR
        self._orphans_max = orphans_max
        self._wake = threading.Condition()
        self._queues: dict[str, deque[Job]] = {}
        """What waits, by group; the group whose turn it is comes first."""
        self._queued = 0
        self._running: Counter[str] = Counter()
        """How many jobs of each group run, orphans aside."""
        self._busy = 0
        self._workers = 0
        self._idle = 0
        self._orphans: Counter[str] = Counter()
        self._started = 0
        self._closed = False

    @property
    def orphans(self) -> int:
        """How many given-up tools still run."""
        return self._orphans.total()

    @property
    def workers(self) -> int:
        """How many threads work or wait for work, orphans aside."""
        return self._workers

    def submit(self, work: Callable[[], None], group: str = "", name: str = "") -> Job:
        """Runs work in a thread, after what was submitted before for its group. Raises `TooManyOrphans`."""
        job = Job(work, group, name)
        with self._wake:
            if self._orphans[name] >= self._orphans_max:
                raise TooManyOrphans(f"{self._orphans[name]} calls that were given up still run")
            self._queues.setdefault(group, deque()).append(job)
            self._queued += 1
            job.waits = not self._fill(job)
        return job

    def give_up(self, job: Job) -> None:
        """Leaves a job behind: one that has not begun never will, one that runs goes on unheard."""
        with self._wake:
            if job.given_up:
                return
            job.given_up = True
            if job.started:
                self._orphans[job.name] += 1
                self._workers -= 1
                self._ended(job)
                self._refill()
            elif job in self._queues.get(job.group, ()):
                self._take(job)

    def close(self) -> None:
        """Lets the idle threads end. Work that was submitted is still done."""
        with self._wake:
            self._closed = True
            self._wake.notify_all()

    # --- with the lock held ---

    def _fill(self, job: Job) -> bool:
        """Sees to it that somebody takes a job soon; False if it must wait for another one to end."""
        first = not self._running[job.group] and len(self._queues[job.group]) == 1
        if not first and self._busy + self._queued > self._limit:
            return False
        if self._idle >= self._queued:
            self._wake.notify(self._queued)
            return True
        if self._workers < self._firsts_max:
            self._start()
            return True
        return False

    def _refill(self) -> None:
        """A place is free again."""
        if self._queued and self._idle == 0 and self._eligible() is not None:
            self._start()
        self._wake.notify(self._idle)

    def _start(self) -> None:
        self._workers += 1
        self._started += 1
        threading.Thread(target=self._serve, name=f"windlass-tool-{self._started}", daemon=True).start()

    def _eligible(self) -> Job | None:
        """The next job that may run now: of the first group in line, or beyond the limit of one that runs none."""
        busy = self._busy >= self._limit
        for group, queue in self._queues.items():
            if not busy or not self._running[group]:
                return queue[0]
        return None

    def _take(self, job: Job) -> None:
        """Takes a job out of the line; its group goes to the end of it."""
        queue = self._queues.pop(job.group)
        queue.remove(job)
        self._queued -= 1
        if queue:
            self._queues[job.group] = queue

    def _ended(self, job: Job) -> None:
        self._busy -= 1
        self._running[job.group] -= 1
        if not self._running[job.group]:
            del self._running[job.group]

    # --- in a thread ---

    def _serve(self) -> None:
        while (job := self._next()) is not None:
            job.work()
            with self._wake:
                job.started = False
                if job.given_up:
                    self._orphans[job.name] -= 1  # its place was filled when it was given up
                    if not self._orphans[job.name]:
                        del self._orphans[job.name]
                    return
                self._ended(job)

    def _next(self) -> Job | None:
        with self._wake:
            while (job := self._eligible()) is None:
                self._idle += 1
                woken = not self._closed and self._wake.wait(IDLE_S)
                self._idle -= 1
                if not woken and self._eligible() is None:
                    self._workers -= 1
                    return None
            self._take(job)
            job.started = True
            self._running[job.group] += 1
            self._busy += 1
            return job
