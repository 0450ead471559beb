"""What happens in sessions that somebody else drives, handed to the readers here: one stream for each session that has
readers, opened again behind the last record whenever it breaks off.

A reader trusts the log and not the stream: after every break it is sent to the log, so nothing is missed, and what it
has seen is not told twice.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Union

import msgspec

from windlass.events.errors import CodecError, WindlassError
from windlass.events.live import LIVE_EVENTS
from windlass.events.stored import codec
from windlass.models.transport.sse import EventParser, LineTooLong
from windlass.store.base import Key
from windlass.store.driven_elsewhere import Elsewhere
from windlass.tools.planes.task_stops import ended

from . import cursors
from .record import Record
from .subscribers import Hub

LOG = logging.getLogger("windlass.store")
WAIT_S = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
"""How long it waits before a stream is opened again, the oftener it broke off the longer."""
TOLD_S = 10.0
"""How long a reader trusts a stream that is open before it looks at the log in any case."""


class _Heard(msgspec.Struct, frozen=True):
    """One event of the stream: a record or something live; anything else has no event."""

    event: msgspec.Raw = msgspec.Raw()
    seq: int = 0
    at_ms: int = 0
    cause: int = 0
    cursor: str = ""
    ephemeral: bool = False


_heard = msgspec.json.Decoder(_Heard)
_live: msgspec.json.Decoder[Any] = msgspec.json.Decoder(Union[LIVE_EVENTS])  # noqa: UP007


class Feed:
    """The stream of one session."""

    def __init__(self, key: Key, elsewhere: Elsewhere, hub: Hub, end: Callable[[Key], Awaitable[str]]) -> None:
        self._key = key
        self._elsewhere = elsewhere
        self._hub = hub
        self._end = end
        self.open = asyncio.Event()
        """Whether the stream is open, so that nothing is missed of what happens."""
        self.task: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Tells what happens until nobody listens."""
        tries = 0
        while True:
            try:
                await self._follow(await self._end(self._key))
                tries = 0
            except (OSError, TimeoutError, LineTooLong, msgspec.DecodeError) as error:
                LOG.info("the stream of session %r broke off and is opened again: %s", self._key.session, error)
            except WindlassError as error:  # readers find out the same from the log, and raise it
                LOG.warning("session %r cannot be followed: %s", self._key.session, error)
            if self.open.is_set():
                tries = 0
            self.open.clear()
            self._hub.look()
            await asyncio.sleep(WAIT_S[min(tries, len(WAIT_S) - 1)])
            tries += 1

    async def _follow(self, after: str) -> None:
        parser = EventParser()
        async with self._elsewhere.follow(self._key, after) as chunks:
            async for chunk in chunks:
                if not self.open.is_set():  # a server listens before it says anything
                    self._hub.look()  # what came between a reader's last look and now is in the log
                    self.open.set()
                for data in parser.feed(chunk):
                    self._tell(_heard.decode(data))

    def _tell(self, heard: _Heard) -> None:
        if not bytes(heard.event):
            return
        if heard.ephemeral:
            self._hub.live([_live.decode(heard.event)])
            return
        try:
            event = codec.decode_view(bytes(heard.event))
        except CodecError:  # of a newer version: the log says whether it may be passed over
            self._hub.look()
            return
        prefix = cursors.read(heard.cursor)[1]
        record = Record(seq=heard.seq, at_ms=heard.at_ms, event=event, first=heard.cause, hash=prefix)
        self._hub.committed([record], len(bytes(heard.event)))


class Feeds:
    """The streams of all sessions that have readers here."""

    def __init__(self, elsewhere: Elsewhere, end: Callable[[Key], Awaitable[str]]) -> None:
        self._elsewhere = elsewhere
        self._end = end
        self._feeds: dict[Key, Feed] = {}

    def begin(self, key: Key, hub: Hub) -> None:
        """Somebody listens to a session."""
        if key not in self._feeds:
            feed = self._feeds[key] = Feed(key, self._elsewhere, hub, self._end)
            feed.task = asyncio.get_running_loop().create_task(feed.run(), name=f"windlass:feed:{key.session}")

    def leave(self, key: Key) -> None:
        """Nobody does any more."""
        feed = self._feeds.pop(key, None)
        if feed is not None and feed.task is not None:
            feed.task.cancel()

    def patience_s(self, key: Key, poll_s: float) -> float:
        """How long a reader of a session waits before it looks at the log."""
        feed = self._feeds.get(key)
        return TOLD_S if feed is not None and feed.open.is_set() else poll_s

    async def ready(self, key: Key, patience_s: float) -> bool:
        """Waits until the stream of a session is open, so that what is said next is heard from its beginning. Whether
        it is: if not, the log says it all, later."""
        feed = self._feeds.get(key)
        if feed is None:
            return False
        try:
            async with asyncio.timeout(patience_s):
                await feed.open.wait()
        except TimeoutError:
            return False
        return True

    async def close(self) -> None:
        """Ends all of them."""
        tasks = [feed.task for feed in self._feeds.values() if feed.task is not None]
        self._feeds.clear()
        for task in tasks:
            task.cancel()
        await ended(tasks)
