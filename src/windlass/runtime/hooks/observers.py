"""Where hooks run: plain functions in threads, so that nothing waits for one that is slow, and observers one after the
other in the order of what they hear of. Nobody waits for an observer, and what it does is its own trouble."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import logging
import traceback
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from windlass.events.stored.known_secrets import SECRETS
from windlass.tools.planes.threads import Threads

if TYPE_CHECKING:
    from windlass.runtime.host.ports import Ports

    from .hook import Hook

LOG = logging.getLogger("windlass.hooks")
OBSERVERS_MAX = 32
"""How many observations may be under way; what comes then is not heard of."""
THREADS_MAX = 16
ORPHANS_MAX = 64
"""Functions that took too long and still run. Beyond this no more are started, so guards deny."""
QUIET_S = 1.0
"""What observers get to end when the runtime is closed."""


class Observers:
    """The observers of a session that are at work, and the threads that its plain functions run in."""

    def __init__(self, ports: Ports, threads: Threads) -> None:
        self._ports = ports
        self._threads = threads
        self._latest: dict[str, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._turns: dict[str, asyncio.Lock] = {}
        self._over = False
        """Whether nobody is told any more: what is committed while a runtime closes would be told behind its end."""
        self.dropped = 0

    def turn(self, point: str) -> asyncio.Lock:
        """Whose turn it is at a point: first come, first served."""
        return self._turns.setdefault(point, asyncio.Lock())

    def start(self, hook: Hook, call: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        """Has an observer told, after what it was told before. Never waits, never fails."""
        if self._over or len(self._tasks) >= OBSERVERS_MAX:
            self.dropped += 1
            return
        work = _told(call, self._latest.get(hook.hook_id))
        task = self._latest[hook.hook_id] = self._ports.spawn(work, f"hook:{hook.hook_id}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def quiet(self, seconds: float = QUIET_S) -> None:
        """Lets observers end what they were told, for a while, and then gives them up, with all that follows."""
        if self._tasks:
            await asyncio.wait(list(self._tasks), timeout=seconds)
        self._over = True
        for task in list(self._tasks):
            task.cancel()

    async def in_thread(self, function: Callable[[], Any]) -> Any:
        """What a plain function returns. One that is given up is left behind in its thread."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Any] = loop.create_future()
        variables = contextvars.copy_context()

        def settle(value: Any, error: Exception | None) -> None:
            if done.done():
                return
            if error is None:
                done.set_result(value)
            else:
                done.set_exception(error)

        def work() -> None:
            value, error = None, None
            try:
                value = variables.run(function)
            except BaseException as raised:
                error = _ordinary(raised)
            try:
                loop.call_soon_threadsafe(settle, value, error)
            except RuntimeError:
                return  # the loop is closed: nobody is left to hear it

        job = self._threads.submit(work)
        try:
            return await done
        except asyncio.CancelledError:
            self._threads.give_up(job)
            raise


def is_async(function: Any) -> bool:
    """Whether calling something gives a coroutine."""
    called = getattr(type(function), "__call__", None)  # noqa: B004  # the method itself is wanted
    rule = getattr(function, "rule", None)  # a judge
    return any(inspect.iscoroutinefunction(candidate) for candidate in (function, called, rule))


async def _told(call: Callable[[], Coroutine[Any, Any, Any]], before: asyncio.Task[None] | None) -> None:
    try:
        if before is not None and not before.done():
            await asyncio.wait([before])
        await call()
    except (Exception, SystemExit) as error:  # an observer's trouble is its own
        whole = "".join(traceback.format_exception(error)).rstrip()
        clean = SECRETS.hidden_text(whole)
        if clean is whole:
            LOG.warning("an observer failed: %s", error, exc_info=error)
        else:  # as text, since whoever formats an exception later knows of no secrets that stand in it
            LOG.warning("an observer failed: %s", clean)


def _ordinary(error: BaseException) -> Exception:
    """An exception that a future can carry and that ends nothing but the hook."""
    if isinstance(error, Exception) and not isinstance(error, StopIteration):
        return error
    return RuntimeError(f"the hook raised {type(error).__name__}: {error}")
