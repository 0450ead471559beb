"""An event loop without a world: time is a number, the order of what is ready is the seed's, and nothing is waited for.

Every callback belongs to an actor (a process of the simulated world). When an actor dies, nothing of it ever runs
again: no clean-up, no `finally`. When it is stalled, it stands still while the others go on.
"""

from __future__ import annotations

import asyncio
import contextvars
import heapq
import random
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from windlass.tools.planes.task_stops import StoppableTask

if TYPE_CHECKING:
    from .world import World

PASSES_MAX = 20_000
"""More passes than this without a moment going by are a spin, not work."""

CALLBACKS_MAX = 2_000_000
DUMPED_MAX = 40


class Stuck(AssertionError):
    """Nothing can happen any more, or too much happens at once."""


class Crashed(BaseException):
    """Unwinds the code that stood at the point where its process died."""


class Actor:
    """One process of the simulated world."""

    __slots__ = ("clock_ms", "dead", "held", "leases", "name", "stalled", "world")

    def __init__(self, name: str, world: World | None = None) -> None:
        self.name = name
        self.world = world
        self.dead = False
        self.stalled = False
        self.held: list[asyncio.Handle] = []
        self.clock_ms = 0
        """How far its wall clock is off."""
        self.leases: dict[Any, tuple[int, float]] = {}
        """By session: the epoch it holds, and the time at which its lease runs out."""

    def context(self) -> contextvars.Context:
        """A context in which everything that is scheduled belongs to this actor."""
        context = contextvars.copy_context()
        context.run(ACTOR.set, self)
        return context


ACTOR: contextvars.ContextVar[Actor] = contextvars.ContextVar("windlass_sim_actor")
_NOBODY = Actor("nobody")


class Planned(Exception):
    """A fault that the world has planned: what it ends is to be replaced."""


class SimLoop(asyncio.BaseEventLoop):
    """Runs callbacks in an order that a generator of random numbers chooses, as far as asyncio leaves it open."""

    def __init__(self, chance: random.Random, *, shuffles: bool) -> None:
        super().__init__()
        self._chance = chance
        self._shuffles = shuffles
        self._at = 0.0
        self._passes = 0
        self.callbacks = 0
        self.over = False
        self.tasks: dict[asyncio.Task[Any], Actor] = {}
        self.set_task_factory(self._make_task)  # type: ignore[arg-type]

    # --- what asyncio asks of a loop ---

    def time(self) -> float:
        return self._at

    def _make_task(
        self, loop: asyncio.AbstractEventLoop, coro: Coroutine[Any, Any, Any], **options: Any
    ) -> asyncio.Task[Any]:
        task = StoppableTask(coro, loop=loop, **options)
        if self.over:
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            coro.close()
            return task
        self.tasks[task] = (options.get("context") or contextvars.copy_context()).get(ACTOR, _NOBODY)
        task.add_done_callback(self._forget, context=_NOWHERE)
        return task

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self.tasks.pop(task, None)

    def call_soon(  # type: ignore[override]
        self, callback: Any, *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        if self.over:
            return asyncio.Handle(callback, args, self, context)
        return super().call_soon(callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Any, *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        if self.over:
            return asyncio.TimerHandle(when, callback, args, self, context)
        return super().call_at(when, callback, *args, context=context)

    def _asyncgen_finalizer_hook(self, agen: Any) -> None:
        """A generator that nobody reads any more is closed in a task, unless its actor dies before that begins."""
        self._asyncgens.discard(agen)  # type: ignore[attr-defined]
        self.call_soon(self._close_left, agen)

    def _close_left(self, agen: Any) -> None:
        self.create_task(agen.aclose())

    def _check_closed(self) -> None:
        """What is left of dead actors may still touch the loop while it is taken apart; nothing comes of it."""

    def _process_events(self, event_list: Any) -> None:
        """There are none."""

    def _write_to_self(self) -> None:
        """There are no other threads."""

    def _run_once(self) -> None:
        ready: Any = self._ready  # type: ignore[attr-defined]
        if not ready:
            self._pass_time()
        self._take_due()
        batch = list(ready)
        ready.clear()
        if self._shuffles and len(batch) > 1:
            self._chance.shuffle(batch)
        for handle in batch:
            if handle._cancelled:
                continue
            actor = handle._context.get(ACTOR, _NOBODY)
            if actor.dead:
                continue
            if actor.stalled:
                actor.held.append(handle)
                continue
            self.callbacks += 1
            handle._run()
        self._passes += 1
        if self._passes > PASSES_MAX or self.callbacks > CALLBACKS_MAX:
            raise Stuck(f"it spins at {self._at:.3f} s and gets nowhere\n{self.dump()}")

    def _pass_time(self) -> None:
        """Nothing is ready: goes on to the next moment at which something is."""
        scheduled: list[Any] = self._scheduled  # type: ignore[attr-defined]
        while scheduled and (scheduled[0]._cancelled or self._is_dead(scheduled[0])):
            heapq.heappop(scheduled)._scheduled = False
        if not scheduled:
            raise Stuck(f"nothing is ready and nothing is scheduled at {self._at:.3f} s\n{self.dump()}")
        if scheduled[0]._when > self._at:
            self._at = scheduled[0]._when
            self._passes = 0

    def _is_dead(self, handle: Any) -> bool:
        dead: bool = handle._context.get(ACTOR, _NOBODY).dead
        return dead

    def _take_due(self) -> None:
        scheduled: list[Any] = self._scheduled  # type: ignore[attr-defined]
        ready: Any = self._ready  # type: ignore[attr-defined]
        while scheduled and scheduled[0]._when <= self._at:
            handle = heapq.heappop(scheduled)
            handle._scheduled = False
            ready.append(handle)

    # --- what the world asks of it ---

    def resume(self, actor: Actor) -> None:
        """A stalled actor goes on where it stood."""
        actor.stalled = False
        ready: Any = self._ready  # type: ignore[attr-defined]
        ready.extend(actor.held)
        actor.held = []

    def start(self, work: Coroutine[Any, Any, Any], actor: Actor, name: str) -> asyncio.Task[Any]:
        """A task of an actor."""
        return self.create_task(work, name=name, context=actor.context())

    def tasks_of(self, actor: Actor) -> list[asyncio.Task[Any]]:
        """What an actor has not finished."""
        return [task for task, owner in self.tasks.items() if owner is actor and not task.done()]

    def dump(self) -> str:
        """The tasks that wait, and where."""
        lines = []
        for task, actor in list(self.tasks.items())[:DUMPED_MAX]:
            if task.done() or actor.dead:
                continue
            lines.append(f"  {actor.name}: {task.get_name()} waits in {_place(task)}")
        return "\n".join(lines) or "  no tasks"

    def take_apart(self) -> None:
        """Ends everything where it stands, without letting any of it run on."""
        self.over = True
        for task in list(self.tasks):
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            coro = task.get_coro()
            try:
                coro.close()
            except BaseException:
                _left.append(coro)
        self.tasks.clear()
        self.close()


_NOWHERE = contextvars.Context()
_left: list[Any] = []
"""Coroutines that would not be closed; collecting them would wake them once more."""


def _place(task: asyncio.Task[Any]) -> str:
    """The innermost line that a task stands at."""
    inner: Any = task.get_coro()
    place = getattr(inner, "__qualname__", "?")
    for _ in range(100):
        frame = getattr(inner, "cr_frame", None) or getattr(inner, "ag_frame", None)
        if frame is not None:
            place = f"{frame.f_code.co_qualname if hasattr(frame.f_code, 'co_qualname') else frame.f_code.co_name}"
            place += f":{frame.f_lineno}"
        following = getattr(inner, "cr_await", None) or getattr(inner, "ag_await", None)
        if following is None:
            break
        inner = following
    return place
