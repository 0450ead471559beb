"""How a server is reached: the streams that a client of the `mcp` package speaks over. The package is imported on first
use, since that takes more than a second."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any

import msgspec

from windlass.tools.sandboxes.sandbox import Launch

from .bounded_http import bounded_transport
from .heard_streams import Exchange, HeardStream, SaidStream, own_pace
from .server_process import LINE_BYTES_MAX, ServerProcess, TooLong, start
from .value_count import TooMany, check_values

if TYPE_CHECKING:
    import anyio

Ended = Callable[[str | None], None]
"""Told that nothing more comes from a server: at once without a reason, and then with it."""
CONNECT_S = 30.0
READ_S = 3_600.0
"""How long an HTTP server may say nothing while it holds a stream open; calls have times of their own."""


@contextlib.asynccontextmanager
async def over_stdio(launch: Launch, ended: Ended) -> AsyncIterator[Any]:
    """A process of our own. When this is left, nothing of it is left either."""
    import anyio

    process = await start(launch)
    given, received = anyio.create_memory_object_stream[Any](0)
    to_send, taken = anyio.create_memory_object_stream[Any](0)
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_read, process, given, ended)
            tasks.start_soon(_write, process, taken)
            try:
                yield received, to_send
            finally:
                for stream in (received, to_send):
                    stream.close()
                with anyio.CancelScope(shield=True):
                    await process.close()
                tasks.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True):
            await process.close()
        for stream in (given, taken):
            stream.close()


async def _read(process: ServerProcess, given: anyio.abc.ObjectSendStream[Any], ended: Ended) -> None:
    import anyio
    import mcp_types
    from mcp.shared.message import SessionMessage

    why = ""
    noise, clock = own_pace(), asyncio.get_running_loop().time
    try:
        async for line in process.lines():
            check_values(line)
            try:
                message = mcp_types.jsonrpc_message_adapter.validate_json(line, by_name=False)
            except ValueError:  # servers print all kinds of things; what is no message is none
                await asyncio.sleep(noise.wait_s(clock()))
                if (message := unreadable(line)) is None:
                    continue
            await given.send(SessionMessage(message))
    except (TooLong, TooMany) as error:
        why = str(error)
    except (anyio.ClosedResourceError, anyio.BrokenResourceError):
        return  # nobody listens any more
    ended(None)
    ended(why or await process.how_it_ended())
    await given.aclose()


class _Head(msgspec.Struct):
    jsonrpc: str
    id: str | int
    method: str | None = None


def unreadable(line: bytes) -> Any:
    """What stands for an answer that cannot be read (nested too deeply, with parts that none has): an error, so that
    nobody waits for it. None for what is no answer."""
    import mcp_types

    try:
        head = msgspec.json.decode(line, type=_Head)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if head.method is not None:
        return None
    error = mcp_types.ErrorData(code=mcp_types.PARSE_ERROR, message="its answer cannot be read")
    return mcp_types.JSONRPCError(jsonrpc="2.0", id=head.id, error=error)


async def _write(process: ServerProcess, taken: anyio.abc.ObjectReceiveStream[Any]) -> None:
    import anyio

    try:
        async for message in taken:
            text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
            await process.send(f"{text}\n".encode())
    except (OSError, anyio.ClosedResourceError, anyio.BrokenResourceError):
        return  # its end is noticed by whoever reads


@contextlib.asynccontextmanager
async def over_http(url: str, headers: dict[str, str], ended: Ended, auth: Any = None) -> AsyncIterator[Any]:
    """Streamable HTTP. Redirects to another host are not followed, and no proxy of the environment is used."""
    from mcp.client.streamable_http import streamable_http_client

    async with (
        _http_client(headers, ended, auth) as client,
        streamable_http_client(url, http_client=client, max_sse_event_size=LINE_BYTES_MAX) as streams,
    ):
        yield streams


@contextlib.asynccontextmanager
async def over_sse(url: str, headers: dict[str, str], ended: Ended, auth: Any = None) -> AsyncIterator[Any]:
    """The older HTTP, with server-sent events."""
    from mcp.client.sse import sse_client

    def factory(headers: dict[str, str] | None = None, timeout: Any = None, auth: Any = None) -> Any:
        return _http_client(headers or {}, ended, auth, posts_answered=False)

    async with sse_client(url, headers, httpx_client_factory=factory, sse_read_timeout=READ_S, auth=auth) as streams:
        yield streams


@contextlib.asynccontextmanager
async def heard(transport: Any, ended: Ended) -> AsyncIterator[Any]:
    """A transport, with bounds on what is heard over it."""
    async with transport as (received, to_send):
        exchange = Exchange(ended)
        yield HeardStream(received, exchange), SaidStream(to_send, exchange)


def _http_client(headers: dict[str, str], ended: Ended, auth: Any = None, *, posts_answered: bool = True) -> Any:
    """A client that takes nothing packed: a few bytes of that may be unpacked to more than there is memory."""
    import httpx2

    unpacked = {name: value for name, value in headers.items() if name.lower() != "accept-encoding"}
    unpacked["Accept-Encoding"] = "identity"
    timeout = httpx2.Timeout(CONNECT_S, read=READ_S)
    hooks = {"response": [_refuse_packed]}
    transport = bounded_transport(ended, posts_answered=posts_answered)
    return httpx2.AsyncClient(
        headers=unpacked, timeout=timeout, trust_env=False, event_hooks=hooks, transport=transport, auth=auth
    )


async def _refuse_packed(response: Any) -> None:
    """A server that packs its answer all the same is not read."""
    import httpx2

    packed = response.headers.get("content-encoding", "identity").strip().lower()
    if packed not in ("", "identity"):
        raise httpx2.DecodingError(f"it packed its answer ({packed[:20]}), which it was asked not to do")
