"""Leases and epochs in the SQLite file: columns of a session's row."""

from __future__ import annotations

import functools

import apsw
import msgspec

from windlass.events.errors import StaleEpoch
from windlass.store.base import Claim, Holder, Key
from windlass.store.rules.ids import check_key
from windlass.store.rules.lease_expiry import Sightings
from windlass.store.rules.limits import check_ttl
from windlass.store.rules.session_ledger import judge_claim, judge_epoch, was_lost
from windlass.store.runner_names import process_of

from .database import Database
from .session_row import session_row


class SqliteLeases:
    """The leases of the store over one SQLite file."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._sightings = Sightings()

    async def claim(self, key: Key, *, runner: str, ttl_ms: int, now_ms: int, renew: bool = False) -> Claim:
        check_key(key)
        check_ttl(ttl_ms)
        work = functools.partial(_claim, key=key, runner=runner, ttl_ms=ttl_ms, now_ms=now_ms, renew=renew)
        return await self._database.write(functools.partial(work, sightings=self._sightings))

    async def keep(self, key: Key, *, runner: str, epoch: int, ttl_ms: int, now_ms: int) -> None:
        check_key(key)
        check_ttl(ttl_ms)
        await self._database.write(lambda cursor: _keep(cursor, key, runner, epoch, now_ms + ttl_ms))

    async def release(self, key: Key, *, runner: str, epoch: int) -> None:
        check_key(key)
        await self._database.write(lambda cursor: _release(cursor, key, runner, epoch))

    async def holder(self, key: Key, *, now_ms: int) -> Holder | None:
        check_key(key)
        session = self._database.read(lambda cursor: session_row(cursor, key))
        return self._sightings.holder(key, session.lease, now_ms)


def _claim(
    cursor: apsw.Cursor, key: Key, runner: str, ttl_ms: int, now_ms: int, renew: bool, sightings: Sightings
) -> Claim:
    session = session_row(cursor, key)
    epoch = judge_claim(key, runner, now_ms, renew, session.lease, sightings)
    cursor.execute(
        "UPDATE sessions SET epoch = ?, owner = ?, until_ms = ? WHERE sid = ?",
        (epoch, runner, now_ms + ttl_ms, session.sid),
    )
    head = msgspec.structs.replace(session.head(), epoch=epoch)
    return Claim(epoch=epoch, head=head, until_ms=now_ms + ttl_ms, lost=was_lost(runner, session.lease))


def _keep(cursor: apsw.Cursor, key: Key, runner: str, epoch: int, until_ms: int) -> None:
    session = session_row(cursor, key)
    judge_epoch(key, epoch, session.epoch, session.owner)
    if session.owner != runner:
        raise StaleEpoch(f"session {key.session!r} was taken by {process_of(session.owner)}")
    cursor.execute("UPDATE sessions SET until_ms = ? WHERE sid = ?", (until_ms, session.sid))


def _release(cursor: apsw.Cursor, key: Key, runner: str, epoch: int) -> None:
    session = session_row(cursor, key)
    cursor.execute(
        "UPDATE sessions SET until_ms = 0 WHERE sid = ? AND owner = ? AND epoch = ?", (session.sid, runner, epoch)
    )
