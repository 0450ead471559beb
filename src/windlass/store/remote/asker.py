"""Asks a server: one connection pool, a token for each tenant, questions that are asked again while nobody answers."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import io
import logging
import time
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote, urlsplit

import msgspec

from windlass.events import known_types
from windlass.events.errors import StoreError, UsageError
from windlass.store.rules.ids import check_id

from .questions import Append, Question
from .typed_problems import error_of

if TYPE_CHECKING:
    import aiohttp

LOG = logging.getLogger("windlass.store.server")
T = TypeVar("T")
PATIENCE_S = 30.0
"""How long a server that does not answer is asked again."""
TOLD_AFTER = 4
"""After how many tries it is said that nobody answers: most pauses are over before."""
ANSWER_S = 120.0
CONNECT_S = 10.0
SILENCE_S = 60.0
"""How long a stream may say nothing, its heartbeats included, before it is opened again."""
WAIT_S = (0.05, 0.1, 0.2, 0.5, 1.0)
AWAY = (502, 503, 504)
BUSY = 429
AT_ONCE = 32
"""How many questions are on their way at a time."""
OK = (200, 201, 202, 204)
ANSWER_BYTES_MAX = 64 * 1024 * 1024
CHUNK_BYTES = 64 * 1024


class Place:
    """Where a server is: `http://…`, `https://…` or `unix:PATH`."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        self.socket = ""
        if self.url.startswith("unix:"):
            self.socket = self.url.removeprefix("unix:").removeprefix("//")
            self.base = "http://localhost"
        else:
            self.base = self.url
        parts = urlsplit(self.base)
        named = bool(self.socket) if self.url.startswith("unix:") else bool(parts.hostname)
        if parts.scheme not in ("http", "https") or not named or parts.query or parts.fragment:
            raise UsageError(f"{url!r} is no address of a server: write http://HOST:PORT, https://HOST or unix:PATH")
        if parts.username or parts.password:
            raise UsageError("a token is not written into the address: give it as token=..., or in WINDLASS_TOKEN")


class Asker:
    """Everything that is asked of one server."""

    def __init__(self, place: Place, tokens: Mapping[str, str]) -> None:
        self.place = place
        self._tokens = tokens
        """By tenant, as it is called here."""
        self._http: aiohttp.ClientSession | None = None
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._closed = False

    async def ask(self, tenant: str, question: Question, kind: Any = None) -> Any:
        """The answer to a question. Raises what the store would; `StoreError` if nobody answers in time."""
        body = msgspec.json.encode(question)
        # An append whose answer is lost may have been kept: asked again it would be refused, and that be believed.
        data = await self.request("POST", "/v1/store", tenant, body, again=not isinstance(question, Append))
        return self.read(data, _decoder(kind)).value

    def read(self, data: bytes, decoder: msgspec.json.Decoder[T]) -> T:
        """An answer as it is meant. Raises `StoreError` for one that whatever answers there has made up."""
        try:
            return decoder.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise StoreError(f"{self.place.url}: its answer cannot be read: {error}") from error

    async def request(
        self, method: str, path: str, tenant: str, body: bytes | None = None, *, again: bool = True
    ) -> bytes:
        """The bytes of an answer. What may be asked twice is asked again as long as nobody answers, for a while."""
        until = time.monotonic() + PATIENCE_S
        tries = status = 0
        while True:
            try:
                async with self._turns:
                    status, data = await self._once(method, path, tenant, body)
            except (OSError, TimeoutError) as error:
                status = 0
                why: Exception = StoreError(f"no server answers at {self.place.url}: {error or type(error).__name__}")
            else:
                if status in OK:
                    return data
                why = error_of(data, status, self.place.url)
                if status not in (*AWAY, BUSY):
                    raise why
            if (not again and status != BUSY) or time.monotonic() >= until:
                raise why
            if tries == TOLD_AFTER and not status:
                LOG.warning("%s; asked again for %.0f seconds", why, PATIENCE_S)
            await asyncio.sleep(WAIT_S[min(tries, len(WAIT_S) - 1)])
            tries += 1

    async def _once(self, method: str, path: str, tenant: str, body: bytes | None) -> tuple[int, bytes]:
        import aiohttp

        headers = self._headers(tenant) | ({"Content-Type": "application/json"} if body is not None else {})
        try:
            sent = io.BytesIO(body) if body is not None else None
            async with self._session().request(method, self.place.base + path, data=sent, headers=headers) as answer:
                return answer.status, await _bounded(answer)
        except aiohttp.ClientError as error:
            raise OSError(str(error)) from error

    @contextlib.asynccontextmanager
    async def stream(self, path: str, tenant: str) -> AsyncIterator[AsyncIterator[bytes]]:
        """The bytes of an answer without an end, as they come. Raises `OSError` when it breaks off."""
        import aiohttp

        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S, sock_read=SILENCE_S)
        try:
            request = self._session().get(self.place.base + path, headers=self._headers(tenant), timeout=timeout)
            async with request as answer:
                if answer.status not in OK:
                    why = error_of(await answer.read(), answer.status, self.place.url)
                    raise OSError(str(why)) if answer.status in AWAY else why
                yield answer.content.iter_any()
        except aiohttp.ClientError as error:
            raise OSError(str(error)) from error

    def _headers(self, tenant: str) -> dict[str, str]:
        token = self._tokens.get(check_id("tenant", tenant))
        if token is None:
            raise UsageError(f"there is no token for the tenant {tenant!r}: the one that was given is for 'default'")
        return {"Authorization": f"Bearer {token}"}

    def _session(self) -> aiohttp.ClientSession:
        import aiohttp

        if self._closed:
            raise StoreError("this connection is closed")
        if self._http is None:
            connector = (
                aiohttp.UnixConnector(self.place.socket, limit=0)
                if self.place.socket
                else aiohttp.TCPConnector(limit=0)
            )
            self._http = aiohttp.ClientSession(
                connector=connector,
                timeout=aiohttp.ClientTimeout(total=ANSWER_S, sock_connect=CONNECT_S),
                trust_env=False,
            )
        return self._http

    async def close(self) -> None:
        """Lets the connections go. Safe twice."""
        self._closed = True
        if self._http is not None:
            await self._http.close()


def session_path(session: str, more: str = "") -> str:
    """The path of a session, whatever its id looks like."""
    return f"/v1/sessions/{quote(check_id('session id', session), safe='')}{more}"


async def _bounded(answer: aiohttp.ClientResponse) -> bytes:
    """The bytes of an answer, if they are not more than anybody may say."""
    parts, size = [], 0
    async for part in answer.content.iter_chunked(CHUNK_BYTES):
        parts.append(part)
        size += len(part)
        if size > ANSWER_BYTES_MAX:
            raise StoreError(f"an answer is larger than {ANSWER_BYTES_MAX} bytes: it is not read")
    return b"".join(parts)


@functools.cache
def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    return known_types.decoder(msgspec.defstruct("Answered", [("value", kind)], frozen=True))
