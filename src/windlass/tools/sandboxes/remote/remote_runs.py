"""The processes that a worker runs for others: each started once under its name, watched by whoever asked for it, ended
when nobody does any more."""

from __future__ import annotations

import asyncio
import collections
import hashlib
from collections.abc import Callable
from typing import Any

import msgspec

from windlass.events.errors import UsageError
from windlass.tools.context import ToolError
from windlass.tools.sandboxes.sandbox import Process

from .wire import AnyLine, Beat, Ended, Refusal, Wrote

LINGER_S = 2.0
"""How long a process goes on that nobody watches: whoever lost the connection may come back."""
RUNNING_MAX = 64
KEPT_MAX = 256
"""Ends that are remembered, so that whoever asks again learns of them instead of starting a process anew."""
KEPT_BYTES_MAX = 64 * 1024 * 1024
LIVE_BYTES_MAX = 4 * 1024 * 1024
"""How much of what one process writes is told while it runs."""
WAITING_MAX = 256
"""Pieces that wait for one slow reader; further ones are left out. The end has what is kept."""

Start = Callable[[Process, Callable[[int, bytes], None]], Any]


class Refused(Exception):
    """A process cannot be run here now."""

    def __init__(self, status: int, refusal: Refusal) -> None:
        super().__init__(refusal.message)
        self.status = status
        self.refusal = refusal


class Run:
    """One process, from its start to its end."""

    def __init__(self, process: Process, digest: str, start: Start) -> None:
        self.digest = digest
        self.end: Ended | None = None
        self._watchers: set[Watcher] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._live = 0
        self._loop = asyncio.get_running_loop()
        self._task = self._loop.create_task(self._run(process, start), name="windlass:remote-run")

    def watch(self) -> Watcher:
        """Somebody who wants to know what becomes of it."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        watcher = Watcher()
        if self.end is not None:
            watcher.tell(self.end)
        self._watchers.add(watcher)
        return watcher

    def leave(self, watcher: Watcher) -> None:
        """One of them is gone; after the last one the process is, too, unless somebody comes back soon."""
        self._watchers.discard(watcher)
        if not self._watchers and self.end is None and self._timer is None:
            self._timer = self._loop.call_later(LINGER_S, self._task.cancel)

    async def cancel(self) -> None:
        """Ends it with everything that it started."""
        self._task.cancel()
        await asyncio.wait([self._task])

    @property
    def size(self) -> int:
        """How much memory its end takes, about."""
        result = self.end.result if self.end is not None else None
        outputs = (result.stdout, result.stderr) if result is not None else ()
        return 1024 + sum(len(output.head) + len(output.tail) for output in outputs)

    async def _run(self, process: Process, start: Start) -> None:
        try:
            self.end = Ended(result=await start(process, self._heard))
        except ToolError as error:
            self.end = Ended(refusal=Refusal(message=error.message, code=error.code or "failed", hint=error.hint))
        except UsageError as error:
            self.end = Ended(refusal=Refusal(message=str(error), code="usage"))
        except asyncio.CancelledError:
            told = "the process was ended: it was cancelled, or the connection of whoever wanted it broke"
            self.end = Ended(refusal=Refusal(message=told, code="cancelled"))
        except Exception as error:
            told = f"the worker failed ({type(error).__name__}); the process may have had effects"
            self.end = Ended(refusal=Refusal(message=told, code="worker_failed"))
        if self._timer is not None:
            self._timer.cancel()
        for watcher in self._watchers:
            watcher.tell(self.end)

    def _heard(self, stream: int, data: bytes) -> None:
        """In the thread of the process."""
        if self._live < LIVE_BYTES_MAX:
            self._live += len(data)
            self._loop.call_soon_threadsafe(self._pass_on, Wrote(stream=stream, data=data))

    def _pass_on(self, piece: Wrote) -> None:
        for watcher in self._watchers:
            watcher.tell(piece)


class Watcher:
    """What one reader of a run has not been told yet."""

    def __init__(self) -> None:
        self._waiting: collections.deque[AnyLine] = collections.deque()
        self._some = asyncio.Event()

    def tell(self, line: AnyLine) -> None:
        """The next thing; what is only shown is left out if too much waits."""
        if isinstance(line, Ended) or len(self._waiting) < WAITING_MAX:
            self._waiting.append(line)
            self._some.set()

    async def next(self, within_s: float) -> AnyLine:
        """The next thing, or a sign of life if there is none in time."""
        if not self._waiting:
            self._some.clear()
            waiting = asyncio.ensure_future(self._some.wait())
            try:
                await asyncio.wait([waiting], timeout=within_s)
            finally:
                waiting.cancel()
        return self._waiting.popleft() if self._waiting else Beat()


class Runs:
    """The processes of one sandbox by the names that their askers gave them."""

    def __init__(self) -> None:
        self._runs: dict[str, Run] = {}

    def started(self, name: str, process: Process, start: Start, *, attach: bool) -> Run:
        """The run of this name: started now, unless it was before. Raises `Refused`."""
        digest = hashlib.sha256(msgspec.json.encode(process)).hexdigest()
        run = self._runs.get(name)
        if run is not None:
            if run.digest != digest:
                raise Refused(409, Refusal(message="another process was asked for under this name", code="taken"))
            return run
        if attach:
            raise Refused(404, Refusal(message="no such process is known here any more", code="lost"))
        if sum(run.end is None for run in self._runs.values()) >= RUNNING_MAX:
            raise Refused(429, Refusal(message=f"{RUNNING_MAX} processes run already; try again later", code="busy"))
        self._forget()
        run = self._runs[name] = Run(process, digest, start)
        return run

    async def cancel(self, name: str) -> None:
        """Ends a process; one that is not known is none."""
        run = self._runs.get(name)
        if run is not None:
            await run.cancel()

    async def close(self) -> None:
        """Ends all of them."""
        for run in tuple(self._runs.values()):
            await run.cancel()
        self._runs.clear()

    def _forget(self) -> None:
        """Lets the oldest ends go if there are too many."""
        ended = [name for name, run in self._runs.items() if run.end is not None]
        size = sum(self._runs[name].size for name in ended)
        while len(ended) >= KEPT_MAX or size > KEPT_BYTES_MAX:
            size -= self._runs.pop(ended.pop(0)).size
