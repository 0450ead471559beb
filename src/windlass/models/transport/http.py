"""HTTP for the wire formats: one shared client session per event loop, five timeouts, bounded replies.

Never follows a redirect, never keeps cookies, never logs. aiohttp is imported at the first request.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import threading
import weakref
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal

from .deadlines import Alarm
from .timeouts import Timeouts

if TYPE_CHECKING:
    import aiohttp
    from yarl import URL

STREAM_BYTES_MAX = 64 * 1024 * 1024
WHOLE_BYTES_MAX = 32 * 1024 * 1024
ERROR_BYTES_MAX = 64 * 1024
PIECE_BYTES = 256 * 1024
DRAIN_S = 0.2
KEEPALIVE_S = 30.0
CONNECT_SHARE = 0.9
PROXY_VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")

Phase = Literal["headers", "first_output", "idle", "total"]


class TooMuch(Exception):
    """The reply grew past its bound."""


class BadEncoding(Exception):
    """The body is compressed in a way that was not asked for, or is not what it says."""


class Expired(Exception):
    """A timeout passed while waiting for the model. The message is the phase."""


class Watch:
    """The deadlines of one request. Moving one away is an assignment. It only ever fires into a wait for the model."""

    __slots__ = (
        "_alarm",
        "_loop",
        "_phase",
        "_reader",
        "_task",
        "_timeouts",
        "_total_due",
        "due",
        "fired",
        "waiting",
    )

    def __init__(self, alarm: Alarm, timeouts: Timeouts, headers_s: float) -> None:
        self._alarm = alarm
        self._loop = alarm.loop
        now = self._loop.time()
        self._timeouts = timeouts
        self._total_due = now + timeouts.total
        self._phase: Phase = "headers"
        self._task: asyncio.Task[Any] | None = asyncio.current_task()
        self._reader: aiohttp.StreamReader | None = None
        self.fired: Phase | None = None
        self.waiting = True
        self.due = min(now + headers_s, self._total_due)
        alarm.enter(self)

    def reading(self, reader: aiohttp.StreamReader) -> None:
        """The status is there; from now on the wait is for the body."""
        self._task = None
        self._enter("first_output", self._timeouts.first_output)
        self._reader = reader

    def content(self) -> None:
        """Real output has come."""
        self._enter("idle", self._timeouts.idle)

    def drain(self) -> None:
        """The answer is complete; only the end of the body is missing."""
        self.waiting = True
        self._enter("idle", DRAIN_S)

    def stop(self) -> None:
        self._alarm.leave(self)

    def _enter(self, phase: Phase, seconds: float) -> None:
        self._phase = phase
        before, self.due = self.due, min(self._loop.time() + seconds, self._total_due)
        if self.due < before:
            self._alarm.enter(self)

    def rung(self, now: float) -> None:
        if not self.waiting and now < self._total_due:
            self._enter(self._phase, self._timeouts.idle)  # the caller is slow, not the model
            return
        self.stop()
        self.fired = "total" if now >= self._total_due else self._phase
        if self._task is not None:
            self._task.cancel()
        elif self._reader is not None:
            self._reader.set_exception(Expired(self.fired))


class Transport:
    """The client session of one event loop, opened at its first use and closed with its last user."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.alarm = Alarm(loop)
        self.users: weakref.WeakSet[object] = weakref.WeakSet()
        self._session: aiohttp.ClientSession | None = None

    def session(self) -> aiohttp.ClientSession:
        if self._session is None or self._session.closed:
            import os

            import aiohttp

            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEPALIVE_S),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                trust_env=any(os.environ.get(name) for name in PROXY_VARIABLES),
                skip_auto_headers=("User-Agent", "Accept-Encoding", "Accept"),
            )
        return self._session

    async def close(self) -> None:
        if self._session is not None:
            session, self._session = self._session, None
            await session.close()


_transports: dict[asyncio.AbstractEventLoop, Transport] = {}
_transports_lock = threading.Lock()


def transport() -> Transport:
    """The transport of the running loop, shared by all models on it."""
    loop = asyncio.get_running_loop()
    loop_transport = _transports.get(loop)
    if loop_transport is None:
        with _transports_lock:
            loop_transport = _transports.setdefault(loop, Transport(loop))
    return loop_transport


async def join(user: object) -> aiohttp.ClientSession:
    """The client session of the running loop. Whoever comes to it first lets go those of loops that are over."""
    loop_transport = transport()
    if user not in loop_transport.users:
        loop_transport.users.add(user)
        await _close_ended()
    return loop_transport.session()


async def leave(user: object) -> None:
    """Gives the running loop's transport back; the last user to do so closes it."""
    await _close_ended()
    loop_transport = _transports.get(asyncio.get_running_loop())
    if loop_transport is not None:
        loop_transport.users.discard(user)
        if not loop_transport.users:
            await close_transport()


async def close_transport() -> None:
    """Closes the running loop's transport whoever uses it: for the one who ends the loop."""
    with _transports_lock:
        loop_transport = _transports.pop(asyncio.get_running_loop(), None)
    if loop_transport is not None:
        await loop_transport.close()


async def _close_ended() -> None:
    with _transports_lock:
        ended = [_transports.pop(loop) for loop in list(_transports) if loop.is_closed()]
    for ended_transport in ended:
        with contextlib.suppress(RuntimeError):  # what only its own loop could do is not to be had any more
            await ended_transport.close()


class Exchange:
    """One request and its streamed response: `send`, then `read` until it is empty or `finish`, always `abandon`."""

    __slots__ = ("_body_max", "_loop", "_pieces", "_timeouts", "_unpack", "received", "response", "started", "watch")

    def __init__(self, timeouts: Timeouts, body_max: int = STREAM_BYTES_MAX) -> None:
        self._timeouts = timeouts
        self._body_max = body_max
        self._loop = asyncio.get_running_loop()
        self.started = self._loop.time()
        self.received = 0
        self._unpack: Callable[[bytes], Iterator[bytes]] | None = None
        self._pieces: Iterator[bytes] | None = None
        self.response: aiohttp.ClientResponse | None = None
        self.watch: Watch | None = None

    async def send(
        self, session: aiohttp.ClientSession, url: URL, headers: Mapping[str, str], body: bytes, *, streamed: bool
    ) -> aiohttp.ClientResponse:
        """Sends the request and waits for the status and headers. Raises `Expired` or what aiohttp raises."""
        timeouts = self._timeouts
        headers_s = timeouts.headers if streamed else timeouts.headers + timeouts.first_output
        watch = self.watch = Watch(transport().alarm, timeouts, headers_s)
        connect_s = min(timeouts.connect, headers_s * CONNECT_SHARE)
        try:
            self.response = await session.post(
                url,
                data=payload(body),
                headers=headers,
                allow_redirects=False,
                timeout=connecting(connect_s),
            )
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if watch.fired is None or (task is not None and task.uncancel() > 0):
                raise
            raise Expired(watch.fired) from None
        watch.reading(self.response.content)
        self._unpack = unpacker(self.response.headers.get("Content-Encoding"))
        return self.response

    async def read(self) -> bytes:
        """The next piece of the body, unpacked and bounded; empty at its end. Raises `Expired`, `TooMuch`,
        `BadEncoding` or what aiohttp raises."""
        assert self.response is not None
        assert self.watch is not None
        while True:
            if self._pieces is not None:
                piece = next(self._pieces, None)
                if piece is not None:
                    self.count(len(piece))
                    return piece
            self.watch.waiting = True
            chunk = await self.response.content.readany()
            self.watch.waiting = False
            if self._unpack is None or not chunk:
                self.count(len(chunk))
                return chunk
            self._pieces = self._unpack(chunk)

    def count(self, size: int) -> None:
        self.received += size
        if self.received > self._body_max:
            raise TooMuch(f"the reply is larger than {self._body_max} bytes")

    async def whole(self, limit: int | None = None) -> bytes:
        """The whole body, or its beginning where `limit` says so."""
        self._body_max = WHOLE_BYTES_MAX if limit is None else limit
        parts: list[bytes] = []
        try:
            while chunk := await self.read():
                parts.append(chunk)
        except TooMuch:
            if limit is None:
                raise
        return b"".join(parts)

    async def finish(self) -> None:
        """After the end marker: reads the little that is left, so that the connection can serve again."""
        assert self.response is not None
        assert self.watch is not None
        reader = self.response.content
        if reader.at_eof():
            return
        self.watch.drain()
        try:
            while not reader.at_eof():
                self.count(len(await reader.readany()))
        except Exception:
            self.response.close()  # the answer is complete; only the connection is not worth keeping

    def abandon(self) -> None:
        """Ends the exchange at any point. A connection whose body was not read to its end is closed, not reused."""
        if self.watch is not None:
            self.watch.stop()
        if self.response is not None:
            if self.response.content.at_eof():
                self.response.release()
            else:
                self.response.close()

    def elapsed_ms(self) -> int:
        return int((self._loop.time() - self.started) * 1000)


@functools.lru_cache(maxsize=64)
def connecting(seconds: float) -> aiohttp.ClientTimeout:
    """How long a connection may take; all other time is watched over here."""
    import aiohttp

    return aiohttp.ClientTimeout(total=None, connect=seconds)


def payload(body: bytes) -> Any:
    """A body that is written in slices, so that a large history neither blocks the loop nor is copied again."""
    if len(body) <= PIECE_BYTES:
        return body
    return sliced()(body, content_type="application/json")


_sliced: list[Any] = []


def sliced() -> Any:
    """The payload class, made at first use because its base lives in aiohttp."""
    if not _sliced:
        from aiohttp.payload import Payload

        class Sliced(Payload):
            """Bytes written piece by piece."""

            @property
            def size(self) -> int:
                return len(self._value)

            def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
                return str(self._value, encoding, errors)

            async def write(self, writer: Any) -> None:
                view = memoryview(self._value)
                for at in range(0, len(view), PIECE_BYTES):
                    await writer.write(bytes(view[at : at + PIECE_BYTES]))

            async def write_with_length(self, writer: Any, content_length: int | None) -> None:
                await self.write(writer)

        _sliced.append(Sliced)
    return _sliced[0]


def unpacker(encoding: str | None) -> Callable[[bytes], Iterator[bytes]] | None:
    """A function that unpacks chunks piece by piece, so that a small body cannot unfold into a huge one at once."""
    if encoding is None or encoding.strip().lower() in ("", "identity"):
        return None
    name = encoding.strip().lower()
    if name not in ("gzip", "x-gzip", "deflate"):
        raise BadEncoding(f"content-encoding {name!r} was not asked for")
    machine = zlib.decompressobj(zlib.MAX_WBITS | 32)

    def unpack(chunk: bytes) -> Iterator[bytes]:
        data = chunk
        while data and not machine.eof:
            try:
                piece = machine.decompress(data, PIECE_BYTES)
            except zlib.error as error:
                raise BadEncoding(f"the {name} body is damaged: {error}") from None
            data = machine.unconsumed_tail
            if piece:
                yield piece

    return unpack
