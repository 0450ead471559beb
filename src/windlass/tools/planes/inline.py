"""Awaits a tool's coroutine inside the caller's own task: no task and no timeout object per call.

Cancelling the caller's task cancels the tool. A tool that does not end within a grace period is left where it stands
and never resumed, so a cancellation always lands.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections import deque
from collections.abc import Coroutine, Generator
from typing import TYPE_CHECKING, Any

from .task_stops import stops

if TYPE_CHECKING:
    from windlass.tools.context import ToolContext

    from .loop_watch import LoopWatch

GRACE_S = 1.0
"""What a cancelled tool gets to clean up."""
LEFT_MAX = 64

_left_behind: deque[Any] = deque(maxlen=LEFT_MAX)
"""Coroutines that would not even be closed. Kept, because collecting them would wake them once more."""


def _keep(chain: list[Any]) -> None:
    """Keeps a coroutine from ever being collected, also when the interpreter ends: woken without a loop, one that
    swallows every exception would spin for ever. Only the stack of a daemon thread is never cleared."""
    if not _left_behind:
        threading.Thread(target=_hold, args=(_left_behind,), name="windlass-left-behind", daemon=True).start()
    _left_behind.append(chain)


def _hold(kept: deque[Any]) -> None:
    threading.Event().wait()


class ClosedItself(Exception):
    """A tool raised `GeneratorExit`, which must not be taken for the closing of its caller."""

    def __init__(self, error: BaseException) -> None:
        super().__init__("the tool raised GeneratorExit")
        self.error = error


class Inline:
    """`await Inline(coroutine)` in a task gives its result. The tool's context variables stay its own."""

    __slots__ = ("_call", "_context", "_coroutine", "_grace_s", "_task", "_watch")

    def __init__(
        self,
        coroutine: Coroutine[Any, Any, Any],
        call: ToolContext,
        watch: LoopWatch,
        task: asyncio.Task[Any],
        grace_s: float = GRACE_S,
    ) -> None:
        self._coroutine = coroutine
        self._call = call
        self._watch = watch
        self._task = task
        self._context = contextvars.copy_context()
        self._grace_s = grace_s

    def __await__(self) -> Generator[Any, None, Any]:
        task = self._task
        before = stops(task)
        run, coroutine = self._context.run, self._coroutine
        watch, call = self._watch, self._call
        error: BaseException | None = None
        until: float | None = None
        while True:
            watch.step += 1
            watch.context = call
            try:
                pending = run(coroutine.send, None) if error is None else run(coroutine.throw, error)
            except StopIteration as stop:
                return stop.value
            except GeneratorExit as own:
                raise ClosedItself(own) from None
            finally:
                watch.context = None
            error = None
            if until is not None and stops(task) <= before:
                until = None  # it was a timeout of the tool's own, and it dealt with it
            try:
                if until is None:
                    yield pending
                    continue
                in_time = yield from _settled(pending, until)
            except GeneratorExit:
                self._leave()
                raise
            except BaseException as thrown:
                # A cancellation, or what the awaited future raised: both belong to the tool.
                error = thrown
                if until is None and stops(task) > before:
                    until = task.get_loop().time() + self._grace_s
                continue
            if not in_time:
                self._leave()
                raise asyncio.CancelledError("the tool did not end when it was cancelled")

    def _leave(self) -> None:
        """Ends a coroutine where it stands; its `finally` blocks run as far as their first await."""
        chain = [self._coroutine]
        while (inner := getattr(chain[-1], "cr_await", None)) is not None:
            chain.append(inner)
        try:
            self._context.run(self._coroutine.close)
        except BaseException:
            _keep(chain)


def _settled(pending: Any, until: float) -> Generator[Any, None, bool]:
    """Waits for what a tool awaits, but not beyond a time; says whether it was settled."""
    loop = asyncio.get_running_loop()
    if pending is None:  # asyncio.sleep(0)
        yield None
        return loop.time() < until
    pending._asyncio_future_blocking = False
    waiter = loop.create_future()

    def wake(*_: Any) -> None:
        if not waiter.done():
            waiter.set_result(None)

    timer = loop.call_at(until, wake)
    pending.add_done_callback(wake)
    try:
        yield from waiter
    finally:
        timer.cancel()
        pending.remove_done_callback(wake)
    return bool(pending.done())
