"""The life of a host: its store is opened, its parts are put together and begin, and all of it is closed again.

Whoever opens a store closes it. If beginning fails, nothing is left open; whoever is cancelled while it is closed
learns of that once all is closed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import msgspec

from windlass.events.errors import UsageError
from windlass.runtime.bind.agent_registry import BoundAgents
from windlass.runtime.drive.tool_runner import ToolRunners
from windlass.runtime.streams.log_follower import LogFollower
from windlass.store.base import Durability, Key, Store
from windlass.tools.files.protected_names import PLACES

from .host import Host
from .host_settings import HostSettings
from .ports import Ports
from .shielded_work import to_its_end
from .slot_table import Slots

Opening = Callable[[], Awaitable[Store]]
"""Opens a store; whoever opens one closes it."""


class HostLife:
    """One host from its beginning to its end; it begins once."""

    def __init__(
        self,
        store: Store | str | Opening,
        durability: Durability,
        ports: Ports,
        settings: HostSettings,
        tools: ToolRunners,
        follower: LogFollower | None,
    ) -> None:
        self.ports = ports
        self.settings = settings
        self.tools = tools
        self.follower = follower
        self.slots = Slots()
        self.agents = BoundAgents()
        self._given = store
        self._durability = durability
        self._opened: Store | None = None
        self._host: Host | None = None
        self._closing: asyncio.Task[None] | None = None

    @property
    def host(self) -> Host:
        """The parts, while they are there."""
        if self._host is None:
            raise UsageError("this runtime is not open yet: use it as `async with windlass.open(...) as runtime:`")
        return self._host

    @property
    def closed(self) -> bool:
        """Whether it has ended, or is ending."""
        return self.slots.closed or self._closing is not None

    async def start(self, agents: Iterable[Any]) -> None:
        """Opens the store, binds the agents, drives what is owed, and watches. If that fails, nothing is left open."""
        if self.closed or self._host is not None:
            raise UsageError("a runtime is started once: open another one")
        try:
            if isinstance(self._given, str) or callable(self._given):
                loop = asyncio.get_running_loop()
                await to_its_end(loop.create_task(self._open_store(self._given), name="windlass:open"))
            await self._start(self._opened or self._given, agents)
        except BaseException:
            await self.close()
            raise

    async def _open_store(self, place: str | Opening) -> None:
        if not isinstance(place, str):
            self._opened = await place()
            return
        from windlass.store import open_store

        self._opened = await open_store(place, durability=self._durability)

    async def _start(self, store: Any, agents: Iterable[Any]) -> None:
        place = getattr(store, "path", None) or getattr(store, "root", None)
        if isinstance(place, os.PathLike):
            PLACES.add(place)  # whatever a tool is allowed, it never writes what its own session is kept in
        settings = self.settings
        if self.follower is not None:
            settings = msgspec.structs.replace(settings, on_kept=self.follower.committed)
        for agent in agents:
            self.agents.bind_given(agent, self.tools)
        self._host = Host(store, self.ports, settings, self.slots, self.agents, self.tools)
        if self.follower is not None:
            await self.follower.begin(store)
        await self._host.start()

    async def drain(self, timeout_ms: int | None = None) -> tuple[Key, ...]:
        """Begins nothing more, and waits for what has begun, for as long as its settings say unless told otherwise."""
        return await self.host.drain(self.settings.drain_ms if timeout_ms is None else timeout_ms)

    async def close(self) -> None:
        """Stops driving, gives the leases back, closes what was opened. Safe twice."""
        if self._closing is None:
            self.slots.closed = self._host is None or not self._host.trees.ending()
            loop = asyncio.get_running_loop()
            self._closing = loop.create_task(self._close(), name="windlass:close")
        if not self._closing.done():
            await to_its_end(self._closing)

    async def _close(self) -> None:
        if self._host is not None:
            if not self.slots.closed:
                await self._host.trees.quiet()
            self.slots.closed = True
            await self._host.close()
        if self.follower is not None:
            await self.follower.close()
        async with contextlib.AsyncExitStack() as closing:  # what cannot be closed must not keep the others open
            if self._opened is not None:
                closing.push_async_callback(self._opened.close)
            closing.push_async_callback(self.agents.close)
            closing.push_async_callback(self.tools.close)
