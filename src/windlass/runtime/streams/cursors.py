"""Cursors: opaque places in a session's log from which a reader goes on without a gap.

A cursor holds the seq of the last record that was read and the beginning of the hash of the append that holds it. The
hash covers all that came before, so a cursor fits every log that has the same past (a fork, a copy) and no other. It is
made only when somebody asks for it; nothing is computed for records that are merely read.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from windlass.events.errors import UsageError, WindlassError
from windlass.store.base import Key

if TYPE_CHECKING:
    from .log_reader import LogReader

VERSION = "c1"
PREFIX_CHARS = 12
"""72 bits of the hash: enough that no two logs are taken for one another."""
_FORM = re.compile(rf"{VERSION}\.(\d{{1,15}})\.([A-Za-z0-9_-]{{0,{PREFIX_CHARS}}})", re.ASCII)


class CursorMismatch(WindlassError):
    """The log is not the one that the cursor was made for: another session's, one that was restored from a backup, or
    a fork that left before. What was read until then must be forgotten; `restart` is the cursor to begin again at."""

    def __init__(self, session: str, cursor: str, why: str) -> None:
        self.cursor = cursor
        self.restart = BEGINNING
        super().__init__(
            f"cursor {cursor!r} does not fit the log of session {session!r}: {why}; forget what was read and restart "
            f"from the beginning (after={BEGINNING!r})"
        )


def made(seq: int, chain_hash: str) -> str:
    """The cursor behind a record, given the hash of the append that holds it."""
    return f"{VERSION}.{seq}.{chain_hash[:PREFIX_CHARS]}" if seq > 0 else BEGINNING


BEGINNING = f"{VERSION}.0."
"""The cursor before the first record; it fits every log."""


def read(cursor: str) -> tuple[int, str]:
    """The seq and the beginning of the hash that a cursor holds. Raises `UsageError` for what is no cursor."""
    match = _FORM.fullmatch(cursor)
    seq = int(match[1]) if match is not None else 0
    if match is None or (seq > 0 and len(match[2]) != PREFIX_CHARS):
        raise UsageError(f"{cursor!r} is no cursor: give one that a record or session.cursor() told, or None")
    return seq, match[2]


class Cursors:
    """Cursors held against the logs of a store."""

    def __init__(self, log: LogReader) -> None:
        self._log = log

    async def seq_of(self, key: Key, after: str | int | None) -> int:
        """The seq behind which a reader goes on. A cursor is checked against the log, a plain seq is not. Raises
        `CursorMismatch` for a cursor of another log."""
        if after is None or isinstance(after, int):
            return after or 0
        seq, begins = read(after)
        if seq == 0:
            return 0
        append = await self._log.append_at(key, seq)
        if append is None:
            raise CursorMismatch(key.session, after, f"the log ends before record {seq}")
        if not append.hash.startswith(begins):
            raise CursorMismatch(key.session, after, f"record {seq} is another one there")
        return seq

    async def behind(self, key: Key, seq: int) -> str:
        """The cursor behind a record that is in the log."""
        append = await self._log.append_at(key, seq) if seq > 0 else None
        return made(seq, append.hash if append is not None else "")

    async def end(self, key: Key) -> str:
        """The cursor behind the last record of the log."""
        head = await self._log.head(key)
        return made(head.seq, head.hash) if head is not None else BEGINNING
