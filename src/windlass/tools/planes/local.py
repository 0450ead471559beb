"""The local plane: tools run in this process, async ones on the event loop, sync ones in threads.

Whatever a tool does, `run` ends: with an outcome, or by raising `CancelledError` to a caller that cancelled it.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import itertools
from collections.abc import Callable
from typing import Any

from windlass.events.tools.calls import CallBody
from windlass.events.values.blocks import JsonObject
from windlass.tools.context import ToolContext
from windlass.tools.tool import AnyTool
from windlass.tools.types.convert import Mismatch

from .generators import drained, drained_async
from .inline import GRACE_S, ClosedItself, Inline
from .large_output import LOOP_BYTES_MAX
from .loop_watch import LoopWatch
from .outcome import GONE, Outcome, failed, raised, returned, timed_out
from .task_stops import CancelledItself, Foreign, stops
from .threads import ORPHANS_MAX, THREADS_MAX, Threads, TooManyOrphans
from .timeout import Deadline

SATURATED_S = 1.0
"""How long a call waits for a thread before that is put on record."""
LOOKED_AT_MAX = 10_000
"""A result of more values than this is taken for a large one, unseen."""
FIELDS = ("__struct_fields__", "__dataclass_fields__", "__pydantic_fields__")


class LocalPlanes:
    """The local planes of a runtime's sessions, which share its threads: they are bounded for all of them together."""

    def __init__(self, *, threads_max: int = THREADS_MAX, orphans_max: int = ORPHANS_MAX) -> None:
        self._shared = LocalPlane(threads_max=threads_max, orphans_max=orphans_max)

    async def open(self, session: str) -> LocalPlane:
        """A session's plane."""
        return LocalPlane(shares=self._shared)

    async def close(self) -> None:
        """Lets idle threads end. Safe to call twice."""
        await self._shared.close()


class LocalPlane:
    """Runs tools in this process.

    With `threads_max=0` sync tools run on the loop itself, which is for simulations only.
    """

    def __init__(
        self,
        *,
        threads_max: int = THREADS_MAX,
        orphans_max: int = ORPHANS_MAX,
        grace_s: float = GRACE_S,
        shares: LocalPlane | None = None,
    ) -> None:
        if shares is None:
            self._threads = Threads(threads_max, orphans_max) if threads_max > 0 else None
            self._watch = LoopWatch(looks=threads_max > 0)
        else:
            self._threads, self._watch = shares._threads, shares._watch
        self._shares = shares is not None
        self._grace_s = grace_s
        self.running = 0

    @property
    def orphans(self) -> int:
        """How many tools that were given up still run in threads."""
        return self._threads.orphans if self._threads else 0

    async def close(self) -> None:
        """Lets idle threads end. Safe to call twice."""
        if self._threads is not None and not self._shares:
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
        before = stops(task)
        context.attach(task.get_loop())
        self.running += 1
        try:
            async with Foreign(task):
                outcome = await self._perform(tool, call.args or {}, context, task)
        except CancelledItself as error:
            return raised(error.__cause__ or error)
        except asyncio.CancelledError:
            context.cancel()
            raise
        finally:
            self.running -= 1
        if stops(task) > before:
            context.cancel()
            _drop(outcome)
            raise asyncio.CancelledError("the tool swallowed its cancellation")
        return outcome

    async def _perform(self, tool: AnyTool, args: JsonObject, context: ToolContext, task: asyncio.Task[Any]) -> Outcome:
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
            return await self._awaited(call, context, task)
        if self._threads is None:
            outcome: Outcome | _Unfinished = _sync_outcome(call, context)
        else:
            outcome = await self._in_thread(self._threads, tool.name, call, context)
        if isinstance(outcome, Outcome):
            return outcome
        return await self._awaited(lambda: outcome.value, context, task)

    async def _awaited(self, call: Callable[[], Any], context: ToolContext, task: asyncio.Task[Any]) -> Outcome:
        before = stops(task)
        self._watch.begins()
        try:
            return await _rendered(await Inline(_value_of(call, context), context, self._watch, task, self._grace_s))
        except asyncio.CancelledError as error:
            if stops(task) > before:
                raise
            return raised(error)
        except GeneratorExit:
            raise  # the caller is being closed
        except ClosedItself as error:
            return raised(error.error)
        except BaseException as error:
            return raised(error)
        finally:
            self._watch.ends()

    async def _in_thread(
        self, threads: Threads, name: str, call: Callable[[], Any], context: ToolContext
    ) -> Outcome | _Unfinished:
        """Runs a sync tool in a thread. If the session may have been lost while it waited for one, that is made sure of
        first, and then it waits again."""
        while True:
            outcome = await self._job(threads, name, call, context)
            if not isinstance(outcome, _NotBegun):
                return outcome
            if not await context.hold():
                return failed("tool_cancelled", GONE, GONE)

    async def _job(
        self, threads: Threads, name: str, call: Callable[[], Any], context: ToolContext
    ) -> Outcome | _Unfinished | _NotBegun:
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Outcome | _Unfinished | _NotBegun] = loop.create_future()
        variables = contextvars.copy_context()
        wait = _Wait(context, name)

        def settle(outcome: Any) -> None:
            if done.done():
                _drop(outcome)  # given up meanwhile
            else:
                done.set_result(outcome)

        def break_off(error: BaseException) -> None:
            if not done.done():
                done.set_exception(error)

        def work() -> None:
            outcome: Outcome | _Unfinished | _NotBegun = _NOT_BEGUN
            try:
                if wait.begun:
                    loop.call_soon_threadsafe(wait.over)
                try:
                    if context.holds:
                        outcome = variables.run(_sync_outcome, call, context)
                except BaseException as error:  # not the tool's, which becomes its outcome: nobody may wait for ever
                    loop.call_soon_threadsafe(break_off, error)
                else:
                    loop.call_soon_threadsafe(settle, outcome)
            except RuntimeError:
                _drop(outcome)  # the loop is closed

        try:
            job = threads.submit(work, context.session, name)
        except TooManyOrphans as error:
            told = f"too many calls of {name!r} that were given up still run; try again later"
            return failed("tool_unavailable", told, str(error))
        if job.waits:
            wait.begin(loop)
            if job.started:  # meanwhile
                wait.over()
        try:
            return await done
        except asyncio.CancelledError:
            context.cancel()
            threads.give_up(job)
            raise
        finally:
            wait.over()


class _Wait:
    """A call's wait for a thread: its time stands still, and a long one is put on record."""

    __slots__ = ("_context", "_name", "_timer", "begun")

    def __init__(self, context: ToolContext, name: str) -> None:
        self._context = context
        self._name = name
        self._timer: asyncio.TimerHandle | None = None
        self.begun = False

    def begin(self, loop: asyncio.AbstractEventLoop) -> None:
        self.begun = True
        self._context.waits.begin()
        self._timer = loop.call_later(SATURATED_S, self._tell)

    def _tell(self) -> None:
        told = f"{self._name!r} waits for a thread: all of them are busy with sync tools"
        self._context.notice("threads_saturated", told)

    def over(self) -> None:
        """The job has begun, or never will. Safe twice."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._context.waits.end()


class _NotBegun:
    """What comes of a job that found the session perhaps lost when its turn came."""


_NOT_BEGUN = _NotBegun()


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


async def _rendered(value: Any) -> Outcome:
    """The outcome of a value; a large one is written, digested and searched in a thread, so that the loop goes on."""
    if _is_large(value):
        return await asyncio.to_thread(returned, value)
    return returned(value)


def _is_large(value: Any) -> bool:
    """Whether a value takes long to write down, as far as a short look tells: at its texts, containers and fields."""
    if type(value) is str:  # what most tools return
        return len(value) > LOOP_BYTES_MAX
    size, seen, parts = 0, 0, [value]
    while parts and size <= LOOP_BYTES_MAX and seen <= LOOKED_AT_MAX:
        part = parts.pop()
        kind, seen = type(part), seen + 1
        if issubclass(kind, str):
            size += str.__len__(part)
        elif issubclass(kind, bytes | bytearray):
            size += memoryview(part).nbytes
        elif kind in (list, tuple, set, frozenset):
            parts.extend(itertools.islice(part, LOOKED_AT_MAX))
        elif kind is dict:
            parts.extend(itertools.islice(part.values(), LOOKED_AT_MAX))
        elif (fields := next(filter(None, (getattr(kind, name, None) for name in FIELDS)), None)) is not None:
            parts.extend(getattr(part, name, None) for name in fields)
    return size > LOOP_BYTES_MAX or seen > LOOKED_AT_MAX


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
