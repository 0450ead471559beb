"""Readers outside of every process: each keeps a cursor and nothing else, and goes on with it wherever it may."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from windlass.events.errors import StoreError, UsageError
from windlass.events.live import StreamTruncated
from windlass.runtime.streams.record import Record
from windlass.store.base import Key

if TYPE_CHECKING:
    from .runner import Runner
    from .world import World

STAYS_S = (0.5, 5.0, 40.0)
RECONNECT_S = 0.3
READERS_MAX = 3


class Reader:
    """Somebody who wants to see every record of a session once, whoever tells them."""

    def __init__(self, world: World, key: Key) -> None:
        self._world = world
        self.key = key
        self.seq = 0
        self._cursor: str | None = None
        self._last: Runner | None = None

    async def live(self) -> None:
        """Reads in one process after the other."""
        from .runner import RunnerDied

        world = self._world
        while True:
            runner = world.people.somebody(clients=True)
            if runner is not None:
                self._arrives(runner)
                try:
                    stays = None if world.healed.is_set() else world.chance.one(STAYS_S)
                    await runner.call(lambda runner=runner: self._read(runner), patience_s=stays)  # type: ignore[misc]
                except (RunnerDied, StoreError):
                    pass
                except UsageError:
                    if runner.ready:
                        raise
            await asyncio.sleep(RECONNECT_S)

    def _arrives(self, runner: Runner) -> None:
        if self.seq and self._last is not None and self._last is not runner:
            self._world.reached("read_on_elsewhere")
            if self._last.actor.dead:
                self._world.reached("read_on_after_crash")
        self._last = runner

    async def _read(self, runner: Runner) -> None:
        async for told in runner.runtime.tail(self.key, after=self._cursor):
            if isinstance(told, Record):
                self._world.watch.published(runner.actor, self.key, told, self.seq)
                self.seq, self._cursor = told.seq, told.cursor
            elif isinstance(told, StreamTruncated) and told.reason == "disconnected":
                return
