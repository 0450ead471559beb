"""Messages of MCP on a stream of bytes, one on each line, each of bounded size. What is no message is answered as such,
and the next line is read: a client that sends garbage harms itself alone."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import anyio

from windlass.protocol.wire_commands import WireError, read_object

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

LINE_BYTES_MAX = 2 * 1024 * 1024
PIECE_BYTES = 64 * 1024


class Lines:
    """The lines of a stream; one that is too long is passed over and told of."""

    def __init__(self, reader: asyncio.StreamReader, most: int = LINE_BYTES_MAX) -> None:
        self._reader = reader
        self._most = most
        self._held = bytearray()
        self._seen = 0
        """How much of what is held has no end of a line in it."""

    async def next(self) -> bytes | None:
        """The next line without its end; None when there are no more. Raises `WireError` for one that is too long."""
        while (end := self._held.find(b"\n", self._seen)) < 0:
            self._seen = len(self._held)
            if self._seen > self._most:
                await self._pass_over()
                raise WireError("$", f"a message has at most {self._most} bytes")
            piece = await self._reader.read(PIECE_BYTES)
            if not piece:
                return None
            self._held += piece
        line = bytes(self._held[:end])
        del self._held[: end + 1]
        self._seen = 0
        if len(line) > self._most:
            raise WireError("$", f"a message has at most {self._most} bytes")
        return line

    async def _pass_over(self) -> None:
        """Reads to the end of the line and keeps nothing of it."""
        while b"\n" not in self._held:
            self._held.clear()
            piece = await self._reader.read(PIECE_BYTES)
            if not piece:
                break
            self._held += piece
        del self._held[: self._held.find(b"\n") + 1]
        self._seen = 0


@contextlib.asynccontextmanager
async def line_streams(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, most: int = LINE_BYTES_MAX
) -> AsyncIterator[tuple[MemoryObjectReceiveStream[Any], MemoryObjectSendStream[Any]]]:
    """The two streams that the protocol's server takes, over a connection; they end with it."""
    to_server, from_client = anyio.create_memory_object_stream[Any](0)
    to_client, from_server = anyio.create_memory_object_stream[Any](0)
    work = [
        asyncio.ensure_future(_read(Lines(reader, most), to_server, writer)),
        asyncio.ensure_future(_write(from_server, writer)),
    ]
    try:
        yield from_client, to_client
    finally:
        for task in work:
            task.cancel()
        await asyncio.gather(*work, return_exceptions=True)
        for stream in (to_server, from_client, to_client, from_server):
            stream.close()


async def _read(lines: Lines, to_server: MemoryObjectSendStream[Any], writer: asyncio.StreamWriter) -> None:
    from mcp.shared.message import SessionMessage
    from mcp_types import jsonrpc_message_adapter

    with to_server, contextlib.suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
        while True:
            try:
                line = await lines.next()
                if line is None:
                    return
                if not line.strip():
                    continue
                message = jsonrpc_message_adapter.validate_python(read_object(line), by_name=False)
            except (WireError, ValueError) as error:
                await _refuse(writer, error)
                continue
            await to_server.send(SessionMessage(message))


async def _refuse(writer: asyncio.StreamWriter, error: Exception) -> None:
    """Says that something is no message. Whose it was is not known."""
    from mcp_types import INVALID_REQUEST, PARSE_ERROR, ErrorData, JSONRPCError

    wire = isinstance(error, WireError)
    why = str(error) if wire else "this is no message of JSON-RPC"
    told = JSONRPCError(
        jsonrpc="2.0", id=None, error=ErrorData(code=PARSE_ERROR if wire else INVALID_REQUEST, message=why[:500])
    )
    writer.write(told.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
    await writer.drain()


async def _write(from_server: MemoryObjectReceiveStream[Any], writer: asyncio.StreamWriter) -> None:
    with from_server, contextlib.suppress(OSError):
        async for one in from_server:
            writer.write(one.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
            await writer.drain()
