"""The time a tool has: one timer on the loop, which stands still while the tool waits for a person, or for a thread."""

from __future__ import annotations

import asyncio

from windlass.tools.context import ToolContext

from .task_stops import stop, stops, take_back

LATE_S = 0.05
"""A timer that fires later than this says that the loop stood still."""


class Deadline:
    """Cancels the current task when the time is over. Cheaper than `asyncio.timeout`, and it can pause."""

    __slots__ = ("_before", "_context", "_expired", "_left_s", "_loop", "_put_off", "_since", "_task", "_timer")

    def __init__(self, timeout_ms: int, context: ToolContext) -> None:
        task = asyncio.current_task()
        assert task is not None, "tools run in a task"
        self._task = task
        self._loop = task.get_loop()
        self._context = context
        self._before = stops(task)
        self._expired = False
        self._put_off = False
        self._left_s = timeout_ms / 1000
        self._since = 0.0
        self._timer: asyncio.TimerHandle | None = None
        context.waits.hear(self._on_wait)
        self._start()

    def close(self) -> None:
        """The tool has ended. Nothing is left that points from one to the other and back: a cycle would wait for the
        collector, one for each call."""
        self.stop()
        self._context.waits.unhear(self._on_wait)

    def stop(self) -> None:
        """The time stands still."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def settle(self) -> bool:
        """Whether the tool was given up because of its time, and for no other reason. Takes back the cancellation that
        the timer asked for."""
        if not self._expired:
            return False
        self._expired = False
        take_back(self._task)
        return stops(self._task) <= self._before

    def _start(self) -> None:
        self._since = self._loop.time()
        self._timer = self._loop.call_at(self._since + self._left_s, self._expire)

    def _on_wait(self) -> None:
        if self._context.waits and self._timer is not None:
            self.stop()
            self._left_s -= self._loop.time() - self._since
        elif not self._context.waits and self._timer is None and not self._expired:
            self._start()

    def _expire(self) -> None:
        self._timer = None
        late = self._loop.time() - self._since - self._left_s
        if late > LATE_S and not self._put_off:
            # Somebody else's tool blocked the loop, or the process was stopped. This one may have ended long ago, and
            # nobody could look: it gets once more what it was kept waiting for, so that its result is not thrown away.
            self._put_off = True
            self._left_s = late
            self._start()
            return
        self._expired = True
        self._context.cancel()
        stop(self._task)
