"""The server: opened over a store, it answers until it is asked to stop, brings to an end what has begun, and closes.

It handles no signals itself: whoever runs it does.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import time
from collections.abc import Callable, Iterator, Sequence

import uvicorn
from starlette.types import ASGIApp

from windlass.runtime.api.agent import Agent
from windlass.runtime.streams.log_follower import FollowerMaker
from windlass.store.base import Durability, Key

from .access.gate import LOOPBACK, Gate
from .access.limits import Limits
from .access.token_file import TokenFile
from .app import App
from .connection import connection_kind
from .listener import listen_on_address, listen_on_path
from .mount import Mount, check_agents, joined
from .resources.route_list import ROUTES
from .route import Routes
from .server_state import ServerState
from .tenants import Tenants

CLOSE_S = 5
"""How long answers may take that are under way when the server stops."""


TICK_S = 1.0
"""How often uvicorn looks at the clock."""


class _Uvicorn(uvicorn.Server):
    """Uvicorn without signal handlers of its own, and told when to stop instead of looking."""

    stopped: asyncio.Event

    async def main_loop(self) -> None:
        while not self.stopped.is_set():
            await self.on_tick(0)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(TICK_S):
                    await self.stopped.wait()

    def leave_address(self) -> None:
        """Takes no more connections: they wait for whoever listens at the same socket next."""
        for server in getattr(self, "servers", ()):
            server.close()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class HttpServer:
    """Serves the sessions of one store."""

    def __init__(
        self,
        place: str,
        agents: Sequence[Agent],
        tokens: TokenFile,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        socket_path: str | None = None,
        listening: socket.socket | None = None,
        names: Sequence[str] = (),
        origins: Sequence[str] = (),
        limits: Limits | None = None,
        drain_ms: int = 10_000,
        durability: Durability = "full",
        tenant: str = "default",
        mounts: Sequence[Mount] = (),
        telemetry: FollowerMaker | None = None,
        app_of: Callable[[ServerState, Gate], ASGIApp] | None = None,
    ) -> None:
        """`listening` is a socket that listens at that place already: whoever gave it keeps the place when this closes.
        `names` are further host names under which it may be asked, `origins` pages that may ask from a browser.
        `mounts` are what adapters add, `telemetry` follows the sessions, `app_of` makes what answers, if that is not
        the resources of this package."""
        limits = limits or Limits()
        self._place = (host, port, socket_path)
        self._tenant = tenant
        self._given = listening
        self._socket: socket.socket | None = None
        self.tokens = tokens
        self.tenants = Tenants(place, agents, drain_ms=drain_ms, durability=durability, telemetry=telemetry)
        check_agents(mounts, self.tenants.agents)
        self.state = ServerState(self.tenants, tokens, limits)
        known = (*LOOPBACK, *names) if socket_path is not None or host in LOOPBACK else (host, *names)
        self.state.mounts = tuple(mounts)
        gate = Gate(self.state, known, origins)
        app = app_of(self.state, gate) if app_of is not None else App(self.state, gate, Routes(joined(ROUTES, mounts)))
        self._server = _Uvicorn(
            uvicorn.Config(
                app,
                http=connection_kind(limits.head_s, limits.stall_s),
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                proxy_headers=False,
                server_header=False,
                limit_concurrency=limits.connections,
                timeout_keep_alive=30,
                timeout_graceful_shutdown=CLOSE_S,
            )
        )

        self._server.stopped = self.state.stopped

    @property
    def url(self) -> str:
        """Where it listens."""
        assert self._socket is not None, "it does not listen yet"
        host, _, path = self._place
        if path is not None:
            return f"unix:{path}"
        shown = f"[{host}]" if ":" in host else host
        return f"http://{shown}:{self._socket.getsockname()[1]}"

    @property
    def connections(self) -> int:
        """How many are open."""
        return len(self._server.server_state.connections)

    async def open(self) -> None:
        """Opens the store, resumes what its sessions are owed, and listens. Raises `UsageError`."""
        host, port, path = self._place
        self.tokens.ensure_first(tenant=self._tenant, now_ms=time.time_ns() // 1_000_000)
        for tenant in dict.fromkeys((self._tenant, *(token.tenant for token in self.tokens.tokens()))):
            await self.tenants.runtime(tenant)
        if self._given is not None:
            self._socket = self._given
        else:
            self._socket = listen_on_path(path) if path is not None else listen_on_address(host, port)

    async def run(self) -> None:
        """Answers until `stop` is called."""
        assert self._socket is not None, "open it first"
        await self._server.serve(sockets=[self._socket])

    async def drain(self) -> tuple[Key, ...]:
        """Takes nothing more on, and waits for what has begun. Gives the sessions that were still at work: they are
        resumed when the store is opened again."""
        self.state.draining = True
        if self._given is not None:
            self._server.leave_address()
        return await self.tenants.drain()

    def stop(self) -> None:
        """Has streams end and `run` return."""
        self.state.draining = True
        self.state.stopped.set()
        self._server.should_exit = True

    async def close(self) -> None:
        """Closes everything. Safe twice."""
        self.stop()
        if self._socket is not None:
            self._socket.close()
        await self.tenants.close()
        await self.state.door.close()
        if self._place[2] is not None and self._socket is not None and self._given is None:
            with contextlib.suppress(OSError):
                os.unlink(self._place[2])
