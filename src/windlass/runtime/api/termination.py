"""SIGTERM: what has begun is brought to its end within a stated time, then the program closes and ends."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any

from windlass.events.errors import UsageError

TERMINATED = 128 + signal.SIGTERM
"""The exit code of a program that was asked to stop and did."""


def leave_after(signum: int, times: int, code: int) -> None:
    """Has the process end at once when a signal comes once more than so many times, also if its loop does not turn: a
    tool that blocks it must not keep a program alive. To be called when the loop has a handler for the signal."""
    heard = 0

    def hear(*_: Any) -> None:
        nonlocal heard
        heard += 1
        if heard > times:
            os._exit(code)

    signal.signal(signum, hear)  # the loop is woken by its file descriptor all the same
    signal.siginterrupt(signum, False)


class Termination:
    """While it is entered, the first SIGTERM drains, tells `before` and `then` whoever asked (the task is cancelled
    unless told otherwise), and the program ends with `TERMINATED`; a second one ends the process at once, which is
    what a crash would be to the log."""

    def __init__(
        self,
        drain: Callable[[], Awaitable[Any]],
        *,
        before: Callable[[], None] = lambda: None,
        then: Callable[[], None] | None = None,
    ) -> None:
        self._drain = drain
        self._before = before
        self._then = then
        self._task: asyncio.Task[Any] | None = None
        self._draining: asyncio.Task[Any] | None = None

    @property
    def asked(self) -> bool:
        """Whether the program was asked to stop."""
        return self._draining is not None

    def __enter__(self) -> Termination:
        self._task = asyncio.current_task()
        try:
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self._terminate)
        except (ValueError, RuntimeError) as error:
            raise UsageError("signals reach the main thread alone: enter this in its event loop") from error
        leave_after(signal.SIGTERM, 1, TERMINATED)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        asyncio.get_running_loop().remove_signal_handler(signal.SIGTERM)
        if self.asked and isinstance(error, asyncio.CancelledError):
            raise SystemExit(TERMINATED) from None

    def _terminate(self) -> None:
        if self._draining is not None:
            os._exit(TERMINATED)
        self._draining = asyncio.get_running_loop().create_task(self._stop(), name="windlass:sigterm")

    async def _stop(self) -> None:
        try:
            try:
                self._before()
            finally:  # also if what is told cannot be told
                await self._drain()
        finally:
            if self._then is not None:
                self._then()
            elif self._task is not None:
                self._task.cancel()
