"""The sessions of one editor. What a restart would lose is only that it is connected."""

from __future__ import annotations

import asyncio
from typing import Any

from windlass.events.errors import NotFound, UsageError
from windlass.mcp.server import McpServer
from windlass.protocol.json_rpc.rpc_peer import INVALID_PARAMS, RpcError
from windlass.runtime.api.agent import Agent
from windlass.runtime.api.runtime import Runtime
from windlass.runtime.api.session import Session
from windlass.store.base import Key

from .editor_session import Seat
from .mcp_servers import digest_of, with_servers

RUNTIMES_MAX = 16
"""How many choices of MCP servers one process works with."""


class AcpHost:
    """What an editor has opened. An agent has its MCP servers in all of a runtime's sessions, so sessions for which the
    editor names other servers are driven by a runtime of their own; the store is the same."""

    def __init__(self, store: str, agent: Agent, *, tenant: str = "default", trusted: bool = False) -> None:
        self.place = store
        self.agent = agent
        self.trusted = trusted
        """Whether instruction files of the folders that the editor opens are followed."""
        self.tenant = tenant
        self.client: dict[str, Any] = {}
        """What the editor said that it can do."""
        self.seats: dict[str, Seat] = {}
        self._runtimes: dict[str, Runtime] = {}
        self._agents: dict[str, Agent] = {}
        self._opening = asyncio.Lock()

    async def open(self) -> None:
        """Opens the store."""
        await self.runtime(())

    async def runtime(self, servers: tuple[McpServer, ...]) -> Runtime:
        """What drives the sessions that have these MCP servers beside the agent's own. Raises `UsageError`."""
        name = digest_of(servers)
        async with self._opening:
            if name not in self._runtimes:
                if len(self._runtimes) >= RUNTIMES_MAX:
                    told = f"sessions with {RUNTIMES_MAX} different choices of MCP servers are open"
                    raise UsageError(f"{told}: start another windlass acp")
                agent = with_servers(self.agent, servers)
                made = Runtime(self.place, agents=[agent], tenant=self.tenant, take_up=False)
                await made.start()
                self._runtimes[name], self._agents[name] = made, agent
            return self._runtimes[name]

    def agent_with(self, servers: tuple[McpServer, ...]) -> Agent:
        """The agent as that runtime has it."""
        return self._agents[digest_of(servers)]

    @property
    def plain(self) -> Runtime:
        """The runtime without servers of the editor: it looks at sessions, whoever drives them."""
        return self._runtimes[""]

    @property
    def models(self) -> tuple[str, ...]:
        """The models that there are to choose from, as they are called."""
        model = self.agent.model
        own = model if isinstance(model, str) else self.plain.bind(self.agent).info.name
        return (own,)

    @property
    def forms(self) -> bool:
        """Whether the editor can put forms before its person."""
        elicitation = self.client.get("elicitation")
        return isinstance(elicitation, dict) and isinstance(elicitation.get("form"), dict)

    async def close(self) -> None:
        """Lets the editor go and gives the sessions back."""
        for seat in list(self.seats.values()):
            await seat.stop()
        self.seats.clear()
        for runtime in self._runtimes.values():
            await runtime.close()

    async def drain(self, timeout_ms: int | None = None) -> None:
        """Has what is under way come to its end."""
        await asyncio.gather(*(runtime.drain(timeout_ms) for runtime in self._runtimes.values()))

    # --- seats ---

    def seat(self, params: dict[str, Any]) -> Seat:
        """Where the editor sits. Raises `RpcError` for a session that it has not opened."""
        name = str(params["sessionId"])
        if name not in self.seats:
            raise RpcError(INVALID_PARAMS, f"session {name!r} is not open here: load it first")
        return self.seats[name]

    async def leave(self, name: str) -> None:
        """Closes a session for the editor. One at work goes on here; one at rest is let go."""
        seat = self.seats.pop(name, None)
        if seat is None:
            return
        await seat.stop()
        if not (await seat.session.state()).active:
            await seat.session.close("closed in the editor")

    async def found(self, name: str) -> Session:
        """A session that exists. Raises `RpcError`."""
        try:
            return await self.plain.get(name)
        except NotFound as error:
            raise RpcError(INVALID_PARAMS, str(error)) from None

    def key(self, name: str) -> Key:
        """What the store knows a session by."""
        return Key(self.tenant, name)
