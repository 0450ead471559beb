"""The world as the runtime touches it: clock, randomness, tasks. A simulator stands in for all of it.

HTTP is behind models and disks are behind stores; what is left is here. Nothing else in `runtime` reads a clock or
draws a random number.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Coroutine
from typing import Any, Protocol

from windlass.events.stored.record import SALT_BYTES, stored_text
from windlass.tools.planes.task_stops import StoppableTask

from . import liveness

SALTS_AT_ONCE = 64


class Ports(Protocol):
    """What the runtime asks of the world."""

    def now_ms(self) -> int:
        """The wall clock. May jump; order never depends on it."""
        ...

    def monotonic_ms(self) -> int:
        """A clock that only goes forward, for durations and leases."""
        ...

    def sample(self) -> float:
        """A draw from [0, 1)."""
        ...

    def salt(self) -> str:
        """A fresh salt for a body's digest."""
        ...

    def fresh_id(self) -> str:
        """An id that nobody has used."""
        ...

    def runner(self) -> str:
        """A name for a runner of this process, under which it holds leases."""
        ...

    def gone(self, runner: str) -> bool:
        """Whether the process behind a runner's name is certainly not there any more."""
        ...

    async def sleep_ms(self, ms: int) -> None: ...

    def spawn(self, work: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]: ...

    def point(self, name: str) -> None:
        """A named place where a crash would be interesting. Does nothing outside of tests."""
        ...


class SystemPorts:
    """The real world."""

    def __init__(self) -> None:
        self._salts: list[str] = []
        self._tasks: set[asyncio.Task[Any]] = set()

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    def sample(self) -> float:
        return random.random()

    def salt(self) -> str:
        if not self._salts:
            raw = os.urandom(SALT_BYTES * SALTS_AT_ONCE)
            self._salts = [stored_text(raw[at : at + SALT_BYTES]) for at in range(0, len(raw), SALT_BYTES)]
        return self._salts.pop()

    def fresh_id(self) -> str:
        stamp = (time.time_ns() // 1_000_000) & ((1 << 48) - 1)
        raw = (stamp << 80) | int.from_bytes(os.urandom(10), "big")
        text = f"{raw:032x}"
        return f"{text[:8]}-{text[8:12]}-7{text[13:16]}-{'89ab'[int(text[16], 16) % 4]}{text[17:20]}-{text[20:]}"

    def runner(self) -> str:
        return liveness.named(f"runner-{self.fresh_id()}")

    def gone(self, runner: str) -> bool:
        return liveness.gone(runner)

    async def sleep_ms(self, ms: int) -> None:
        await asyncio.sleep(ms / 1000)

    def spawn(self, work: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        task = StoppableTask(work, loop=asyncio.get_running_loop(), name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def point(self, name: str) -> None:
        return None
