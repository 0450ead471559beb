"""The conversation with one editor over a pair of streams."""

from __future__ import annotations

import asyncio
from typing import Any

from windlass.events.errors import UsageError
from windlass.protocol.json_rpc.line_frames import LineFrames
from windlass.protocol.json_rpc.rpc_peer import INVALID_PARAMS, INVALID_REQUEST, NO_METHOD, RpcError, RpcPeer

from .acp_host import AcpHost
from .methods import METHODS, NOTICES

FIRST = "initialize"


async def talk(host: AcpHost, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Talks until the editor leaves."""
    begun = False

    async def handle(method: str, params: dict[str, Any]) -> Any:
        nonlocal begun
        act = METHODS.get(method)
        if act is None:
            raise RpcError(NO_METHOD, f"there is no method {method[:80]!r} here")
        if not begun and method != FIRST:
            raise RpcError(INVALID_REQUEST, f"begin with {FIRST!r}")
        try:
            result = await act(host, peer, params)
        except UsageError as error:
            raise RpcError(INVALID_PARAMS, f"{method}: {error}") from None
        begun = True
        return result

    def hear(method: str, params: dict[str, Any]) -> None:
        if method in NOTICES:
            NOTICES[method](host, params)

    cancelling = ("$/cancel_request", "requestId")
    peer = RpcPeer(reader, writer, handle, LineFrames(), hear=hear, cancelling=cancelling)
    await peer.run()
