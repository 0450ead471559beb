"""The remote worker: offers sandboxes beneath one directory of this machine over HTTP. Every request needs the token,
names this host, and comes from no browser; sizes and numbers are bounded, and what nobody watches any more is ended."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import os
import secrets
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import msgspec
from aiohttp import web

from windlass.events.errors import UsageError
from windlass.tools.context import ToolError
from windlass.tools.files.root import Root
from windlass.tools.sandboxes.sandbox import Process, Sandbox, SandboxKind

from .remote_runs import Refused, Run, Runs
from .wire import (
    ATTACH_HEADER,
    BEAT_S,
    BODY_BYTES_MAX,
    BOOT_HEADER,
    PREFIX,
    SILENCE_S,
    TOKEN_CHARS_MIN,
    Ended,
    Opened,
    Opening,
    Refusal,
    line,
)

LOOPBACK = ("127.0.0.1", "localhost", "::1")
SANDBOXES_MAX = 256
IDLE_S = 3_600.0
"""How long a sandbox stays open that nobody uses: whoever opened it was killed."""
SHUTDOWN_S = 2.0
NAME_CHARS_MAX = 128
OWN = "sessions"
"""Beneath this folder are those of sessions that get one of their own."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Held:
    """A sandbox that somebody opened."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox
        self.runs = Runs()
        self.requests = 0
        self.used = asyncio.get_running_loop().time()

    async def close(self) -> None:
        await self.runs.close()
        await self.sandbox.close()


class WorkerServer:
    """A worker on one address. `token` is what every request must know."""

    def __init__(
        self,
        root: str | os.PathLike[str],
        token: str,
        kind: SandboxKind,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        names: Sequence[str] = (),
    ) -> None:
        if len(token) < TOKEN_CHARS_MIN:
            raise UsageError(f"the token has {len(token)} characters: give it at least {TOKEN_CHARS_MIN}")
        self._root = Root(root)
        self._token = token.encode()
        self._kind = kind
        self._host = host
        self._names = {name.lower() for name in (*LOOPBACK, host, *names)}
        self._boot = secrets.token_hex(8)
        self._held: dict[str, Held] = {}
        self._lock = asyncio.Lock()
        self._runner: web.AppRunner | None = None
        self._sweep: asyncio.Task[None] | None = None
        self.port = port

    @property
    def url(self) -> str:
        """Where it is reached."""
        name = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{name}:{self.port}"

    async def start(self) -> None:
        """Listens. Raises `UsageError` if the address cannot be had."""
        app = web.Application(client_max_size=BODY_BYTES_MAX, middlewares=[self._checked])
        box = PREFIX + "/sandboxes/{handle}"
        app.add_routes(
            [
                web.get(PREFIX + "/health", self._health),
                web.put(box, self._open),
                web.delete(box, self._close),
                web.get(box + "/capabilities", self._capabilities),
                web.post(box + "/runs/{run}", self._run),
                web.delete(box + "/runs/{run}", self._cancel),
                web.get(box + "/file", self._read),
                web.put(box + "/file", self._write),
                web.get(box + "/list", self._list),
            ]
        )
        self._runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=SHUTDOWN_S)
        await self._runner.setup()
        site = web.TCPSite(self._runner, self._host, self.port)
        try:
            await site.start()
        except OSError as error:
            await self._runner.cleanup()
            raise UsageError(f"{self._host}:{self.port} cannot be listened on: {error.strerror or error}") from None
        self.port = self._runner.addresses[0][1]
        self._sweep = asyncio.get_running_loop().create_task(self._forget_idle())

    async def close(self) -> None:
        """Ends every process, then stops to listen. Safe twice."""
        if self._sweep is not None:
            self._sweep.cancel()
            await asyncio.wait([self._sweep])
        for handle in tuple(self._held):
            await self._held.pop(handle).close()
        if self._runner is not None:
            await self._runner.cleanup()
        self._root.close()

    # --- who may ask ---

    @web.middleware
    async def _checked(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Refuses whoever does not know the token, means another host, or is a page in a browser."""
        if _host_of(request) not in self._names or "origin" in request.headers:
            return _refused(403, "forbidden", "this worker is not asked under that name, nor by pages of a browser")
        kind, _, given = request.headers.get("authorization", "").partition(" ")
        known = hmac.compare_digest(given.strip().encode("utf-8", "replace"), self._token)
        if kind.lower() != "bearer" or not known:
            return _refused(401, "unauthorised", "the token is missing or wrong")
        try:
            return await handler(request)
        except Refused as error:
            return web.json_response(msgspec.to_builtins(error.refusal), status=error.status)
        except ToolError as error:
            return _refused(422, error.code or "failed", error.message, error.hint)
        except UsageError as error:
            return _refused(400, "usage", str(error))
        except msgspec.DecodeError as error:
            return _refused(400, "malformed", f"the request is not what is expected: {error}")
        except web.HTTPException as error:
            return _refused(error.status, "http", error.reason)
        except Exception as error:
            return _refused(500, "worker_failed", f"the worker failed ({type(error).__name__})")

    # --- sandboxes ---

    async def _health(self, request: web.Request) -> web.Response:
        return web.json_response({"boot": self._boot})

    async def _open(self, request: web.Request) -> web.Response:
        handle = _name(request, "handle")
        wanted = msgspec.json.decode(await request.read(), type=Opening)
        async with self._lock:
            if handle not in self._held:
                if len(self._held) >= SANDBOXES_MAX:
                    raise Refused(429, Refusal(message=f"{SANDBOXES_MAX} sandboxes are open", code="busy"))
                folder = await asyncio.to_thread(self._folder, wanted)
                self._held[handle] = Held(await self._kind.open(wanted.session, folder))
        return web.json_response(msgspec.to_builtins(Opened(boot=self._boot)))

    def _folder(self, wanted: Opening) -> str:
        """The folder of a sandbox: beneath the root, whatever is asked for."""
        with self._root.folder(wanted.folder) as fd:
            folder = os.readlink(f"/proc/self/fd/{fd}") if os.path.isdir("/proc/self/fd") else self._root.path
            if not wanted.own:
                return folder
            name = hashlib.sha256(wanted.session.encode()).hexdigest()[:32]
            with contextlib.suppress(FileExistsError):
                os.mkdir(OWN, 0o700, dir_fd=fd)
            inner = os.open(OWN, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=fd)
            try:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(name, 0o700, dir_fd=inner)
            finally:
                os.close(inner)
            return os.path.join(folder, OWN, name)

    async def _close(self, request: web.Request) -> web.Response:
        held = self._held.pop(_name(request, "handle"), None)
        if held is not None:
            await held.close()
        return web.json_response({})

    @contextlib.asynccontextmanager
    async def _using(self, request: web.Request) -> AsyncIterator[Held]:
        held = self._held.get(_name(request, "handle"))
        if held is None or request.headers.get(BOOT_HEADER, self._boot) != self._boot:
            raise Refused(410, Refusal(message="this sandbox is not open here", code="not_open"))
        held.requests += 1
        try:
            yield held
        finally:
            held.requests -= 1
            held.used = asyncio.get_running_loop().time()

    async def _forget_idle(self) -> None:
        while True:
            await asyncio.sleep(IDLE_S / 60)
            before = asyncio.get_running_loop().time() - IDLE_S
            for handle, held in tuple(self._held.items()):
                if not held.requests and held.used < before:
                    del self._held[handle]
                    await held.close()

    async def _capabilities(self, request: web.Request) -> web.Response:
        async with self._using(request) as held:
            return web.json_response(msgspec.to_builtins(await held.sandbox.capabilities()))

    # --- processes ---

    async def _run(self, request: web.Request) -> web.StreamResponse:
        async with self._using(request) as held:
            process = msgspec.json.decode(await request.read(), type=Process)
            sandbox: Any = held.sandbox
            attach = request.headers.get(ATTACH_HEADER) == "yes"
            run = held.runs.started(_name(request, "run"), process, sandbox.run, attach=attach)
            return await self._watched(request, run)

    async def _watched(self, request: web.Request, run: Run) -> web.StreamResponse:
        """Tells what becomes of a run. Whoever is cut off leaves it."""
        _bound_silence(request)
        watcher = run.watch()
        try:
            response = web.StreamResponse(headers={"content-type": "application/x-ndjson"})
            await response.prepare(request)
            while True:
                told = await watcher.next(BEAT_S)
                await response.write(line(told))
                if isinstance(told, Ended):
                    await response.write_eof()
                    return response
        finally:
            run.leave(watcher)

    async def _cancel(self, request: web.Request) -> web.Response:
        async with self._using(request) as held:
            await held.runs.cancel(_name(request, "run"))
            return web.json_response({})

    # --- files ---

    async def _read(self, request: web.Request) -> web.Response:
        async with self._using(request) as held:
            data = await held.sandbox.read(_path(request))
            return web.Response(body=data, content_type="application/octet-stream")

    async def _write(self, request: web.Request) -> web.Response:
        async with self._using(request) as held:
            await held.sandbox.write(_path(request), await request.read())
            return web.json_response({})

    async def _list(self, request: web.Request) -> web.Response:
        async with self._using(request) as held:
            return web.json_response(await held.sandbox.list(_path(request)))


def _host_of(request: web.Request) -> str:
    """The name that a request means, without its port."""
    given = request.headers.get("host", "").strip().lower()
    if given.startswith("["):
        return given[1:].partition("]")[0]
    return given.rpartition(":")[0] if given.count(":") == 1 else given


def _name(request: web.Request, what: str) -> str:
    name = request.match_info[what]
    if not name or len(name) > NAME_CHARS_MAX or not name.isascii() or not name.replace("-", "").isalnum():
        raise UsageError(f"a {what} is named by letters, digits and '-', at most {NAME_CHARS_MAX} of them")
    return name


def _path(request: web.Request) -> str:
    return request.query.get("path", ".")


def _refused(status: int, code: str, message: str, hint: str | None = None) -> web.Response:
    return web.json_response(msgspec.to_builtins(Refusal(message=message, code=code, hint=hint)), status=status)


def _bound_silence(request: web.Request) -> None:
    """Has the system break a connection whose other end does not take what is sent: a machine that lost its power says
    nothing more, and its processes must not go on for ever."""
    sock = request.transport.get_extra_info("socket") if request.transport is not None else None
    option = getattr(socket, "TCP_USER_TIMEOUT", None)
    if sock is not None and option is not None and sock.family in (socket.AF_INET, socket.AF_INET6):
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.IPPROTO_TCP, option, int(SILENCE_S * 1000))
