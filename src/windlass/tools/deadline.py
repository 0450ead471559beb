"""The time a tool has: one timer on the loop, which stands still while the tool waits for a person."""

from __future__ import annotations

import asyncio

from .context import ToolContext


class Deadline:
    """Cancels the current task when the time is over. Cheaper than `asyncio.timeout`, and it can pause."""

    __slots__ = ("_before", "_context", "_expired", "_left_s", "_loop", "_since", "_task", "_timer")

    def __init__(self, timeout_ms: int, context: ToolContext) -> None:
        task = asyncio.current_task()
        assert task is not None, "tools run in a task"
        self._task = task
        self._loop = task.get_loop()
        self._context = context
        self._before = task.cancelling()
        self._expired = False
        self._left_s = timeout_ms / 1000
        self._since = 0.0
        self._timer: asyncio.TimerHandle | None = None
        context.on_wait(self._waits)
        self._start()

    def close(self) -> None:
        """The tool has ended. Nothing is left that points from one to the other and back: a cycle would wait for the
        collector, one for each call."""
        self.stop()
        self._context.off_wait(self._waits)

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
        self._task.uncancel()
        return self._task.cancelling() <= self._before

    def _start(self) -> None:
        self._since = self._loop.time()
        self._timer = self._loop.call_at(self._since + self._left_s, self._expire)

    def _waits(self) -> None:
        if self._context.waiting_for_people and self._timer is not None:
            self.stop()
            self._left_s -= self._loop.time() - self._since
        elif not self._context.waiting_for_people and self._timer is None and not self._expired:
            self._start()

    def _expire(self) -> None:
        self._timer = None
        self._expired = True
        self._context.cancel()
        self._task.cancel()
