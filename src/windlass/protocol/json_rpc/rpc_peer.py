"""One side of a JSON-RPC conversation: requests in both directions, notifications, and what waits to be sent.

It knows nothing of sessions. Messages are sent in the order in which they were given, by one task; a client that reads
too slowly loses what is ephemeral, and is let go once more waits for it than is kept.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from windlass.events.errors import CodecError, WindlassError

from .frames import INTERNAL, INVALID_PARAMS, INVALID_REQUEST, NO_METHOD, PARSE_ERROR, Frames, NoMessage
from .length_frames import BODY_BYTES_MAX

__all__ = [
    "INTERNAL",
    "INVALID_PARAMS",
    "INVALID_REQUEST",
    "NO_METHOD",
    "PARSE_ERROR",
    "PeerGone",
    "RpcError",
    "RpcPeer",
]

WAITING_MAX = 10_000
"""Messages that may wait to be sent."""
AT_ONCE_MAX = 256
"""Requests of a client that are carried out at the same time."""
STRANGER_BYTES_MAX = 64 * 1024
"""The largest message of a client that has not shown its token."""
FINISH_S = 2.0
"""How long a request may take that was under way when its client left."""

Handler = Callable[[str, dict[str, Any]], Awaitable[Any]]
Hearer = Callable[[str, dict[str, Any]], None]
"""What is done about a notification, at once and in the order of the messages."""
NOTHING: dict[str, Any] = {}


class RpcError(Exception):
    """An error as the other side is told of it, or as it told us."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class PeerGone(Exception):
    """The other side is not there any more."""


class RpcPeer:
    """A conversation over a pair of streams."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        handle: Handler,
        frames: Frames,
        *,
        hear: Hearer | None = None,
        cancelling: tuple[str, str] = ("$/cancelRequest", "id"),
    ) -> None:
        """`hear` is told what the other side only says; `cancelling` is how it is told that a request of ours is not
        waited for any more: the method, and the field that names the request."""
        self._reader = reader
        self._writer = writer
        self._handle = handle
        self._frames = frames
        self._hear = hear
        self._cancelling = cancelling
        self._outbox: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        self._sent = asyncio.Event()
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
            method_of_it, field = self._cancelling
            self.notify(method_of_it, {field: number})
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

    async def room(self) -> None:
        """Waits until less than half of what may wait does: for whoever has much to tell, such as a whole history."""
        while self._outbox.qsize() >= WAITING_MAX // 2 and not self.gone:
            self._sent.clear()
            await self._sent.wait()

    def leave(self) -> None:
        """Ends the conversation without another word."""
        self.gone = True
        self._writer.close()
        self._reader.feed_eof()

    # --- the loop ---

    async def run(self) -> None:
        """Talks until the other side leaves."""
        sending = asyncio.get_running_loop().create_task(self._send_all(), name="windlass:rpc:send")
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
            async for message in self._frames.messages(self._reader, self._most):
                if isinstance(message, NoMessage):
                    self._refuse(None, message.code, message.why)
                else:
                    await self._take(message)
        except CodecError as error:
            self._refuse(None, PARSE_ERROR, str(error))
        except (OSError, asyncio.LimitOverrunError):
            return

    def _most(self) -> int:
        return BODY_BYTES_MAX if self.admitted else STRANGER_BYTES_MAX

    async def _send_all(self) -> None:
        try:
            while (message := await self._outbox.get()) is not None:
                self._writer.write(self._frames.framed(message))
                await self._writer.drain()
                self._sent.set()
        except OSError:
            self.gone = True  # nobody reads any more
        finally:
            self._sent.set()

    async def _take(self, message: dict[str, Any]) -> None:
        method, number = message.get("method"), message.get("id")
        if not isinstance(method, str):
            if "result" in message or "error" in message:
                self._answered(number, message)
            else:
                self._refuse(_name(number), INVALID_REQUEST, "a message has a method, a result or an error")
            return
        params = message.get("params") or NOTHING
        if "id" not in message or number is None:
            if self._hear is not None and isinstance(params, dict):
                self._hear(method, params)
            return
        if not isinstance(params, dict) or _name(number) is None:
            what = "params is an object" if _name(number) is not None else "id is a text or a whole number"
            self._refuse(_name(number), INVALID_PARAMS if _name(number) is not None else INVALID_REQUEST, what)
            return
        await self._places.acquire()
        task = asyncio.get_running_loop().create_task(self._perform(number, method, params))
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


def _name(number: object) -> str | int | None:
    """What a request is known by; None for what can be none."""
    return number if isinstance(number, str | int) and not isinstance(number, bool) else None
