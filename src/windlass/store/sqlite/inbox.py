"""Inboxes in the SQLite file: a row for each command, which stays as a mark of its id when an append has taken it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from zlib import crc32

import apsw

from windlass.events.errors import CommandTaken, Damaged, StorageFull
from windlass.events.stored.record import GENESIS
from windlass.store.base import INBOX_COMMANDS_MAX, InboxCommand, Key, Message, Sent, TakenCommand
from windlass.store.rules.ids import check_key
from windlass.store.rules.limits import check_command

from .database import Database
from .session_row import session_row

_PLACE = "UPDATE sessions SET position = position + 1 WHERE tenant = ? AND session = ? RETURNING sid, position"
"""The next place in a session's inbox."""
_PLACE_MADE = (
    "INSERT INTO sessions(tenant, session, seq, hash, position) "
    f"VALUES(?, ?, 0, '{GENESIS}', 1) ON CONFLICT(tenant, session) DO UPDATE SET position = position + 1 "
    "RETURNING sid, position"
)
"""The same for a session that is made, empty, if there is none."""
_WAITING = (
    "SELECT command_id, at_ms, data, commands.position, crc FROM sessions LEFT JOIN commands "
    "ON commands.sid = sessions.sid AND taken IS NULL WHERE tenant = ? AND session = ? "
    "ORDER BY commands.position LIMIT ?"
)
_TAKEN = (
    "SELECT 1 FROM commands WHERE sid = (SELECT sid FROM sessions WHERE tenant = ? AND session = ?) "
    "AND taken IS NOT NULL"
)


class SqliteInbox:
    """The inboxes of the store over one SQLite file."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.sends = 0
        """How many commands were sent through this handle."""

    async def send(self, key: Key, command: InboxCommand) -> Sent:
        check_key(key)
        check_command(command)
        # A command is acknowledged to its sender: it must be kept in either mode.
        sent = await self._database.write(lambda cursor: _send(cursor, key, command), barrier=True)
        self.sends += 1
        return sent

    async def waiting(self, key: Key, *, limit: int = 100) -> list[InboxCommand]:
        check_key(key)
        return self._database.read(lambda cursor: _waiting(cursor, key, limit))

    async def taken(self, key: Key, *, after: str = "", limit: int = 1000) -> list[TakenCommand]:
        check_key(key)
        return await self._database.read_long(lambda cursor: _taken(cursor, key, after, limit))


def _send(cursor: apsw.Cursor, key: Key, command: InboxCommand) -> Sent:
    sid = session_row(cursor, key).sid
    known: Any = cursor.execute(
        "SELECT taken FROM commands WHERE sid = ? AND command_id = ?", (sid, command.command_id)
    ).fetchall()
    if known:
        return Sent(new=False, taken=known[0][0] is not None)
    waiting: Any = cursor.execute("SELECT count(*) FROM commands WHERE sid = ? AND taken IS NULL", (sid,)).fetchone()
    if waiting[0] >= INBOX_COMMANDS_MAX:
        raise StorageFull(f"the inbox of session {key.session!r} holds {INBOX_COMMANDS_MAX} commands")
    place: Any = cursor.execute(_PLACE, (key.tenant, key.session)).fetchall()
    _insert(cursor, sid, place[0][1], command)
    return Sent(new=True, taken=False)


def deliver(cursor: apsw.Cursor, tenant: str, message: Message) -> None:
    """Puts what another session sends behind the commands of an inbox, unless it was sent before, within the
    transaction of the append that sends it; for nobody if there is no such session, unless the message makes it."""
    places: Any = cursor.execute(_PLACE_MADE if message.creates else _PLACE, (tenant, message.session)).fetchall()
    for sid, position in places:
        _insert(cursor, sid, position, message.command)


def _insert(cursor: apsw.Cursor, sid: int, position: int, command: InboxCommand) -> None:
    cursor.execute(
        "INSERT INTO commands(sid, command_id, position, at_ms, data, crc) VALUES(?, ?, ?, ?, ?, ?) "
        "ON CONFLICT(sid, command_id) DO NOTHING",
        (sid, command.command_id, position, command.at_ms, command.data, command_checksum(command)),
    )


def _waiting(cursor: apsw.Cursor, key: Key, limit: int) -> list[InboxCommand]:
    rows: Any = cursor.execute(_WAITING, (key.tenant, key.session, limit)).fetchall()
    if not rows:
        session_row(cursor, key)  # raises `NotFound` if nothing waits because there is no such session
    return [_whole(key, *row) for row in rows if row[0] is not None]


def _whole(key: Key, command_id: str, at_ms: int, data: bytes, position: int, crc: int) -> InboxCommand:
    command = InboxCommand(command_id=command_id, at_ms=at_ms, data=data, position=position)
    if command_checksum(command) != crc:
        raise Damaged(
            f"command {command_id!r} in the inbox of session {key.session!r} is not what was sent: put back a copy of "
            "the store"
        )
    return command


def command_checksum(command: InboxCommand) -> int:
    """What a command that waits must have."""
    return crc32(command.data, crc32(f"{command.command_id},{command.at_ms}".encode()))


def _taken(cursor: apsw.Cursor, key: Key, after: str, limit: int) -> list[TakenCommand]:
    sid = session_row(cursor, key).sid
    rows: Any = cursor.execute(
        "SELECT command_id, taken FROM commands WHERE sid = ? AND command_id > ? AND taken IS NOT NULL "
        "ORDER BY command_id LIMIT ?",
        (sid, after, limit),
    )
    return [TakenCommand(command_id, seq) for command_id, seq in rows]


def may_be_taken(cursor: apsw.Cursor, key: Key, takes: Sequence[str]) -> bool:
    """Whether an append must be judged by what it takes: it takes something twice, or what the log has."""
    if len(set(takes)) != len(takes):
        return True
    marks = ", ".join("?" * len(takes))
    return bool(cursor.execute(f"{_TAKEN} AND command_id IN ({marks})", (key.tenant, key.session, *takes)).fetchall())


def refuse_taken(cursor: apsw.Cursor, key: Key, sid: int, takes: Sequence[str]) -> None:
    """Raises `CommandTaken` if an append would take a command that the log has, or one twice."""
    if len(set(takes)) != len(takes):
        raise CommandTaken(f"session {key.session!r}: one append takes a command twice: {list(takes)!r}")
    for command_id in takes:
        if cursor.execute(
            "SELECT 1 FROM commands WHERE sid = ? AND command_id = ? AND taken IS NOT NULL", (sid, command_id)
        ).fetchall():
            raise CommandTaken(f"session {key.session!r} has taken command {command_id!r} before")


def take(cursor: apsw.Cursor, sid: int, takes: Sequence[TakenCommand]) -> None:
    """Marks commands as taken, within the transaction of the append that takes them."""
    # The data of a taken command is in the log from now on.
    cursor.executemany(
        "INSERT INTO commands(sid, command_id, position, at_ms, data, taken) VALUES(?, ?, 0, 0, NULL, ?) "
        "ON CONFLICT(sid, command_id) DO UPDATE SET taken = excluded.taken, data = NULL",
        [(sid, take.command_id, take.seq) for take in takes],
    )
