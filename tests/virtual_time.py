"""Time that passes at once: an event loop whose clock jumps to the next timer as soon as nothing else can happen.

    @in_virtual_time
    async def test_a_minute_of_silence_is_a_timeout(): ...

Sockets are real: what one end writes on loopback, the other can read at once, so nothing is under way unseen while both
ends live in this loop. The clock waits for a thread that the loop was asked to run (`asyncio.to_thread`), and for
nothing else that is outside of it: a process, or a thread of somebody's own.
"""

from __future__ import annotations

import asyncio
import functools
import selectors
from collections.abc import Awaitable, Callable
from typing import Any

GUARD_S = 3600.0
"""How much virtual time a test may take."""


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """A loop whose clock stands still while there is something to do, and jumps when there is not."""

    def __init__(self) -> None:
        self.now = 0.0
        self.threads = 0
        super().__init__(_Jumping(self))

    def time(self) -> float:
        return self.now

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:  # type: ignore[override]
        self.threads += 1
        future = super().run_in_executor(executor, func, *args)
        future.add_done_callback(self._thread_ended)
        return future

    async def shutdown_default_executor(self, *args: Any) -> None:
        self.threads += 1  # one thread waits for all others
        try:
            await super().shutdown_default_executor(*args)
        finally:
            self.threads -= 1

    def _thread_ended(self, _: asyncio.Future[Any]) -> None:
        self.threads -= 1


class _Jumping(selectors.DefaultSelector):
    """Waits for no timer: where nothing can be read or written, it is the next timer's time."""

    def __init__(self, loop: VirtualTimeLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> Any:
        ready = super().select(0)
        if ready or timeout == 0:
            return ready
        if timeout is None or self._loop.threads:
            return super().select(None)
        self._loop.now += max(timeout, self._loop._clock_resolution)  # type: ignore[attr-defined]
        return ready


def in_virtual_time(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """The same test in a loop with virtual time."""

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        async def guarded() -> None:
            async with asyncio.timeout(GUARD_S):
                await test(*args, **kwargs)

        with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
            runner.run(guarded())

    return run
