"""Where a person's browser comes back to after a login: a page on this machine's loopback, for as long as one login
takes. It shows nothing of what it was given."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from urllib.parse import parse_qsl

from .addresses import LoginError
from .consent import Consent, NotOurs

HOST = "127.0.0.1"
PATH = "/callback"
HEAD_BYTES_MAX = 16 * 1024
HEAD_S = 10.0
AT_ONCE_MAX = 16
FIELDS_MAX = 50
HEADERS = "Content-Type: text/plain; charset=utf-8\r\nCache-Control: no-store\r\nReferrer-Policy: no-referrer"
DONE = "You are logged in. You can close this page."
FAILED = "There is no login. The terminal says why."
STRANGE = "This is not the login that is waited for."


class RedirectListener:
    """One page that waits for one login."""

    def __init__(self, port: int) -> None:
        self.redirect = f"http://{HOST}:{port}{PATH}"
        self.consent: Consent | None = None
        """What is waited for; nobody is let in before it is known."""
        self._code: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._open = 0

    async def code(self, timeout_s: float) -> str:
        """The code that somebody comes back with. Raises `LoginError`."""
        done, _ = await asyncio.wait([self._code], timeout=timeout_s)
        if not done:
            raise LoginError(f"nobody came back within {timeout_s:g} s")
        return self._code.result()

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answers one browser."""
        self._open += 1
        try:
            if self._open <= AT_ONCE_MAX:
                async with asyncio.timeout(HEAD_S):
                    status, told = self._judged(await reader.readuntil(b"\r\n\r\n"))
                    head = f"HTTP/1.1 {status}\r\n{HEADERS}\r\nContent-Length: {len(told)}\r\nConnection: close\r\n\r\n"
                    writer.write(f"{head}{told}".encode())
                    await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            return
        finally:
            self._open -= 1
            writer.close()

    def _judged(self, head: bytes) -> tuple[str, str]:
        """What a browser is answered; the first that belongs to the login ends the wait."""
        method, _, rest = head.decode("latin-1").partition(" ")
        path, _, query = rest.partition(" ")[0].partition("?")
        if method != "GET" or path != PATH or self.consent is None or self._code.done():
            return "404 Not Found", STRANGE
        try:
            given = dict(parse_qsl(query, keep_blank_values=True, max_num_fields=FIELDS_MAX))
            self._code.set_result(self.consent.code(given))
        except (NotOurs, ValueError):
            return "400 Bad Request", STRANGE
        except LoginError as error:
            self._code.set_exception(error)
            return "200 OK", FAILED
        return "200 OK", DONE


@contextlib.asynccontextmanager
async def listening(port: int = 0) -> AsyncIterator[RedirectListener]:
    """A page that waits, at a port or a free one. Raises `LoginError` if the port is taken."""
    listener: RedirectListener | None = None

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert listener is not None, "it is made before anybody can come"
        await listener.take(reader, writer)

    try:
        server = await asyncio.start_server(take, HOST, port, limit=HEAD_BYTES_MAX)
    except OSError as error:
        raise LoginError(f"nobody can come back to port {port} of this machine: {error.strerror}") from None
    async with server:
        listener = RedirectListener(server.sockets[0].getsockname()[1])
        try:
            yield listener
        finally:
            if listener._code.done() and not listener._code.cancelled():
                listener._code.exception()  # whoever waited has heard of it, or has gone
