"""What is under way for a session beside what its driver awaits itself: effects in tasks of their own, timers, and
chores such as reading the inbox."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine
from typing import Any

from windlass.runtime.host.ports import Ports
from windlass.tools.planes.task_stops import stop

A_DAY_S = 24 * 3600

Work = Callable[[], Coroutine[Any, Any, Any]]


def _nobody() -> None:
    """Who is told of what has ended once all is over."""


def _nobody_of(error: Exception) -> None:
    """Who is told of what something raised then."""


class Flights:
    """Effects by id, chores by name, each at most once. `landed` is called when one has ended, `changed` even when it
    was given up, `lost` with what one raised."""

    def __init__(
        self,
        ports: Ports,
        label: str,
        *,
        changed: Callable[[], None],
        landed: Callable[[], None],
        lost: Callable[[Exception], None],
    ) -> None:
        self._ports = ports
        self._label = label
        self._changed = changed
        self._landed = landed
        self._lost = lost
        self._effects: dict[str, asyncio.Task[Any] | asyncio.TimerHandle] = {}
        self._chores: dict[str, asyncio.Task[Any]] = {}

    def __contains__(self, effect_id: str) -> bool:
        return effect_id in self._effects

    def __len__(self) -> int:
        """How many effects are under way or waited for."""
        return len(self._effects)

    @property
    def working(self) -> bool:
        """Whether anything is being done; timers and clients are only waited for."""
        return bool(self._chores) or any(isinstance(flying, asyncio.Task) for flying in self._effects.values())

    # --- effects ---

    def launch(self, effect_id: str, work: Work, label: str | None = None) -> None:
        """Performs an effect in a task of its own."""
        label = label or f"{self._label}:{effect_id}"
        self._effects[effect_id] = self._ports.spawn(self._fly(effect_id, work), label)

    async def _fly(self, effect_id: str, work: Work) -> None:
        try:
            await work()
        except Exception as error:
            self._lost(error)
        finally:
            if self._effects.get(effect_id) is asyncio.current_task():
                del self._effects[effect_id]
            self._changed()
        self._landed()

    def after(self, effect_id: str, seconds: float, due: Callable[[], None]) -> None:
        """Has something called when a time is over, unless it is given up before."""
        self._effects[effect_id] = asyncio.get_running_loop().call_later(seconds, self._due, effect_id, due)

    def _due(self, effect_id: str, due: Callable[[], None]) -> None:
        self._effects.pop(effect_id, None)
        due()

    def wait_for(self, effect_id: str) -> None:
        """Notes that somebody else performs an effect."""
        self._effects[effect_id] = asyncio.get_running_loop().call_later(A_DAY_S, lambda: None)

    def give_up(self, effect_id: str) -> bool:
        """Stops one effect; False if it was not under way, or it is the one that asks for this."""
        flying = self._effects.pop(effect_id, None)
        if flying is None or flying is asyncio.current_task():
            return False
        if isinstance(flying, asyncio.Task):
            stop(flying)
        else:
            flying.cancel()
        return True

    def unwanted(self, effect_ids: Collection[str]) -> list[str]:
        """Those under way that are not among these."""
        return [effect_id for effect_id in self._effects if effect_id not in effect_ids]

    # --- chores ---

    def do(self, name: str, work: Work) -> None:
        """Does a chore, unless it is being done."""
        if name not in self._chores:
            self._chores[name] = self._ports.spawn(self._chore(name, work), f"{self._label}:{name}")

    async def _chore(self, name: str, work: Work) -> None:
        try:
            await work()
        except Exception as error:
            self._lost(error)
        finally:
            self._chores.pop(name, None)
            self._landed()

    # --- the end ---

    def part(self) -> None:
        """Nothing is under way any more, and nobody is to be told."""
        self._changed = self._landed = _nobody
        self._lost = _nobody_of

    async def stop(self, give_up: Callable[[str], None]) -> None:
        """Gives up all that is under way, and waits until it has ended: a tool gets its grace, not more."""
        while self._effects or self._chores:
            under_way = [flying for flying in self._effects.values() if isinstance(flying, asyncio.Task)]
            under_way += self._chores.values()
            for effect_id in list(self._effects):
                give_up(effect_id)
            for chore in self._chores.values():
                stop(chore)
            if under_way:
                await asyncio.wait(under_way)
            # One that was given up before it began does not say so itself.
            self._chores = {name: chore for name, chore in self._chores.items() if not chore.done()}
