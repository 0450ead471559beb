"""Servers on loopback for hostile answers: raw bytes for each path, and a record of everybody who came."""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

Handler = Callable[[asyncio.StreamWriter, str], Awaitable[None]]


class Site:
    """A server that answers each path as told, and keeps what it was sent."""

    def __init__(self, host: str = "127.0.0.1") -> None:
        self.host = host
        self.port = 0
        self.heard: list[str] = []
        """The heads of all requests, as they came."""
        self.connections = 0
        self.pages: dict[str, bytes | Handler] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def endpoint(self) -> str:
        return f"{self.host}:{self.port}"

    def url(self, path: str = "/", host: str | None = None) -> str:
        return f"http://{host or self.host}:{self.port}{path}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            self.heard.append(head)
            path = head.split(" ")[1]
            page = self.pages.get(path, answer(b"no such page", status="404 Not Found"))
            if isinstance(page, bytes):
                writer.write(page)
                await writer.drain()
            else:
                await page(writer, path)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            writer.close()

    @contextlib.asynccontextmanager
    async def serving(self, port: int = 0) -> AsyncIterator[Site]:
        server = await asyncio.start_server(self._serve, self.host, port)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()
            for task in tuple(self._tasks):
                task.cancel()
            await asyncio.sleep(0)


def answer(
    body: bytes, media_type: str = "text/plain", *, status: str = "200 OK", headers: Sequence[str] = ()
) -> bytes:
    """An answer as bytes."""
    lines = [f"HTTP/1.1 {status}", f"Content-Type: {media_type}", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


def moved(location: str, status: str = "302 Found") -> bytes:
    """A redirect."""
    return answer(b"", status=status, headers=(f"Location: {location}",))


class DnsStub(asyncio.DatagramProtocol):
    """A DNS server on loopback that answers each question for an address with the next of its answers."""

    def __init__(self, answers: Sequence[Sequence[str]]) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []
        self.port = 0
        self._transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        labels, at = [], 12
        while data[at]:
            labels.append(data[at + 1 : at + 1 + data[at]].decode())
            at += 1 + data[at]
        self.asked.append(".".join(labels))
        addresses = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        head = data[:2] + struct.pack(">HHHHH", 0x8180, 1, len(addresses), 0, 0)
        records = b"".join(
            b"\xc0\x0c" + struct.pack(">HHIH", 1, 1, 0, 4) + bytes(int(part) for part in address.split("."))
            for address in addresses
        )
        self._transport.sendto(head + data[12 : at + 5] + records, addr)

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[DnsStub]:
        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_datagram_endpoint(lambda: self, local_addr=("127.0.0.1", 0))
        self.port = transport.get_extra_info("sockname")[1]
        try:
            yield self
        finally:
            transport.close()

    async def resolve(self, name: str, port: int) -> Sequence[str]:
        """A resolver that asks this server over UDP, once for each call, with nothing kept (the records live 0 s)."""
        loop = asyncio.get_running_loop()
        answered: asyncio.Future[bytes] = loop.create_future()

        class Asking(asyncio.DatagramProtocol):
            def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
                answered.set_result(data)

        transport, _ = await loop.create_datagram_endpoint(Asking, remote_addr=("127.0.0.1", self.port))
        try:
            question = b"".join(bytes([len(label)]) + label.encode() for label in name.split(".")) + b"\0\0\1\0\1"
            transport.sendto(b"\x12\x34" + struct.pack(">HHHHH", 0x0100, 1, 0, 0, 0) + question)
            data = await answered
        finally:
            transport.close()
        count, at = struct.unpack(">H", data[6:8])[0], 12 + len(question)
        return [".".join(str(byte) for byte in data[at + 16 * n + 12 : at + 16 * n + 16]) for n in range(count)]
