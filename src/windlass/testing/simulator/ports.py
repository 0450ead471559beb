"""The runtime's ports in the simulated world: one seed behind the clock, the samples, the ids and the crash points."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from windlass.events.stored.record import SALT_BYTES, stored_text

from .loop import Actor, Crashed, Planned

if TYPE_CHECKING:
    from .world import World

EFFECTS = ("before_tool", "after_tool", "before_model", "after_model")
"""Where a driver may die of what nobody has thought of."""
BEGINNING_MS = 1_700_000_000_000


class SimPorts:
    """The world as one process sees it. Its wall clock may be off and may jump; its monotonic clock only goes on."""

    def __init__(self, world: World, actor: Actor) -> None:
        self._world = world
        self._actor = actor

    def now_ms(self) -> int:
        return BEGINNING_MS + int(self._world.loop.time() * 1000) + self._actor.clock_ms

    def monotonic_ms(self) -> int:
        return int(self._world.loop.time() * 1000)

    def sample(self) -> float:
        return self._world.chance.random()

    def salt(self) -> str:
        return stored_text(self._world.fresh().to_bytes(SALT_BYTES, "big"))

    def fresh_id(self) -> str:
        return f"id-{self._world.fresh()}"

    def runner(self) -> str:
        return f"runner-{self.fresh_id()}"

    def gone(self, runner: str) -> bool:
        """Nobody is ever certain here, so that leases are waited for."""
        return False

    async def sleep_ms(self, ms: int) -> None:
        await asyncio.sleep(ms / 1000)

    def spawn(self, work: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        task = self._world.loop.create_task(work, name=name)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._world.task_died(self._actor, task.get_name(), error)

    def point(self, name: str) -> None:
        world = self._world
        if name == "after_append":
            world.compare(self._actor)
        if name in EFFECTS and world.chance.hit(world.rates.driver_dies):
            world.reached("driver_dies")
            raise Planned(f"at {name}")
        if world.may_crash(world.rates.crash_point):
            world.crash(self._actor, name)
            raise Crashed(name)
