"""The execution plane: where tools run. `LocalPlane` runs them in this process.

Whatever a tool does, `run` ends: with an outcome, or by raising `CancelledError` to a caller that cancelled it.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
from collections.abc import Callable
from typing import Any, Protocol

from windlass.events.blocks import JsonObject
from windlass.events.calls import CallBody

from .context import ToolContext
from .convert import Mismatch
from .deadline import Deadline
from .inline import GRACE_S, ClosedItself, Inline
from .outcome import Outcome, failed, raised, returned, timed_out
from .pieces import drained, drained_async
from .threads import ORPHANS_MAX, THREADS_MAX, Threads, TooManyOrphans
from .tool import AnyTool


class Plane(Protocol):
    """Anything that runs tools. `run` gives an outcome for whatever the tool does, within the tool's time; cancelling
    it gives the tool up."""

    async def run(self, tool: AnyTool, call: CallBody, context: ToolContext) -> Outcome: ...

    async def close(self) -> None: ...


class LocalPlane:
    """Runs tools in this process: async ones on the event loop, sync ones in threads.

    With `threads_max=0` sync tools run on the loop itself, which is for simulations only.
    """

    def __init__(
        self, *, threads_max: int = THREADS_MAX, orphans_max: int = ORPHANS_MAX, grace_s: float = GRACE_S
    ) -> None:
        self._threads = Threads(threads_max, orphans_max) if threads_max > 0 else None
        self._grace_s = grace_s
        self.running = 0

    @property
    def orphans(self) -> int:
        """How many tools that were given up still run in threads."""
        return self._threads.orphans if self._threads else 0

    async def close(self) -> None:
        """Lets idle threads end. Safe to call twice."""
        if self._threads is not None:
            self._threads.close()

    async def run(self, tool: AnyTool, call: CallBody, context: ToolContext) -> Outcome:
        """Runs a tool within its time. Waiting for a person does not count."""
        deadline = Deadline(tool.options.timeout_ms, context)
        try:
            outcome = await self.run_inline(tool, call, context)
        except asyncio.CancelledError:
            if not deadline.settle():
                raise
            return timed_out(tool.options.timeout_ms)
        finally:
            deadline.close()
        if deadline.settle():
            _drop(outcome)
            return timed_out(tool.options.timeout_ms)
        return outcome

    async def run_inline(self, tool: AnyTool, call: CallBody, context: ToolContext) -> Outcome:
        """Runs a tool in the caller's task, without a time limit: the caller cancels when its own timer says so.
        Raises `CancelledError` then, at the latest after the grace period."""
        task = asyncio.current_task()
        assert task is not None, "tools run in a task"
        before = task.cancelling()
        context.attach(task.get_loop())
        self.running += 1
        try:
            outcome = await self._perform(tool, call.args or {}, context)
        except asyncio.CancelledError as error:
            if task.cancelling() <= before:
                return raised(error)  # the tool's own doing
            context.cancel()
            raise
        finally:
            self.running -= 1
        if task.cancelling() > before:
            context.cancel()
            _drop(outcome)
            raise asyncio.CancelledError("the tool swallowed its cancellation")
        return outcome

    async def _perform(self, tool: AnyTool, args: JsonObject, context: ToolContext) -> Outcome:
        if tool.mode == "external":
            return failed("tool_unavailable", "this tool is run by a client", "the tool is run by a client")
        try:
            positional, named = tool.parameters.bound(args, context)
        except Mismatch as error:
            return failed("tool_arguments", str(error), "the arguments do not convert")
        except Exception as error:
            return raised(error)

        def call() -> Any:
            return tool(*positional, **named)

        if tool.mode == "async" or tool.mode == "async_generator":
            return await self._awaited(call, context)
        if self._threads is None:
            outcome: Outcome | _Unfinished = _sync_outcome(call, context)
        else:
            outcome = await self._in_thread(self._threads, call, context)
        if isinstance(outcome, Outcome):
            return outcome
        return await self._awaited(lambda: outcome.value, context)

    async def _awaited(self, call: Callable[[], Any], context: ToolContext) -> Outcome:
        task = asyncio.current_task()
        before = task.cancelling() if task else 0
        try:
            return returned(await Inline(_value_of(call, context), self._grace_s))
        except asyncio.CancelledError as error:
            if task is not None and task.cancelling() > before:
                raise
            return raised(error)
        except GeneratorExit:
            raise  # the caller is being closed
        except ClosedItself as error:
            return raised(error.error)
        except BaseException as error:
            return raised(error)

    async def _in_thread(
        self, threads: Threads, call: Callable[[], Any], context: ToolContext
    ) -> Outcome | _Unfinished:
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Outcome | _Unfinished] = loop.create_future()
        variables = contextvars.copy_context()

        def settle(outcome: Any) -> None:
            if done.done():
                _drop(outcome)  # given up meanwhile
            else:
                done.set_result(outcome)

        def work() -> None:
            outcome = variables.run(_sync_outcome, call, context)
            try:
                loop.call_soon_threadsafe(settle, outcome)
            except RuntimeError:
                _drop(outcome)  # the loop is closed

        try:
            job = threads.submit(work)
        except TooManyOrphans as error:
            told = "too many tools that were given up still run; try again later"
            return failed("tool_unavailable", told, str(error))
        try:
            return await done
        except asyncio.CancelledError:
            context.cancel()
            threads.give_up(job)
            raise


class _Unfinished:
    """What a sync function returned that must still be awaited on the loop."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


def _sync_outcome(call: Callable[[], Any], context: ToolContext) -> Outcome | _Unfinished:
    """Runs a sync tool to its end, wherever it is called. Never raises."""
    try:
        value = call()
        if inspect.isawaitable(value) or hasattr(type(value), "__aiter__"):
            return _Unfinished(value)
        return returned(drained(value, context) if inspect.isgenerator(value) else value)
    except BaseException as error:
        return raised(error)


async def _value_of(call: Callable[[], Any], context: ToolContext) -> Any:
    value = call()
    if inspect.isawaitable(value):
        value = await value
    if hasattr(type(value), "__aiter__"):
        return await drained_async(value, context)
    return drained(value, context) if inspect.isgenerator(value) else value


def _drop(outcome: Any) -> None:
    """A result that nobody waits for any more."""
    if isinstance(outcome, Outcome):
        for blob in outcome.blobs:
            blob.close()
    elif isinstance(outcome, _Unfinished) and inspect.iscoroutine(outcome.value):
        outcome.value.close()
