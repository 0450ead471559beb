"""A command on its way to a session: awaited for its acknowledgement, or iterated for what follows from it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Generator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import msgspec

from windlass.events.base import Command, Event
from windlass.events.commands import PromptReceived
from windlass.events.live import Live
from windlass.runtime.bind.local_code import Lent
from windlass.runtime.streams.record import Record

from .command_bodies import needs_reading

if TYPE_CHECKING:
    from .session import Session


class Sent:
    """A command on its way. Await it: it is acknowledged, kept and will be carried out. Iterate it instead: the events
    that follow, live, until its terminal. Leaving the loop detaches; it never cancels."""

    def __init__(self, session: Session, command: Command, lent: Lent | None = None) -> None:
        self._session = session
        self._command = command if command.auth is not None else msgspec.structs.replace(command, auth="none")
        self._lent = lent
        self._is_read = False
        self.command_id = command.command_id

    def __await__(self) -> Generator[Any, None, str]:
        return self._send().__await__()

    async def _send(self) -> str:
        await self._taken()
        return self.command_id

    async def _taken(self) -> None:
        """Has it taken. What is attached to a prompt is read before the first time, and never again."""
        runtime, key, command = self._session.runtime, self._session.key, self._command
        if not self._is_read and isinstance(command, PromptReceived) and needs_reading(command.body):
            from windlass.runtime.commands.attachments import with_attachments

            command = self._command = await with_attachments(command, runtime.store, key.tenant)
        self._is_read = True
        await runtime.send(key, command, self._lent)

    def __aiter__(self) -> AsyncIterator[Event | Live]:
        return self._events()

    async def _events(self) -> AsyncIterator[Event | Live]:
        session = self._session
        streams = session.runtime.host.streams
        async with aclosing(streams.follow_together(session.key, self.command_id, self._taken)) as runs:
            async for run in runs:
                for told in run:
                    yield told.event if type(told) is Record else told

    def tail(self) -> AsyncIterator[Record | Live]:
        """The same as iterating it, each committed event with its place in the log."""
        return self._session.runtime.host.streams.follow(self._session.key, self.command_id, self._taken)
