"""The runtimes of a server: one for each tenant, over one store. A token names its tenant; nothing else does."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from windlass.events.errors import UsageError
from windlass.runtime.api.agent import Agent
from windlass.runtime.api.runtime import Runtime
from windlass.runtime.streams.log_follower import FollowerMaker
from windlass.store.base import Durability, Key


class Tenants:
    """Opens the runtime of a tenant when it is first asked for, and closes them all."""

    def __init__(
        self,
        place: str,
        agents: Sequence[Agent],
        *,
        drain_ms: int,
        durability: Durability = "full",
        telemetry: FollowerMaker | None = None,
    ) -> None:
        self.agents: dict[str, Agent] = {}
        for agent in agents:
            if self.agents.setdefault(agent.name, agent) is not agent:
                raise UsageError(f"two agents are named {agent.name!r}: give one of them another name")
        self.place = place
        self._drain_ms = drain_ms
        self._durability = durability
        self._telemetry = telemetry
        self._open: dict[str, Runtime] = {}
        self._opening = asyncio.Lock()

    @property
    def runtimes(self) -> tuple[Runtime, ...]:
        """Those that are open."""
        return tuple(self._open.values())

    async def runtime(self, tenant: str) -> Runtime:
        """The runtime of a tenant, which resumes what its sessions are owed."""
        runtime = self._open.get(tenant)
        if runtime is not None:
            return runtime
        async with self._opening:
            if tenant not in self._open:
                agents = list(self.agents.values())
                made = Runtime(
                    self.place,
                    agents=agents,
                    tenant=tenant,
                    drain_ms=self._drain_ms,
                    durability=self._durability,
                    telemetry=self._telemetry,
                )
                self._open[tenant] = await made.start()
            return self._open[tenant]

    async def drain(self) -> tuple[Key, ...]:
        """Begins nothing more anywhere, and waits for what has begun. Gives the sessions that were still at work."""
        left = await asyncio.gather(*(runtime.drain() for runtime in self.runtimes))
        return tuple(key for keys in left for key in keys)

    async def close(self) -> None:
        """Closes all of them."""
        await asyncio.gather(*(runtime.close() for runtime in self.runtimes))
