"""Who stopped a task: somebody outside, or the code that runs in it.

Code of users runs in our tasks, and may cancel the task that it finds itself in: a `TaskGroup` does so when a child
fails, and in Python 3.11 and 3.12 leaves the count of cancellations one too high. That is its own affair. A task made
here counts only what was asked for from outside; `Foreign` puts the rest right when the code has ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
from collections.abc import Awaitable, Generator, Iterable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any

_inside: contextvars.ContextVar[asyncio.Task[Any] | None] = contextvars.ContextVar("windlass_inside", default=None)
"""The task whose foreign code runs here. Callbacks, timers and tasks inherit it from the code that made them."""


class AtOnce:
    """What is awaited and is there already: nothing, without a coroutine made for it."""

    if TYPE_CHECKING:

        def __await__(self) -> Generator[Any, None, None]: ...
    else:
        __await__ = staticmethod(().__iter__)


AT_ONCE: Awaitable[None] = AtOnce()


class CancelledItself(Exception):
    """Code of others cancelled the task that it ran in; nobody else had asked for that."""

    def __init__(self) -> None:
        super().__init__("CancelledError: it cancelled the task that it ran in")


class StoppableTask(asyncio.Task[Any]):
    """A task that tells a cancellation from outside from one by the foreign code that runs in it."""

    stops = 0
    """How many of its cancellations came from outside."""

    def cancel(self, msg: Any | None = None) -> bool:
        if _inside.get() is not self:
            self.stops += 1
        return super().cancel(msg)

    def uncancel(self) -> int:
        left = super().uncancel()
        if _inside.get() is not self and self.stops > 0:
            self.stops -= 1
        self.stops = min(self.stops, left)
        return left


def stops(task: asyncio.Task[Any]) -> int:
    """How often a task was stopped from outside; of a task that was not made here every cancellation counts."""
    return task.stops if isinstance(task, StoppableTask) else task.cancelling()


def stop(task: asyncio.Task[Any]) -> None:
    """Stops a task from outside, also if foreign code in it caused that in a roundabout way."""
    token = _inside.set(None)
    try:
        task.cancel()
    finally:
        _inside.reset(token)


def take_back(task: asyncio.Task[Any]) -> None:
    """Takes back one stop that has had its effect."""
    token = _inside.set(None)
    try:
        task.uncancel()
    finally:
        _inside.reset(token)


@contextlib.contextmanager
def own_code() -> Iterator[None]:
    """Around code of ours that runs within code of others: what it asks of its task, such as a timeout, is no doing of
    theirs."""
    token = _inside.set(None)
    try:
        yield
    finally:
        _inside.reset(token)


class Foreign:
    """`async with Foreign():` around code of others that is awaited in our own task. If it cancelled the task itself,
    that is undone, and if it ended by that, `CancelledItself` is raised."""

    __slots__ = ("_cancelling", "_stops", "_task", "_token")

    def __init__(self, task: asyncio.Task[Any] | None = None) -> None:
        """`task` is the current one, if the caller has looked it up already."""
        self._task = task

    def __aenter__(self) -> Awaitable[None]:
        task = self._task
        if task is None:
            self._task = task = asyncio.current_task()
            assert task is not None, "effects are performed in a task"
        self._cancelling = task.cancelling()
        self._stops = stops(task) if self._cancelling else 0
        # Within foreign code of the same task it is set already; to set it again would cost more than all the rest.
        self._token = _inside.set(task) if _inside.get() is not task else None
        return AT_ONCE

    def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> Awaitable[None]:
        if kind is GeneratorExit:
            return AT_ONCE  # the task is taken apart, perhaps from another context
        task = self._task
        assert task is not None
        if kind is None and not task.cancelling():  # nobody has cancelled anything
            if self._token is not None:
                _inside.reset(self._token)
            return AT_ONCE
        return self._put_right(task, kind, error)

    async def _put_right(
        self, task: asyncio.Task[Any], kind: type[BaseException] | None, error: BaseException | None
    ) -> None:
        try:
            if isinstance(task, StoppableTask) and (task.cancelling() or kind is asyncio.CancelledError):
                await self._undo(task)
        finally:
            if self._token is not None:
                _inside.reset(self._token)
        if isinstance(error, asyncio.CancelledError) and stops(task) <= self._stops:
            raise CancelledItself from error

    async def _undo(self, task: StoppableTask) -> None:
        """Takes back what the code asked of its own task, also what has not arrived yet."""
        asked = self._cancelling + task.stops - self._stops
        if task.cancelling() <= asked:
            return
        while task.cancelling() > asked:
            task.uncancel()
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            if task.stops > self._stops:
                raise


async def ended(tasks: Iterable[asyncio.Future[Any]]) -> None:
    """Waits until tasks have ended, whatever came of them. For one that has, the loop is not gone round: whether
    `gather` does so depends on the version of Python, and with it the course of a simulated world."""
    open_tasks = []
    for task in tasks:
        if not task.done():
            open_tasks.append(task)
        elif not task.cancelled():
            task.exception()  # it was asked for
    if open_tasks:
        await asyncio.gather(*open_tasks, return_exceptions=True)
