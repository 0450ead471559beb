"""What a session's appends say to other sessions: the messages filled with their content, and put into inboxes.

A store that sends does so with the append itself; for one that does not, they are sent behind it, and again when the
log is read anew: whoever gets one twice takes it once.
"""

from __future__ import annotations

from collections.abc import Sequence

from windlass.events.base import Event
from windlass.kernel.part import Send
from windlass.kernel.state import State
from windlass.runtime.trees.message_content import posted
from windlass.store.base import Key, Message, Store

from .event_memory import EventMemory


class Outbox:
    """What goes out of one session."""

    def __init__(self, store: Store, key: Key, memory: EventMemory) -> None:
        self._store = store
        self._key = key
        self._memory = memory

    async def filled(self, state: State, seq: int, events: list[Event], sends: Sequence[Send]) -> list[Message]:
        """What an append that begins at `seq` says to other sessions, content included."""
        memory = self._memory
        wanted = [send.content_seq for send in sends if send.content_seq is not None and send.content_seq < seq]
        missing = [number for number in wanted if memory.known(number) is None]
        if missing:
            await memory.fetch(missing)
        here = dict(enumerate(events, start=seq))
        return [posted(state, send, events, lambda at: here.get(at) or memory.known(at)) for send in sends]

    async def send_apart(self, sends: Sequence[Message]) -> None:
        """Puts messages into inboxes of a store that does not do so with an append."""
        for message in sends:
            key = Key(self._key.tenant, message.session)
            if message.creates:
                await self._store.log.create(key)
            elif await self._store.log.head(key) is None:
                continue
            await self._store.inbox.send(key, message.command)
