"""The way out of a sandbox without network: a small HTTP proxy of ours that connects to named hosts only.

A host is looked up once, every address is checked, and the checked address is connected to. What was asked for is told
as notices. Each set of hosts has a door of its own: a socket in a file, which a sandbox shows to the processes that
these hosts were granted to.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import socket
from collections.abc import Callable, Iterable
from urllib.parse import urlsplit

from windlass.events.values.blocks import Value
from windlass.tools.context import ToolError
from windlass.tools.web.addresses import AddressRefused, Reachable, Resolver
from windlass.tools.web.hosts import BadHost, Host, parse_host

HEAD_BYTES_MAX = 32 * 1024
HEAD_S = 30.0
CONNECT_S = 20.0
IDLE_S = 120.0
"""How long a connection may be silent both ways."""
CONNECTIONS_MAX = 64
SENT_BYTES_MAX = 64 * 1024 * 1024
"""What one connection may send out."""
RECEIVED_BYTES_MAX = 4 * 1024**3
HEARD_MAX = 100
"""Notices that are kept until somebody takes them; the rest is counted."""
CHUNK = 64 * 1024
PROXY_PORT = 3128
"""Of the sandbox's own loopback, where nobody else is."""
UNREAD = "this is a proxy for HTTP: CONNECT host:port, or a request for http://host/"


def proxy_variables(port: int) -> dict[str, str]:
    """What tells programs of the proxy."""
    address = f"http://127.0.0.1:{port}"
    names = ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy")
    return {**dict.fromkeys(names, address), "NO_PROXY": "", "no_proxy": ""}


class Granted:
    """The hosts that one door leads to: `name`, `name:port`, or `*.name` for all names beneath one. An address that is
    not public is reached only if it was granted by itself and with its port, such as 127.0.0.1:8080."""

    def __init__(self, hosts: Iterable[str], resolver: Resolver | None = None) -> None:
        self._exact: set[tuple[str, int | None]] = set()
        self._suffixes: set[tuple[str, int | None]] = set()
        private: list[str] = []
        for text in hosts:
            wild = text.startswith("*.")
            host, port = _parsed(text[2:] if wild else text)
            (self._suffixes if wild else self._exact).add((host.name, port))
            if port is not None and not wild:
                names = ("127.0.0.1", "::1") if host.name == "localhost" else (host.name,) if host.address else ()
                private += [f"[{name}]:{port}" if ":" in name else f"{name}:{port}" for name in names]
        self._reachable = Reachable(resolver=resolver, allow_private=private)

    async def addresses(self, host: Host, port: int) -> tuple[str, ...]:
        """Where a host is reached. Raises `AddressRefused` if it was not granted, or leads to where nobody goes."""
        if not self._covers(host, port):
            raise AddressRefused("nobody granted this host to the process")
        return await self._reachable.addresses(host, port)

    def _covers(self, host: Host, port: int) -> bool:
        names = host.name.split(".")
        beneath = [] if host.address else [".".join(names[at:]) for at in range(1, len(names))]
        return any(
            (name, wanted) in known
            for wanted in (None, port)
            for known, candidates in ((self._exact, [host.name]), (self._suffixes, beneath))
            for name in candidates
        )


def _parsed(text: str) -> tuple[Host, int | None]:
    """A host with or without a port. Raises `ToolError` for what is none."""
    name, port = text, None
    bare = text.count(":") > 1 and not text.startswith("[")
    if not bare and not text.endswith("]") and ":" in text:
        name, _, digits = text.rpartition(":")
        if not (digits.isascii() and digits.isdigit() and 0 < int(digits) < 65536):
            raise ToolError(f"{text[:80]!r} names no port", code="bad_host")
        port = int(digits)
    try:
        return parse_host(name), port
    except BadHost as error:
        raise ToolError(f"no host can be granted as {text[:80]!r}: {error}", code="bad_host") from None


class Doors:
    """The doors of one sandbox, as files in a folder that only this user can enter."""

    def __init__(self, folder: str, resolver: Resolver | None = None) -> None:
        self._folder = folder
        self._resolver = resolver
        self._open: dict[str, Door] = {}
        self._heard: dict[str, int] = {}

    def path(self, hosts: tuple[str, ...]) -> str:
        """The file that leads to these hosts."""
        return os.path.join(self._folder, _named(hosts))

    async def open(self, hosts: tuple[str, ...]) -> None:
        """Opens the door to these hosts, if it is not. Raises `ToolError` for what is no host."""
        name = _named(hosts)
        if name not in self._open:
            door = Door(Granted(hosts, self._resolver), self._hear)
            self._open[name] = door
            await door.open(self._folder, name)

    def _hear(self, notice: str) -> None:
        if notice in self._heard or len(self._heard) < HEARD_MAX:
            self._heard[notice] = self._heard.get(notice, 0) + 1

    def heard(self) -> tuple[str, ...]:
        """What was asked for since the last time."""
        heard, self._heard = self._heard, {}
        return tuple(notice if count == 1 else f"{notice} ({count} times)" for notice, count in heard.items())

    async def close(self) -> None:
        """Shuts them. Safe twice."""
        for door in tuple(self._open.values()):
            await door.close()
        self._open.clear()


def _named(hosts: tuple[str, ...]) -> str:
    return hashlib.sha256("\n".join(sorted(set(hosts))).encode()).hexdigest()[:16]


class Door:
    """One socket, and the connections that came through it."""

    def __init__(self, granted: Granted, hear: Callable[[str], None]) -> None:
        self._granted = granted
        self._hear = hear
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self, folder: str, name: str) -> None:
        """Listens under a name in a folder."""
        listener = socket.socket(socket.AF_UNIX)
        at = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            listener.bind(f"/proc/self/fd/{at}/{name}")  # a path of a socket is short; that of a folder need not be
        finally:
            os.close(at)
        self._server = await asyncio.start_unix_server(self._serve, sock=listener, limit=HEAD_BYTES_MAX)

    async def close(self) -> None:
        """Ends what goes through it."""
        if self._server is not None:
            self._server.close()
        for task in tuple(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            if len(self._tasks) > CONNECTIONS_MAX:
                await _answered(writer, 503, "too many connections at once")
            else:
                await self._through(reader, writer)
        except (OSError, EOFError, TimeoutError, asyncio.LimitOverrunError, asyncio.CancelledError):
            pass  # whoever is gone needs no answer
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _through(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(HEAD_S):
            head = await reader.readuntil(b"\r\n\r\n")
        try:
            request = read_request(head)
        except ValueError as error:
            await _answered(writer, 400, str(error))
            return
        asked = f"{request.host.shown}:{request.port}"
        try:
            addresses = await self._granted.addresses(request.host, request.port)
            far = await _connected(addresses, request.port)
        except AddressRefused as refused:
            self._hear(f"the proxy refused a process {asked}: {refused}")
            await _answered(writer, 403, f"{asked} is not reached from this sandbox: {refused}")
            return
        except (OSError, TimeoutError) as error:
            self._hear(f"the proxy could not reach {asked} for a process: {error}")
            await _answered(writer, 502, f"{asked} cannot be reached: {error}")
            return
        self._hear(f"a process reached {asked} through the proxy")
        if request.first is None:
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:
            far[1].write(request.first)
        await _carried((reader, writer), far)


class Request(Value, frozen=True, kw_only=True):
    """What a process asks of the proxy."""

    host: Host
    port: int
    first: bytes | None = None
    """The head that the host is sent; None for a connection that is not looked into."""


def read_request(head: bytes) -> Request:
    """The request that a head holds. Raises `ValueError` for what is none, or could be read in two ways."""
    lines = head[:-4].split(b"\r\n")
    words = lines[0].split(b" ")
    if len(words) != 3 or any(b"\n" in line or b"\r" in line or b"\0" in line for line in lines) or not head.isascii():
        raise ValueError(UNREAD)
    if any(
        line[:1].isspace() or b":" not in line for line in lines[1:]
    ):  # some read such a line with the one before it
        raise ValueError(UNREAD)
    method, target = words[0].decode(), words[1].decode()
    try:
        if method == "CONNECT":
            host, port = _parsed(target)
            if port is None:
                raise ValueError(UNREAD)
            return Request(host=host, port=port)
        parts = urlsplit(target)
        if parts.scheme.lower() != "http" or not parts.netloc or "@" in parts.netloc:
            raise ValueError(UNREAD)
        host, port = _parsed(parts.netloc)
    except ToolError as error:
        raise ValueError(str(error)) from None
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    dropped = (b"host", b"connection", b"keep-alive", b"te", b"upgrade")
    kept = [line for line in lines[1:] if _name(line) not in dropped and not _name(line).startswith(b"proxy-")]
    first = [f"{method} {path} HTTP/1.1".encode(), f"Host: {parts.netloc}".encode(), *kept, b"Connection: close"]
    return Request(host=host, port=port or 80, first=b"\r\n".join(first) + b"\r\n\r\n")


def _name(line: bytes) -> bytes:
    return line.partition(b":")[0].strip().lower()


Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def _connected(addresses: tuple[str, ...], port: int) -> Ends:
    """A connection to the first address that answers."""
    failed: OSError = OSError("it has no address")
    for address in addresses:
        try:
            async with asyncio.timeout(CONNECT_S):
                return await asyncio.open_connection(address, port)
        except TimeoutError:
            failed = OSError(f"no answer in {CONNECT_S:g} s")
        except OSError as error:
            failed = error
    raise failed


async def _carried(near: Ends, far: Ends) -> None:
    """Both ways, until both are at their end, one is silent too long, or too much was sent."""
    try:
        out = asyncio.ensure_future(_pumped(near[0], far[1], SENT_BYTES_MAX))
        back = asyncio.ensure_future(_pumped(far[0], near[1], RECEIVED_BYTES_MAX))
        try:
            await asyncio.gather(out, back)
        finally:
            out.cancel()
            back.cancel()
    finally:
        far[1].close()


async def _pumped(source: asyncio.StreamReader, sink: asyncio.StreamWriter, most: int) -> None:
    while most > 0:
        async with asyncio.timeout(IDLE_S):
            data = await source.read(min(CHUNK, most))
        if not data:
            if sink.can_write_eof():
                sink.write_eof()
            return
        most -= len(data)
        sink.write(data)
        await sink.drain()
    raise OSError("more was sent than a connection may carry")


async def _answered(writer: asyncio.StreamWriter, status: int, told: str) -> None:
    reason = {400: "Bad Request", 403: "Forbidden", 502: "Bad Gateway", 503: "Service Unavailable"}[status]
    body = f"windlass: {told}\n".encode()
    head = f"HTTP/1.1 {status} {reason}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {len(body)}\r\n"
    writer.write(head.encode() + b"Connection: close\r\n\r\n" + body)
    with contextlib.suppress(OSError):
        await writer.drain()
