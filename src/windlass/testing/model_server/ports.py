"""Ports beside the server's own: one that refuses connections, and another host that a redirect leads to."""

from __future__ import annotations

import socket

import msgspec
from aiohttp import web

CREDENTIAL_HEADERS = ("authorization", "x-api-key", "api-key", "x-goog-api-key", "cookie", "proxy-authorization")
LOOPBACK = "127.0.0.1"


def closed_port(host: str = LOOPBACK) -> int:
    """A port that refuses connections: bound for a moment, then closed."""
    with socket.socket() as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


class Visit(msgspec.Struct, frozen=True, kw_only=True):
    """A request that reached the other host. `credentials` names what it should never have carried."""

    path: str
    headers: dict[str, str]
    raw: bytes
    credentials: tuple[str, ...]


class Elsewhere:
    """Another host, as far as a client can tell: answers anything, and remembers which credentials came along."""

    def __init__(self, host: str = LOOPBACK) -> None:
        self.host = host
        self.port = 0
        self.visits: list[Visit] = []
        self._runner: web.AppRunner | None = None

    @property
    def root(self) -> str:
        return f"http://{self.host}:{self.port}"

    @property
    def credentials(self) -> tuple[str, ...]:
        """Every credential that any visit carried."""
        return tuple(name for visit in self.visits for name in visit.credentials)

    async def start(self) -> None:
        runner = web.AppRunner(app_of(self._visited), access_log=None)
        self._runner, self.port = runner, await listening(runner, self.host, 0)

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def _visited(self, request: web.Request) -> web.StreamResponse:
        names = [name for name in CREDENTIAL_HEADERS if name in request.headers]
        names += ["key"] if "key" in request.query else []
        headers = {name.lower(): value for name, value in request.headers.items()}
        raw = await request.read()
        self.visits.append(Visit(path=request.path_qs, headers=headers, raw=raw, credentials=tuple(names)))
        return web.json_response({"elsewhere": True})


def app_of(handler: object, limit: int = 1 << 26) -> web.Application:
    app = web.Application(client_max_size=limit)
    app.router.add_route("*", "/{path:.*}", handler)  # type: ignore[arg-type]
    return app


async def listening(runner: web.AppRunner, host: str, port: int) -> int:
    """Starts a runner on a port (0: any) and says which one it is."""
    await runner.setup()
    site = web.TCPSite(runner, host, port, backlog=1024)
    await site.start()
    return int(runner.addresses[0][1])
