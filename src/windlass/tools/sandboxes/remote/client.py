"""The runtime's side of a remote worker: a kind of sandbox whose processes and files are on another machine."""

from __future__ import annotations

import asyncio
import contextlib
import io
import uuid
from typing import Any

import aiohttp
import msgspec

from windlass.events.errors import UsageError
from windlass.tools.context import ToolError
from windlass.tools.sandboxes.sandbox import (
    FILE_BYTES_MAX,
    Capabilities,
    Heard,
    Process,
    ProcessResult,
    SecretsByName,
)

from .wire import (
    ATTACH_HEADER,
    BEAT_S,
    BOOT_HEADER,
    LINE_BYTES_MAX,
    PREFIX,
    SILENCE_S,
    TOKEN_CHARS_MIN,
    Ended,
    Opened,
    Opening,
    Refusal,
    Wrote,
    read_line,
)

CONNECT_S = 10.0
ANSWER_S = 60.0
"""How long anything but a process may take."""
CANCEL_S = 10.0
"""How long the end of a process that was given up is waited for."""
ATTEMPTS = 4
SILENCE_LEAST_S = 3 * BEAT_S
PAUSE_S = 0.2
"""Before the second attempt; each further one waits twice as long."""
ANSWER_BYTES_MAX = FILE_BYTES_MAX + 1024 * 1024
NETWORK = (aiohttp.ClientError, OSError, asyncio.TimeoutError)


class Gone(Exception):
    """The worker does not have this sandbox: it was started anew, or closed it."""


class Asked:
    """A process that was asked for, or is about to be."""

    def __init__(self, url: str, body: bytes) -> None:
        self.url = url
        self.body = body
        self.heard_at = asyncio.get_running_loop().time()
        """When the worker last said anything about it; when it was asked for, as long as it has not."""
        self.sent = False
        """Whether the worker may know of it."""
        self.began = False
        """Whether the worker said that it does: it is only looked for then."""


class RemoteSandboxes:
    """Gives each session a sandbox of a worker, over `folder` beneath the worker's root, or over a folder of its own
    beneath that one. The folders of this machine mean nothing there."""

    def __init__(
        self,
        url: str,
        token: str,
        *,
        folder: str = ".",
        own_folders: bool = False,
        secrets: SecretsByName | None = None,
        silence_s: float = SILENCE_S,
    ) -> None:
        if silence_s < SILENCE_LEAST_S:
            raise UsageError(
                f"silence_s={silence_s:g}: a worker says every {BEAT_S:g} s that it is there, so give at "
                f"least {SILENCE_LEAST_S:g}"
            )
        if not url.startswith(("http://", "https://")):
            raise UsageError(f"the address of a worker {url!r} must begin with http:// or https://")
        if len(token) < TOKEN_CHARS_MIN or not token.isascii() or not token.isprintable():
            raise UsageError(
                f"the token of a worker is at least {TOKEN_CHARS_MIN} plain characters, as its file has them"
            )
        self.url = url.rstrip("/")
        self.token = token
        self.folder = folder
        self.own_folders = own_folders
        self.secrets = secrets
        self.silence_s = silence_s
        """After so long without a word a worker counts as lost, however often it was asked meanwhile."""

    async def open(self, session: str, folder: str | None) -> RemoteSandbox:
        """A session's sandbox. The worker is asked for it with the first use."""
        return RemoteSandbox(self, session)


class RemoteSandbox:
    """One session's sandbox on another machine."""

    def __init__(self, kind: RemoteSandboxes, session: str) -> None:
        self._kind = kind
        self._opening = Opening(session=session, folder=kind.folder, own=kind.own_folders)
        self._place = f"{kind.url}{PREFIX}/sandboxes/{uuid.uuid4().hex}"
        self._http: aiohttp.ClientSession | None = None
        self._boot: str | None = None
        self._lock = asyncio.Lock()
        self._running: set[asyncio.Task[Any]] = set()
        self._closed = False

    async def capabilities(self) -> Capabilities:
        """What the worker's sandbox holds its processes to. Its processes end with the runtime: there are no jobs."""
        capabilities = msgspec.json.decode(await self._answer("GET", "/capabilities"), type=Capabilities)
        return msgspec.structs.replace(capabilities, name=f"remote-{capabilities.name}", jobs=False)

    async def run(self, process: Process, heard: Heard | None = None) -> ProcessResult:
        """Runs a process there, to its end. If the connection breaks, the process is looked for again, and never
        started a second time. Cancelled, or without this process, it is ended there."""
        task = asyncio.ensure_future(self._run(self._with_secrets(process), heard))
        self._running.add(task)
        try:
            return await task
        finally:
            self._running.discard(task)

    async def read(self, path: str) -> bytes:
        """A regular file, whole."""
        return await self._answer("GET", "/file", params={"path": path})

    async def write(self, path: str, data: bytes) -> None:
        """Puts a file there, at once or not at all."""
        if len(data) > FILE_BYTES_MAX:
            raise ToolError(f"{path!r} would be larger than {FILE_BYTES_MAX:,} bytes", code="too_large")
        await self._answer("PUT", "/file", params={"path": path}, data=data)

    async def list(self, path: str = ".") -> tuple[str, ...]:
        """The names in a directory."""
        return msgspec.json.decode(await self._answer("GET", "/list", params={"path": path}), type=tuple[str, ...])

    async def close(self) -> None:
        """Ends what still runs there and gives the sandbox back. Safe twice; a worker that cannot be reached ends what
        nobody watches by itself."""
        self._closed = True
        for task in tuple(self._running):
            task.cancel()
        if self._running:
            await asyncio.wait(tuple(self._running))
        if self._http is not None:
            http, self._http = self._http, None
            with contextlib.suppress(*NETWORK):
                await http.delete(self._place, headers=self._headers(), timeout=_within(CANCEL_S))
            await http.close()

    # --- requests ---

    def _with_secrets(self, process: Process) -> Process:
        """Secrets are looked up here, and are in the environment of the process only."""
        if not process.secrets:
            return process
        lookup = self._kind.secrets
        if lookup is None:
            raise ToolError("there is nobody here who knows the secrets of this process", code="no_secret")
        known = {name: lookup(secret) for name, secret in process.secrets.items()}
        return msgspec.structs.replace(process, env={**process.env, **known}, secrets={})

    def _headers(self) -> dict[str, str]:
        boot = {BOOT_HEADER: self._boot} if self._boot is not None else {}
        return {"authorization": f"Bearer {self._kind.token}", **boot}

    async def _opened(self) -> aiohttp.ClientSession:
        """The connection, with the sandbox open at its other end."""
        async with self._lock:
            if self._closed:
                raise UsageError("this sandbox was closed")
            if self._http is None:
                self._http = aiohttp.ClientSession(read_bufsize=LINE_BYTES_MAX, auto_decompress=False)
            if self._boot is None:
                body = msgspec.json.encode(self._opening)
                async with self._http.put(
                    self._place, data=body, headers=self._headers(), timeout=self._patience(), allow_redirects=False
                ) as response:
                    answer = await _body(response)
                    await _check(response, answer)
                    self._boot = msgspec.json.decode(answer, type=Opened).boot
            return self._http

    async def _answer(
        self, method: str, path: str, *, params: dict[str, str] | None = None, data: bytes | None = None
    ) -> bytes:
        """What the worker answers to a request that may be sent again. Raises `ToolError`."""
        loop = asyncio.get_running_loop()
        until = loop.time() + self._kind.silence_s
        for attempt in range(ATTEMPTS):
            try:
                http = await self._opened()
                async with http.request(
                    method,
                    self._place + path,
                    headers=self._headers(),
                    timeout=self._patience(),
                    allow_redirects=False,
                    params=params,
                    data=io.BytesIO(data) if data is not None else None,
                ) as response:
                    answer = await _body(response)
                    await _check(response, answer)
                    return answer
            except Gone:
                self._boot = None
            except NETWORK as error:
                if attempt == ATTEMPTS - 1 or loop.time() >= until:
                    raise self._unreachable(error) from None
                await asyncio.sleep(PAUSE_S * 2**attempt)
            except msgspec.DecodeError as error:
                raise self._unreachable(error) from None
        raise self._unreachable(Gone("it closes this sandbox again and again"))

    def _patience(self) -> aiohttp.ClientTimeout:
        """How long anything but a process may take, and how long the worker may be silent meanwhile."""
        connect_s = min(CONNECT_S, self._kind.silence_s)
        return aiohttp.ClientTimeout(total=ANSWER_S, sock_connect=connect_s, sock_read=self._kind.silence_s)

    def _unreachable(self, error: Exception) -> ToolError:
        told = f"the worker at {self._kind.url} cannot be reached ({type(error).__name__})"
        return ToolError(told, code="worker_unreachable", hint="nothing was run there" if self._boot is None else None)

    # --- processes ---

    async def _run(self, process: Process, heard: Heard | None) -> ProcessResult:
        asked = Asked(f"{self._place}/runs/{uuid.uuid4().hex}", msgspec.json.encode(process))
        failures = 0
        while True:
            try:
                http = await self._opened()
                return _result(await self._followed(http, asked, heard))
            except asyncio.CancelledError:
                if asked.sent:
                    await self._end(asked.url)
                raise
            except Gone:
                if asked.sent:
                    raise _lost() from None  # it may have begun in another life of the worker
                self._boot = None
            except (*NETWORK, msgspec.DecodeError) as error:
                failures += 1
                if failures >= ATTEMPTS or self._left_s(asked) <= 0:
                    raise (_lost() if asked.sent else self._unreachable(error)) from None
                await asyncio.sleep(PAUSE_S * 2 ** (failures - 1))

    async def _followed(self, http: aiohttp.ClientSession, asked: Asked, heard: Heard | None) -> Ended:
        """Starts the process, or finds it again, and hears what becomes of it."""
        headers = {**self._headers(), **({ATTACH_HEADER: "yes"} if asked.began else {})}
        # Half of what is left: a connection that broke unseen is tried anew before the worker counts as lost.
        read_s = max(self._left_s(asked) / 2, 0.1) if asked.began else self._kind.silence_s
        patience = aiohttp.ClientTimeout(total=None, sock_connect=min(CONNECT_S, read_s), sock_read=read_s)
        before, asked.sent = asked.sent, True
        try:
            request = http.post(
                asked.url, data=io.BytesIO(asked.body), headers=headers, timeout=patience, allow_redirects=False
            )
            async with request as response:
                if response.status != 200:
                    asked.sent = before  # it was refused
                    await _check(response, await _body(response))
                asked.began = True
                async for data in response.content:
                    told = read_line(data)
                    asked.heard_at = asyncio.get_running_loop().time()
                    if isinstance(told, Ended):
                        return told
                    if isinstance(told, Wrote) and heard is not None:
                        heard(told.stream, told.data)
        except aiohttp.ClientConnectorError:
            asked.sent = before  # nothing has left this machine
            raise
        raise aiohttp.ClientPayloadError("the answer ended before the process did")

    def _left_s(self, asked: Asked) -> float:
        """How long the worker may still say nothing."""
        return asked.heard_at + self._kind.silence_s - asyncio.get_running_loop().time()

    async def _end(self, run: str) -> None:
        """Has a process ended, and waits until it is. If the worker cannot be told, it sees by itself that nobody
        watches."""
        http = self._http
        if http is None:
            return
        telling = asyncio.ensure_future(self._tell_end(http, run))
        await asyncio.wait([telling], timeout=CANCEL_S)
        telling.cancel()

    async def _tell_end(self, http: aiohttp.ClientSession, run: str) -> None:
        with contextlib.suppress(*NETWORK):
            async with http.delete(run, headers=self._headers(), timeout=_within(CANCEL_S)) as response:
                await response.read()


def _within(seconds: float) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(total=seconds, sock_connect=CONNECT_S)


async def _body(response: aiohttp.ClientResponse) -> bytes:
    """All of an answer, within a bound."""
    body = bytearray()
    async for piece in response.content.iter_any():
        body += piece
        if len(body) > ANSWER_BYTES_MAX:
            raise ToolError("the worker's answer is too large", code="too_large")
    return bytes(body)


async def _check(response: aiohttp.ClientResponse, answer: bytes) -> None:
    """Raises what a refusal means."""
    if response.status == 200:
        return
    try:
        refusal = msgspec.json.decode(answer, type=Refusal)
    except msgspec.DecodeError:
        refusal = Refusal(message=f"the worker answered with status {response.status}", code="worker_failed")
    if response.status == 410:
        raise Gone(refusal.message)
    if refusal.code == "lost":
        raise _lost()
    if response.status == 401:
        raise ToolError("the worker does not know this token", code="unauthorised", for_model=True)
    raise ToolError(refusal.message, code=refusal.code, hint=refusal.hint)


def _result(ended: Ended) -> ProcessResult:
    if ended.result is not None:
        return ended.result
    refusal = ended.refusal or Refusal(message="the worker says nothing of the end of the process")
    raise ToolError(refusal.message, code=refusal.code, hint=refusal.hint)


def _lost() -> ToolError:
    told = "the worker lost the process while it ran; it was ended, and may have had effects"
    return ToolError(told, code="worker_lost")
