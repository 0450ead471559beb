"""One side of a JSON-RPC conversation: requests in both directions, notifications, and what waits to be sent.

It knows nothing of sessions. Messages are sent in the order in which they were given, by one task; a client that reads
too slowly loses what is ephemeral, and is let go once more waits for it than is kept.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

from windlass.events.errors import CodecError, WindlassError

from .frames import BODY_BYTES_MAX, framed, read_message

PARSE_ERROR, INVALID_REQUEST, NO_METHOD, INVALID_PARAMS, INTERNAL = -32700, -32600, -32601, -32602, -32603
WAITING_MAX = 10_000
"""Messages that may wait to be sent."""
AT_ONCE_MAX = 256
"""Requests of a client that are carried out at the same time."""
STRANGER_BYTES_MAX = 64 * 1024
"""The largest message of a client that has not shown its token."""
FINISH_S = 2.0
"""How long a request may take that was under way when its client left."""

Handler = Callable[[str, dict[str, Any]], Awaitable[Any]]


class RpcError(Exception):
    """An error as the other side is told of it, or as it told us."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class PeerGone(Exception):
    """The other side is not there any more."""


class RpcPeer:
    """A conversation over a pair of streams."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, handle: Handler) -> None:
        self._reader = reader
        self._writer = writer
        self._handle = handle
        self._outbox: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        self._asked: dict[int, asyncio.Future[Any]] = {}
        self._next_id = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._places = asyncio.Semaphore(AT_ONCE_MAX)
        self.admitted = True
        self.gone = False

    # --- talking ---

    async def ask(self, method: str, params: dict[str, Any]) -> Any:
        """Asks the other side something. Raises `RpcError` if it refuses, `PeerGone` if it leaves."""
        if self.gone:
            raise PeerGone(method)
        self._next_id += 1
        number, answer = self._next_id, asyncio.get_running_loop().create_future()
        self._asked[number] = answer
        self._send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        try:
            return await answer
        except asyncio.CancelledError:
            self.notify("$/cancelRequest", {"id": number})
            raise
        finally:
            self._asked.pop(number, None)

    def notify(self, method: str, params: dict[str, Any], *, droppable: bool = False) -> None:
        """Tells the other side something; what is droppable is left out if too much waits."""
        if droppable and self._outbox.qsize() >= WAITING_MAX // 2:
            return
        self._send({"jsonrpc": "2.0", "method": method, "params": params})

    def _send(self, message: dict[str, Any]) -> None:
        if self.gone:
            return
        if self._outbox.qsize() >= WAITING_MAX:
            self.leave()
        else:
            self._outbox.put_nowait(message)

    def leave(self) -> None:
        """Ends the conversation without another word."""
        self.gone = True
        self._writer.close()
        self._reader.feed_eof()

    # --- the loop ---

    async def run(self) -> None:
        """Talks until the other side leaves."""
        sending = asyncio.get_running_loop().create_task(self._send_all(), name="windlass:copilot:send")
        try:
            await self._read_all()
        finally:
            for answer in self._asked.values():
                if not answer.done():
                    answer.set_exception(PeerGone("the client left"))
            await self._finish()
            self.gone = True
            self._outbox.put_nowait(None)
            await asyncio.gather(sending, return_exceptions=True)
            self._writer.close()

    async def _finish(self) -> None:
        """What was asked before the other side left is done, within a moment: its answer may still be read."""
        if self._tasks:
            await asyncio.wait(list(self._tasks), timeout=FINISH_S)
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _read_all(self) -> None:
        try:
            while (message := await read_message(self._reader, self._most)) is not None:
                await self._take(message)
        except CodecError as error:
            self._send({"jsonrpc": "2.0", "id": None, "error": {"code": PARSE_ERROR, "message": str(error)}})
        except (OSError, asyncio.LimitOverrunError):
            return

    def _most(self) -> int:
        return BODY_BYTES_MAX if self.admitted else STRANGER_BYTES_MAX

    async def _send_all(self) -> None:
        with contextlib.suppress(OSError):
            while (message := await self._outbox.get()) is not None:
                self._writer.write(framed(message))
                await self._writer.drain()

    async def _take(self, message: dict[str, Any]) -> None:
        method, number = message.get("method"), message.get("id")
        if not isinstance(method, str):
            self._answered(number, message)
            return
        params = message.get("params")
        given = params if isinstance(params, dict) else {}
        if number is None:
            return  # a notification; none of those that clients send matter here
        await self._places.acquire()
        task = asyncio.get_running_loop().create_task(self._perform(number, method, given))
        self._tasks.add(task)
        task.add_done_callback(self._performed)

    def _performed(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._places.release()

    async def _perform(self, number: Any, method: str, params: dict[str, Any]) -> None:
        try:
            result = await self._handle(method, params)
            self._send({"jsonrpc": "2.0", "id": number, "result": result})
        except RpcError as error:
            self._refuse(number, error.code, str(error))
        except WindlassError as error:
            self._refuse(number, INTERNAL, str(error))
        except (KeyError, TypeError, ValueError) as error:
            self._refuse(number, INVALID_PARAMS, f"{method}: wrong parameters: {error!r}")
        except Exception as error:  # a bug of ours must not leave a client waiting
            self._refuse(number, INTERNAL, f"{method}: {type(error).__name__}: {error}")
            raise

    def _refuse(self, number: Any, code: int, message: str) -> None:
        self._send({"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": message}})

    def _answered(self, number: Any, message: dict[str, Any]) -> None:
        answer = self._asked.get(number) if isinstance(number, int) else None
        if answer is None or answer.done():
            return
        error = message.get("error")
        if isinstance(error, dict):
            answer.set_exception(RpcError(int(error.get("code", INTERNAL)), str(error.get("message", ""))))
        else:
            answer.set_result(message.get("result"))
