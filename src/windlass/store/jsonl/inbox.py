"""Inboxes in the directory: a file of lines in each session's."""

from __future__ import annotations

from windlass.store.base import InboxCommand, Key, Sent, TakenCommand
from windlass.store.rules.ids import check_key
from windlass.store.rules.limits import check_command

from .writer import DirectoryWriter


class JsonlInbox:
    """The inboxes of the store over a directory."""

    def __init__(self, writer: DirectoryWriter) -> None:
        self._writer = writer

    async def send(self, key: Key, command: InboxCommand) -> Sent:
        check_key(key)
        check_command(command)
        # A command is acknowledged to its sender: it must be kept in either mode.
        return await self._writer.do(lambda directory: directory.view(key).send(command), barrier=True)

    async def waiting(self, key: Key, *, limit: int = 100) -> list[InboxCommand]:
        check_key(key)
        return await self._writer.do(lambda directory: directory.view(key).waiting(limit))

    async def taken(self, key: Key, *, after: str = "", limit: int = 1000) -> list[TakenCommand]:
        check_key(key)
        return await self._writer.do(lambda directory: directory.view(key).ledger.taken_after(after, limit))
