"""The server: one client over stdio, or any number over TCP on this machine, until it is asked to stop."""

from __future__ import annotations

import asyncio
import hmac
import os
import sys
from typing import Any, BinaryIO

from windlass.events.errors import UsageError
from windlass.protocol.json_rpc.length_frames import LengthFrames
from windlass.protocol.json_rpc.rpc_peer import INVALID_REQUEST, NO_METHOD, RpcError, RpcPeer
from windlass.server.stdio.own_pipes import refuse_no_pipes

from .copilot_host import CopilotHost
from .methods import METHODS

LOOPBACK = "127.0.0.1"
READ_BYTES = 1024 * 1024
STRANGER_S = 30.0
"""How long a client may take to show its token."""
CONNECTIONS_MAX = 256


async def talk(host: CopilotHost, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Talks with one client until it leaves. One that has not shown its token is told nothing, is heard of little, and
    has not long."""

    def admit() -> None:
        peer.admitted = True
        host.peers.add(peer)
        patience.cancel()

    async def handle(method: str, params: dict[str, Any]) -> Any:
        if method == "connect" and not peer.admitted and _is_right(host.token, params.get("token")):
            admit()
        if not peer.admitted:
            raise RpcError(INVALID_REQUEST, "this server wants its connection token first")
        act = METHODS.get(method)
        if act is None:
            raise RpcError(NO_METHOD, f"there is no method {method!r} here")
        return await act(host, peer, params)

    peer = RpcPeer(reader, writer, handle, LengthFrames())
    peer.admitted = False
    patience = asyncio.get_running_loop().call_later(STRANGER_S, peer.leave)
    if host.token is None:
        admit()
    try:
        await peer.run()
    finally:
        patience.cancel()
        await host.leave_all(peer)


def _is_right(token: str | None, given: object) -> bool:
    return isinstance(given, str) and token is not None and hmac.compare_digest(token.encode(), given.encode())


def own_stdout() -> BinaryIO:
    """The stream to a client. Whatever else this process prints goes to stderr from here on: agents are files of the
    user's, and a word of theirs among the messages would end the conversation. Raises `UsageError` if there is no
    client at the other end."""
    refuse_no_pipes()
    sys.stdout.flush()
    out = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    return out


async def serve_stdio(host: CopilotHost, out: BinaryIO) -> None:
    """One client, on this process's own streams."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=READ_BYTES, loop=loop)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin.buffer)
    transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, out)
    writer = asyncio.StreamWriter(transport, protocol, reader, loop)
    try:
        await until_stopped(host, talk(host, reader, writer))
    finally:
        transport.close()


async def serve_tcp(host: CopilotHost, port: int, told: Any) -> None:
    """Any number of clients; `told` is given the port."""

    here = 0

    async def come(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal here
        if here >= CONNECTIONS_MAX:
            writer.close()
            return
        here += 1
        try:
            await talk(host, reader, writer)
        finally:
            here -= 1

    try:
        server = await asyncio.start_server(come, LOOPBACK, port, limit=READ_BYTES)
    except OSError as error:
        raise UsageError(f"cannot listen on port {port}: {error.strerror or error}") from None
    async with server:
        told(server.sockets[0].getsockname()[1])
        await until_stopped(host, None)
        server.close()
        for peer in list(host.peers):
            peer.leave()


async def until_stopped(host: CopilotHost, talking: Any) -> None:
    """Waits until the server is to stop: it is asked to, or its only client has left."""
    waits = [asyncio.ensure_future(host.stopping.wait())]
    if talking is not None:
        waits.append(asyncio.ensure_future(talking))
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
        await asyncio.gather(*waits, return_exceptions=True)
