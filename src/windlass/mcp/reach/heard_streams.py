"""The streams of messages to and from a server, with bounds on what it may have us do: how often it may speak by
itself, how much it may ask without taking our answers, how long the lists in its answers may be."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from .pace import Pace

SAYS_AT_ONCE, SAYS_PER_S = 1_000, 100.0
"""How often a server is heard that nobody asked: so often at once, then so often in a second."""
UNANSWERED_MAX = 1_000
"""How many of its requests may be without an answer that it took."""
PARTS_MAX = 1_000
ENTRIES_MAX = 2_000
LISTS = ("tools", "resources", "resourceTemplates", "prompts", "contents", "messages")
"""The lists in answers whose entries are each read as a model of the `mcp` package, which takes time."""


def own_pace() -> Pace:
    """How often one server may speak that nobody asked."""
    return Pace(SAYS_AT_ONCE, SAYS_PER_S)


class Exchange:
    """What is open between a server and us."""

    def __init__(self, ended: Callable[[str], None]) -> None:
        self._ended = ended
        self._pace = own_pace()
        self._unanswered = 0

    async def asked(self) -> bool:
        """Counts a request of the server's; whether it is listened to any further."""
        await self.spoken()
        self._unanswered += 1
        if self._unanswered <= UNANSWERED_MAX:
            return True
        self._ended(f"it asked {self._unanswered} things and does not take the answers")
        return False

    async def spoken(self) -> None:
        """Counts a message that nobody asked for, and waits if there were too many."""
        wait_s = self._pace.wait_s(asyncio.get_running_loop().time())
        await asyncio.sleep(wait_s)

    def answered(self) -> None:
        """Counts an answer of ours that was taken."""
        self._unanswered = max(0, self._unanswered - 1)


class HeardStream:
    """What a server says, as the `mcp` package reads it."""

    def __init__(self, inner: Any, exchange: Exchange) -> None:
        self._inner = inner
        self._exchange = exchange

    @property
    def last_context(self) -> Any:
        """The context of whoever a message is for, where the transport knows it."""
        return getattr(self._inner, "last_context", None)

    async def receive(self) -> Any:
        import anyio

        item = await self._inner.receive()
        message = getattr(item, "message", None)
        if getattr(message, "method", None) is None:
            if isinstance(answer := getattr(message, "result", None), dict):
                shorten(answer)
        elif hasattr(message, "id"):
            if not await self._exchange.asked():
                raise anyio.EndOfStream
        else:
            await self._exchange.spoken()
        return item

    def __aiter__(self) -> HeardStream:
        return self

    async def __anext__(self) -> Any:
        import anyio

        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> HeardStream:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class SaidStream:
    """What we say to a server."""

    def __init__(self, inner: Any, exchange: Exchange) -> None:
        self._inner = inner
        self._exchange = exchange

    async def send(self, item: Any) -> None:
        await self._inner.send(item)
        if getattr(item.message, "method", None) is None:
            self._exchange.answered()

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> SaidStream:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


def shorten(result: dict[str, Any]) -> None:
    """Takes what is too much out of the lists of an answer; where a model reads it, with a word about that."""
    for name in LISTS:
        if isinstance(entries := result.get(name), list):
            del entries[ENTRIES_MAX:]
    content = result.get("content")
    if isinstance(content, list) and (more := len(content) - PARTS_MAX) > 0:
        content[PARTS_MAX:] = [{"type": "text", "text": f"[{more} more parts are left out]"}]
